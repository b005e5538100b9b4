"""Legacy histories in: read, judged, published or written to the lake (docs/jobs/ingest.md)."""
