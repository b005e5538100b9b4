"""The last run of a job as a file for Prometheus, and collectors behind a port.

A job that ends cannot be scraped. It leaves a file for the textfile collector of the node exporter
(docs/pipeline.md#metrics-of-the-jobs), which also keeps when the job last succeeded.
"""

from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, start_http_server, write_to_textfile
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from aviso_server.pipeline.runs.run import JobRun, Outcome

_SUCCEEDED = "aviso_job_last_success_timestamp_seconds"


def write_metrics(path: Path, run: JobRun, outcome: Outcome, *, began: float, ended: float) -> None:
    """Replace the file; times are seconds since the epoch."""
    registry = CollectorRegistry()

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, ["job", *labels], registry=registry)

    job = run.job
    gauge("aviso_job_last_run_timestamp_seconds", "When the job last ended.").labels(job).set(ended)
    gauge("aviso_job_last_duration_seconds", "How long its last run took.").labels(job).set(
        ended - began
    )
    succeeded = ended if outcome == "complete" else _last_success(path, job)
    gauge(_SUCCEEDED, "When a run of the job was last complete; 0 if never.").labels(job).set(
        succeeded
    )
    ends = gauge("aviso_job_last_outcome", "1 for what became of its last run.", "outcome")
    for name in ("complete", "failed", "interrupted"):
        ends.labels(job, name).set(name == outcome)
    rows = gauge("aviso_job_last_rows", "What its last run counted.", "kind")
    for kind, count in run.rows.items():
        rows.labels(job, kind).set(count)
    write_to_textfile(str(path), registry)


def _last_success(path: Path, job: str) -> float:
    """What an earlier run left."""
    try:
        families = list(text_string_to_metric_families(path.read_text()))
    except (OSError, ValueError):
        return 0.0
    samples = (sample for family in families for sample in family.samples)
    found = (s.value for s in samples if s.name == _SUCCEEDED and s.labels.get("job") == job)
    return next(found, 0.0)


def serve_collector(metrics: Collector, port: int, host: str = "127.0.0.1") -> int:
    """Answer scrapes until the process ends; the port, which the system picks for 0."""
    registry = CollectorRegistry()
    registry.register(metrics)
    server, _ = start_http_server(port, host, registry)
    return int(server.server_port)
