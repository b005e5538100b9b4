"""Legacy histories in: read, validated, published or written to the lake (docs/jobs/ingest.md)."""
