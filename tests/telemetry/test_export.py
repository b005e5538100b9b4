"""Export over OTLP: what arrives at a collector, what is withheld, what is dropped."""

import builtins
import gzip
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import aiohttp
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.config import settings

from aviso_server.core.json import Json
from aviso_server.server.build import StartFailed, open_otlp
from aviso_server.server.serve import logged, serving
from aviso_server.telemetry import exposition
from aviso_server.telemetry.cells import Cells
from aviso_server.telemetry.export import is_sensitive
from aviso_server.telemetry.metrics import Metrics

TRACE = "0af7651916cd43dd8448eb211c80319c"
BODY: dict[str, Any] = {"event_type": "ev", "identifier": {"region": "n"}}


class Collector:
    """Takes OTLP over HTTP, as a real collector does, and keeps it."""

    def __init__(self) -> None:
        self.logs: list[Any] = []
        self.spans: list[Any] = []
        self.status = 200
        self._lock = threading.Lock()
        collector = self

        class _Requests(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, body)
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Requests)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, path: str, body: bytes) -> None:
        """Keep what one request holds."""
        with self._lock:
            if path == "/v1/logs":
                logs = ExportLogsServiceRequest.FromString(body)
                for resource in logs.resource_logs:
                    for scope in resource.scope_logs:
                        self.logs += scope.log_records
            elif path == "/v1/traces":
                traces = ExportTraceServiceRequest.FromString(body)
                for spans in traces.resource_spans:
                    for within in spans.scope_spans:
                        self.spans += within.spans

    def close(self) -> None:
        """End."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def named(self, event_name: str) -> list[Any]:
        """The records of one kind."""
        return [item for item in self.logs if attributes(item).get("event.name") == event_name]


def attributes(item: Any) -> dict[str, str]:
    """Attributes of a record or span that are text."""
    return {entry.key: entry.value.string_value for entry in item.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector, and the suite's quiet logger afterwards."""
    before = structlog.get_config()
    started = Collector()
    yield started
    started.close()
    structlog.configure(**before)


def exporting(url: str, protocol: str = "http") -> Any:
    """Settings that export there."""
    otlp: dict[str, Json] = {"enabled": True, "endpoint": url, "protocol": protocol}
    return settings({"logging": {"otlp": otlp}})


async def test_records_and_spans_of_a_request(
    collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    """A notify inside a caller's trace: span and record have its id, and stdout has the record."""
    chosen = exporting(collector.url)
    parent = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    with logged(chosen) as export:
        async with serving(chosen, export=export) as running, aiohttp.ClientSession() as session:
            url = f"{running.url}/api/v1/notification"
            async with session.post(url, json=BODY, headers=parent) as answer:
                assert answer.status == 200
                request_id = answer.headers["X-Request-ID"]
            async with session.get(f"{running.url}/nothing") as answer:
                assert answer.status == 404
    (record,) = collector.named("api.notification.processed")
    assert attributes(record)["request_id"] == request_id
    assert (record.body.string_value, record.severity_text) == ("Notification processed", "INFO")
    span = next(item for item in collector.spans if item.name == "POST /api/v1/notification")
    assert span.trace_id.hex() == record.trace_id.hex() == TRACE
    assert span.span_id == record.span_id
    assert attributes(span)["request_id"] == request_id
    assert "GET unmatched" in {item.name for item in collector.spans}
    printed = capsys.readouterr().out
    assert f'"traceId":"{TRACE}"' in printed
    assert '"event.name":"api.notification.processed"' in printed


def test_records_with_secrets_stay_here(
    collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are on stdout, redacted, and not exported at all; their number is known."""
    with logged(exporting(collector.url)) as export:
        journal = structlog.get_logger()
        journal.info("one", event_name="x.key", password="hunter2")
        journal.info("two", event_name="x.url", url="nats://me:hunter2@host")
        journal.info("three", event_name="x.fine", count=3)
    assert export is not None
    assert (export.outcomes.withheld, export.outcomes.failed) == (2, 0)
    assert collector.named("x.key") == collector.named("x.url") == []
    assert len(collector.named("x.fine")) == 1
    assert b"hunter2" not in b"".join(item.SerializeToString() for item in collector.logs)
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("x.key", "x.url", "x.fine"))


def test_a_collector_that_is_away_holds_nothing_up(capsys: pytest.CaptureFixture[str]) -> None:
    """Far more records than the queue holds are all on stdout, and the end is not waited for."""
    before = structlog.get_config()
    try:
        with logged(exporting("http://127.0.0.1:9")):
            for number in range(5000):
                structlog.get_logger().info("x", event_name="x.many", number=number)
        assert capsys.readouterr().out.count("x.many") == 5000
    finally:
        structlog.configure(**before)


def test_metrics_are_told_each_outcome_once(collector: Collector) -> None:
    """A batch that the collector refuses, and a record withheld, however often they ask."""
    collector.status = 400
    with logged(exporting(collector.url)) as export:
        structlog.get_logger().info("one", event_name="x.key", password="hunter2")
        structlog.get_logger().info("two", event_name="x.fine")
    assert export is not None
    metrics = Metrics(Cells.private(), version="0", backend="in_memory")
    for _ in range(2):
        export.outcomes.report(metrics)
    assert metrics.cells is not None
    page = exposition.render(metrics.cells.snapshot(), []).decode()
    assert "aviso_otlp_export_failures_total 1" in page
    assert "aviso_otlp_suppressed_log_records_total 1" in page


secrets = st.text("abcXYZ019", min_size=6, max_size=12).map(lambda text: f"Q{text}Q")


@given(secrets, st.sampled_from(["password", "Jwt_Secret", "token", "Authorization", "x_api_key"]))
def test_a_secret_is_found_at_any_depth(secret: str, key: str) -> None:
    """By its key, or by what stands around it in a text."""
    for hidden in (
        {key: secret},
        {"a": [{"b": {key: ""}}]},
        {"a": {"b": ["x", f"see https://u:{secret}@host/"]}},
        {"message": f"Bearer {secret}"},
    ):
        assert is_sensitive(hidden)


@given(st.dictionaries(st.sampled_from(["topic", "count"]), st.integers() | st.just("a.b.c")))
def test_other_records_are_not_withheld(record: Mapping[str, object]) -> None:
    """Ordinary values pass."""
    assert not is_sensitive(record)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_without_the_package_the_server_does_not_start(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what to install."""
    real = builtins.__import__

    def missing(
        name: str,
        globals_: Mapping[str, object] | None = None,
        locals_: Mapping[str, object] | None = None,
        wanted: Sequence[str] = (),
        level: int = 0,
    ) -> Any:
        if name.startswith("opentelemetry.exporter"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return real(name, globals_, locals_, wanted, level)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(StartFailed, match=r"logging\.otlp needs a package .*pip install"):
        open_otlp(exporting("http://127.0.0.1:9", protocol))


def test_export_is_off_by_default() -> None:
    """Nothing is opened."""
    assert open_otlp(settings()) is None
