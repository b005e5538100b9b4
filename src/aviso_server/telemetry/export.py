"""Export of log records and request spans over OTLP; off unless configured.

A background thread sends batches. The queue is bounded; what does not fit is dropped from the
export only, never from stdout. The OpenTelemetry packages are optional and imported on opening.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from structlog.typing import EventDict

from aviso_server.core.json import Json
from aviso_server.telemetry.log import Line
from aviso_server.telemetry.metrics import Metrics
from aviso_server.telemetry.redaction import REDACTED, redact

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

QUEUE = 2048
"""Records waiting at most, and spans likewise: about a second of a busy server."""

BATCH = 512

TIMEOUT_S = 5.0
"""For one batch to be taken."""

FAREWELL_S = 3.0
"""For the last batches at the end; the process must be gone within 30 s."""


class ExportMissing(Exception):
    """Export is configured and cannot be had; the message says what to do."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Where to, and how often."""

    endpoint: str
    protocol: str
    """``http`` or ``grpc``."""
    every_s: float = 1.0


class RequestSpan:
    """One request as traces show it."""

    __slots__ = ("_span", "ids")

    def __init__(self, span: "Span") -> None:
        self._span = span
        context = span.get_span_context()
        self.ids = {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
        """Under these names log records carry them."""

    def end(self, name: str, attributes: Mapping[str, str | int], *, failed: bool) -> None:
        """Report what it was and its outcome."""
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415

        self._span.update_name(name)
        self._span.set_attributes(dict(attributes))
        if failed:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


class Outcomes:
    """Counts records that are not exported; the numbers are passed to the metrics later.

    Batches fail in the export's own thread, and metrics are counted in the server's only.
    """

    def __init__(self) -> None:
        self.withheld = 0
        self.failed = 0
        self._told = (0, 0)

    def report(self, metrics: Metrics) -> None:
        """Report what is new."""
        withheld, failed = self.withheld, self.failed
        metrics.export_suppressed(withheld - self._told[0])
        for _ in range(failed - self._told[1]):
            metrics.export_failed()
        self._told = withheld, failed


class Export:
    """Sends records and spans; ``close`` sends the last ones."""

    def __init__(
        self,
        logs: "LoggerProvider",
        traces: "TracerProvider",
        *,
        outcomes: Outcomes,
        now_ns: Callable[[], int],
    ) -> None:
        self.outcomes = outcomes
        self._logs = logs
        self._traces = traces
        self._logger = logs.get_logger("aviso_server")
        self._tracer = traces.get_tracer("aviso_server")
        self._now_ns = now_ns

    def take(self, record: EventDict, line: Line) -> None:
        """Queue a record, unless there was something to redact in it: then it stays here."""
        if is_sensitive(record):
            self.outcomes.withheld += 1
            return
        from opentelemetry._logs import LogRecord, SeverityNumber  # noqa: PLC0415

        self._logger.emit(
            LogRecord(
                timestamp=self._now_ns(),
                trace_id=int(str(line.get("traceId", "0")), 16),
                span_id=int(str(line.get("spanId", "0")), 16),
                severity_text=str(line["severityText"]),
                severity_number=SeverityNumber(line["severityNumber"]),
                body=str(line["body"]),
                attributes=_plain_map(line["attributes"]),
            )
        )

    def request(self, headers: Mapping[str, str]) -> RequestSpan:
        """Begin a span, inside the caller's trace if it sent a ``traceparent``."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )

        carried = {name.lower(): value for name, value in headers.items()}
        parent = TraceContextTextMapPropagator().extract(carried)
        return RequestSpan(self._tracer.start_span("request", context=parent, kind=SpanKind.SERVER))

    def close(self) -> None:
        """Send what is left; a collector that does not answer is not waited for."""

        def end() -> None:
            self._traces.shutdown()
            self._logs.shutdown()

        ending = threading.Thread(target=end, daemon=True)
        ending.start()
        ending.join(FAREWELL_S)


def open_export(
    options: ExportOptions, resource: Mapping[str, str], *, now_ns: Callable[[], int]
) -> Export:
    """Start exporting, or ExportMissing; whether the collector is reachable shows later."""
    try:
        from opentelemetry.sdk._logs import LoggerProvider  # noqa: PLC0415
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        records, spans = _exporters(options)
        outcomes = Outcomes()
        _count_failures(records, outcomes)
    except ImportError as error:
        raise ExportMissing(
            f"logging.otlp needs a package that is not installed ({error.name}): {_remedy(options)}"
        ) from error
    about = Resource.create(dict(resource))
    logs = LoggerProvider(about, shutdown_on_exit=False)
    logs.add_log_record_processor(
        BatchLogRecordProcessor(
            records,
            schedule_delay_millis=options.every_s * 1000,
            max_export_batch_size=BATCH,
            max_queue_size=QUEUE,
        )
    )
    traces = TracerProvider(resource=about, shutdown_on_exit=False)
    traces.add_span_processor(
        BatchSpanProcessor(
            spans,
            max_queue_size=QUEUE,
            schedule_delay_millis=options.every_s * 1000,
            max_export_batch_size=BATCH,
        )
    )
    return Export(logs, traces, outcomes=outcomes, now_ns=now_ns)


def _count_failures(exporter: "LogRecordExporter", outcomes: Outcomes) -> None:
    """Count batches that the collector did not take; the batch processor only drops them."""
    from opentelemetry.sdk._logs.export import LogRecordExportResult  # noqa: PLC0415

    inner = exporter.export

    def export(batch: "Sequence[ReadableLogRecord]") -> LogRecordExportResult:
        result = inner(batch)
        if result is not LogRecordExportResult.SUCCESS:
            outcomes.failed += 1
        return result

    exporter.export = export  # type: ignore[method-assign]  # it has no hook for this


def _exporters(options: ExportOptions) -> tuple["LogRecordExporter", "SpanExporter"]:
    if options.protocol == "http":
        from opentelemetry.exporter.otlp.proto.http import (  # noqa: PLC0415
            _log_exporter,
            trace_exporter,
        )

        base = options.endpoint.rstrip("/").removesuffix("/v1/logs")
        return (
            _log_exporter.OTLPLogExporter(f"{base}/v1/logs", timeout=TIMEOUT_S),
            trace_exporter.OTLPSpanExporter(f"{base}/v1/traces", timeout=TIMEOUT_S),
        )
    from opentelemetry.exporter.otlp.proto.grpc import (  # noqa: PLC0415
        _log_exporter as grpc_logs,
    )
    from opentelemetry.exporter.otlp.proto.grpc import (  # noqa: PLC0415
        trace_exporter as grpc_traces,
    )

    return (
        grpc_logs.OTLPLogExporter(options.endpoint, timeout=TIMEOUT_S),
        grpc_traces.OTLPSpanExporter(options.endpoint, timeout=TIMEOUT_S),
    )


def _remedy(options: ExportOptions) -> str:
    if options.protocol == "http":
        return "pip install 'aviso-server[otlp]'"
    return "pip install opentelemetry-exporter-otlp-proto-grpc, or set logging.otlp.protocol: http"


def is_sensitive(value: object) -> bool:
    """True if a sensitive key, or text that redaction alters or has altered, is in it anywhere."""
    if isinstance(value, str):
        return REDACTED in value or redact(value) != value
    if isinstance(value, Mapping):
        return any(redact("x", str(key)) == REDACTED or is_sensitive(value[key]) for key in value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return any(map(is_sensitive, value))
    return False


def _plain_map(value: object) -> dict[str, Json]:
    if not isinstance(value, Mapping):
        return {}
    return {str(name): _plain(item) for name, item in value.items()}


def _plain(value: object) -> Json:
    """A value as OTLP can carry it; what it cannot becomes text."""
    match value:
        case str() | bool() | int() | float() | None:
            return value
        case Mapping():
            return _plain_map(value)
        case Sequence():
            return [_plain(item) for item in value]
        case _:
            return str(value)
