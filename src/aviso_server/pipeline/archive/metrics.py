"""The archive job's numbers for Prometheus (docs/pipeline.md)."""

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from aviso_server.pipeline.archive.progress import ArchiveSnapshot


class ArchiveMetrics(Collector):
    """The last snapshot as series."""

    def __init__(self) -> None:
        self._last = ArchiveSnapshot("starting")
        self._others: list[Collector] = []

    def add(self, other: Collector) -> None:
        """Show what works beside the job, too."""
        self._others.append(other)

    def show(self, snapshot: ArchiveSnapshot) -> None:
        """Take the newest snapshot."""
        self._last = snapshot

    def collect(self) -> list[Metric]:
        """The current series."""
        now = self._last
        lag = GaugeMetricFamily(
            "aviso_archive_lag_notifications",
            "Notifications in the log that are not archived yet.",
            labels=["event_type"],
        )
        for name, reach in sorted(now.event_types.items()):
            lag.add_metric([name], max(0, reach.last - reach.through))
        unexpected = CounterMetricFamily(
            "aviso_archive_unexpected_notifications",
            "Archived notifications that are not as expected of their event type.",
            labels=["event_type", "expectation"],
        )
        for names, count in sorted(now.unexpected.items()):
            unexpected.add_metric(names, count)
        return [
            *(series for other in self._others for series in other.collect()),
            unexpected,
            CounterMetricFamily(
                "aviso_archive_notifications",
                "Notifications archived since the job was started.",
                value=now.archived,
            ),
            CounterMetricFamily(
                "aviso_archive_dead_letters",
                "Stored messages that could not be decoded.",
                value=now.letters,
            ),
            CounterMetricFamily(
                "aviso_archive_batches", "Micro-batches committed.", value=now.batches
            ),
            GaugeMetricFamily(
                "aviso_archive_rate", "Notifications per second, lately.", value=now.rate
            ),
            lag,
            GaugeMetricFamily(
                "aviso_archive_lag_seconds",
                "Age of the oldest notification not archived yet, at most; 0 if there is none.",
                value=now.lag_s,
            ),
            GaugeMetricFamily(
                "aviso_archive_last_commit_timestamp_seconds",
                "When the last micro-batch was committed; 0 before the first.",
                value=now.committed_at or 0,
            ),
        ]
