"""What upkeep does, for Prometheus (docs/pipeline.md)."""

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from aviso_server.pipeline.maintain.upkeep import UpkeepTally


class UpkeepMetrics(Collector):
    """A tally as series."""

    def __init__(self, tally: UpkeepTally) -> None:
        self._tally = tally

    def collect(self) -> list[Metric]:
        """The current series."""
        now = self._tally
        return [
            CounterMetricFamily(
                "aviso_upkeep_merged_files", "Small files that were put together.", value=now.files
            ),
            CounterMetricFamily(
                "aviso_upkeep_written_files", "Files that they became.", value=now.written
            ),
            CounterMetricFamily(
                "aviso_upkeep_merged_bytes", "Bytes of what was put together.", value=now.size
            ),
            CounterMetricFamily(
                "aviso_upkeep_failures",
                "Passes that failed and were tried again.",
                value=now.failures,
            ),
            GaugeMetricFamily(
                "aviso_upkeep_last_complete_timestamp_seconds",
                "When nothing was left to put together; 0 before.",
                value=now.ended_at,
            ),
        ]
