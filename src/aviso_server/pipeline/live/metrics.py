"""The live job's numbers for Prometheus (docs/pipeline.md#metrics-of-the-jobs)."""

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from aviso_server.pipeline.live.job import LiveOutcome


class LiveMetrics(Collector):
    """The last outcome as series."""

    def __init__(self) -> None:
        self._last = LiveOutcome()

    def show(self, outcome: LiveOutcome) -> None:
        """Take the newest outcome."""
        self._last = outcome

    def collect(self) -> list[Metric]:
        """The current series."""
        now = self._last
        alerts = CounterMetricFamily(
            "aviso_live_alerts", "Alerts published since the job was started.", labels=["kind"]
        )
        for kind, count in sorted(now.alerts.items()):
            alerts.add_metric([kind], count)
        return [
            CounterMetricFamily(
                "aviso_live_notifications",
                "Notifications read since the job was started.",
                value=now.notifications,
            ),
            CounterMetricFamily(
                "aviso_live_late_notifications",
                "Notifications that came after their window was reported.",
                value=now.late_rows,
            ),
            alerts,
            GaugeMetricFamily(
                "aviso_live_in_trouble",
                "1 while a query cannot go on and is started again, else 0.",
                value=now.trouble is not None,
            ),
        ]
