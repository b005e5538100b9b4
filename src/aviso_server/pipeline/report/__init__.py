"""Analytics of a lake for an operator: tables, and one page to read (docs/jobs/report.md)."""
