"""What each event moves, and what is shown from the start."""

from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fuzz import examples
from support.metrics import Sample, moved, shown

from aviso_server.backends.backend import Reason
from aviso_server.core.operation import Operation
from aviso_server.telemetry.cells import Cells
from aviso_server.telemetry.metrics import SILENT, Metrics
from aviso_server.telemetry.series import SERIES, Growth

WATCH = {"route": "/api/v1/watch", "event_type": "ev"}


def metrics() -> Metrics:
    """Those of a server with two event types."""
    return Metrics(
        Cells.private(), version="1.2.3", backend="in_memory", event_types=("ev", "area")
    )


def test_zeros_from_the_start() -> None:
    """Exactly the series docs/metrics.md names, and our additions, are there before any event."""
    calls = product(
        ("publish", "get_batch", "wipe_stream", "wipe_all", "delete_message"), ("ok", "error")
    )
    expected: list[tuple[str, dict[str, str]]] = [
        ("aviso_build_info", {"version": "1.2.3"}),
        ("aviso_loop_lag_seconds_count", {}),
    ]
    for operation, outcome in calls:
        labels = {"backend": "in_memory", "operation": operation, "outcome": outcome}
        expected += [
            ("aviso_backend_operations_total", labels),
            ("aviso_backend_operation_duration_seconds_count", labels),
        ]
    for mode in ("direct", "trusted_proxy"):
        expected.append(("aviso_auth_duration_seconds_count", {"mode": mode}))
        for outcome in ("success", "unauthorized", "forbidden", "service_unavailable"):
            expected.append(("aviso_auth_requests_total", {"mode": mode, "outcome": outcome}))
    for event_type, status in (
        *product(("ev", "area"), ("success", "error")),
        *product(("unknown",), ("error", "rejected")),
    ):
        labels = {"event_type": event_type, "status": status}
        expected.append(("aviso_notifications_total", labels))
    for outcome in (
        *("allow", "deny_destination", "deny_match_key_missing"),
        *("unavailable", "admin_bypass", "error"),
    ):
        expected.append(("aviso_ecpds_access_decisions_total", {"outcome": outcome}))
    for outcome in (
        *("http_401", "http_403", "http_4xx", "invalid_response"),
        *("http_5xx", "unreachable", "success"),
    ):
        expected.append(("aviso_ecpds_fetch_total", {"outcome": outcome}))
    for name in (
        *("aviso_ecpds_cache_hits_total", "aviso_ecpds_cache_misses_total"),
        *("aviso_ecpds_cache_size", "aviso_otlp_export_failures_total"),
        *("aviso_otlp_suppressed_log_records_total", "aviso_sse_queued_notifications"),
        *("aviso_sse_queue_depth_max", "aviso_history_wait_seconds_count"),
        *("aviso_history_readers_active", "aviso_history_readers_waiting"),
    ):
        expected.append((name, {}))
    for tier in ("memory", "log", "lake"):
        expected.append(("aviso_history_reads_total", {"tier": tier}))
    for name in ("connected", "storing", "reconnects_total"):
        expected.append((f"aviso_backend_{name}", {"backend": "in_memory"}))
    for outcome in ("ok", "error"):
        labels = {"backend": "in_memory", "outcome": outcome}
        expected.append(("aviso_backend_batches_total", labels))
    expected.append(("aviso_backend_batched_notifications_total", {"backend": "in_memory"}))
    for reason in get_args(Reason):
        expected.append(("aviso_backend_fault", {"backend": "in_memory", "reason": reason}))
    found = shown(metrics())
    series = {key: value for key, value in found.values.items() if not _detail(key[0])}
    assert set(series) == {(name, frozenset(labels.items())) for name, labels in expected}
    assert [key[0] for key, value in series.items() if value] == ["aviso_build_info"]


def _detail(name: str) -> bool:
    return name.endswith(("_bucket", "_seconds_sum"))


def test_every_series_has_its_heading() -> None:
    """Name and type of every series are on the page from the start; no ``_created``."""
    found = shown(metrics())
    kinds = {Growth.COUNTER: "counter", Growth.HISTOGRAM: "histogram"}
    assert found.types == {item.name: kinds.get(item.kind, "gauge") for item in SERIES}
    assert "_created" not in found.text


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (lambda m: m.in_flight("GET").add(), moved("aviso_http_requests_in_flight", method="GET")),
        (
            lambda m: m.requests("/", "GET", 404)[0].add(),
            moved("aviso_http_requests_total", route="/", method="GET", status_code="404"),
        ),
        (
            lambda m: m.requests("/", "GET", 200)[1].observe(1.0),
            moved("aviso_http_request_duration_seconds_count", route="/", method="GET"),
        ),
        (
            lambda m: m.notified("ev", "success", 3),
            moved("aviso_notifications_total", 3, event_type="ev", status="success"),
        ),
        (
            lambda m: m.backend_called("publish", 0.1, failed=True),
            {
                key: value
                for name in (
                    "aviso_backend_operations_total",
                    "aviso_backend_operation_duration_seconds_count",
                )
                for key, value in moved(
                    name, backend="in_memory", operation="publish", outcome="error"
                ).items()
            },
        ),
        (
            lambda m: m.backend_seen(connected=True, reconnects=4, fault=None),
            moved("aviso_backend_connected", backend="in_memory")
            | moved("aviso_backend_storing", backend="in_memory")
            | moved("aviso_backend_reconnects_total", 4, backend="in_memory"),
        ),
        (
            lambda m: m.backend_seen(connected=True, reconnects=0, fault="store_full"),
            moved("aviso_backend_connected", backend="in_memory")
            | moved("aviso_backend_fault", backend="in_memory", reason="store_full"),
        ),
        (
            lambda m: m.batches_seen(2, 1, 90),
            moved("aviso_backend_batches_total", 2, backend="in_memory", outcome="ok")
            | moved("aviso_backend_batches_total", backend="in_memory", outcome="error")
            | moved("aviso_backend_batched_notifications_total", 90, backend="in_memory"),
        ),
        (
            lambda m: m.store_seen(7, None, 9),
            moved("aviso_store_bytes", 7) | moved("aviso_store_free_bytes", 9),
        ),
        (
            lambda m: m.stream_seen("ev", 3, 400),
            moved("aviso_stream_notifications", 3, event_type="ev")
            | moved("aviso_stream_bytes", 400, event_type="ev"),
        ),
        (lambda m: m.history_read("memory"), moved("aviso_history_reads_total", tier="memory")),
        (
            lambda m: m.queues_seen(iter((2, 7, 1))),
            moved("aviso_sse_queued_notifications", 10) | moved("aviso_sse_queue_depth_max", 7),
        ),
        (
            lambda m: m.auth_decided("direct", "forbidden", 0.1),
            moved("aviso_auth_requests_total", mode="direct", outcome="forbidden")
            | moved("aviso_auth_duration_seconds_count", mode="direct"),
        ),
        (
            lambda m: m.ecpds_looked(hit=True, size=5),
            moved("aviso_ecpds_cache_hits_total") | moved("aviso_ecpds_cache_size", 5),
        ),
        (lambda m: m.ecpds_looked(hit=False, size=0), moved("aviso_ecpds_cache_misses_total")),
        (lambda m: m.ecpds_fetched("success"), moved("aviso_ecpds_fetch_total", outcome="success")),
        (
            lambda m: m.ecpds_decided("allow"),
            moved("aviso_ecpds_access_decisions_total", outcome="allow"),
        ),
        (lambda m: m.export_failed(), moved("aviso_otlp_export_failures_total")),
        (lambda m: m.export_suppressed(2), moved("aviso_otlp_suppressed_log_records_total", 2)),
    ],
)
def test_an_event_moves_its_series_and_no_other(
    event: Callable[[Metrics], None], expected: dict[Sample, float]
) -> None:
    """Each event has its series, labels and amount; all other values stay."""
    counted = metrics()
    before = shown(counted)
    event(counted)
    assert shown(counted).since(before) == expected


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("connections", "aviso_sse_connections_total"),
        ("sent", "aviso_sse_events_sent_total"),
        ("errors", "aviso_sse_stream_errors_total"),
        ("switches", "aviso_sse_reader_switches_total"),
        ("gaps", "aviso_sse_history_gaps_total"),
        ("limited", "aviso_sse_replay_limited_total"),
    ],
)
def test_streams_are_counted_by_route_and_event_type(part: str, name: str) -> None:
    """Each part of a stream's meter is one series."""
    counted = metrics()
    meter = counted.stream(Operation.WATCH, "ev")
    before = shown(counted)
    getattr(meter, part).add()
    assert shown(counted).since(before) == moved(name, **WATCH)


def test_an_open_stream() -> None:
    """Active while it lives; its lifetime when it ended, however it ended."""
    counted = metrics()
    meter = counted.stream(Operation.WATCH, "ev")
    before = shown(counted)
    with suppress(ConnectionResetError), meter.alive("ada"):
        assert shown(counted).since(before) == (
            moved("aviso_sse_connections_active", **WATCH)
            | moved("aviso_sse_unique_users_active", route="/api/v1/watch")
        )
        raise ConnectionResetError
    assert shown(counted).since(before) == moved(
        "aviso_sse_connection_duration_seconds_count", route="/api/v1/watch"
    )


def test_users_are_counted_once_each() -> None:
    """Two streams of one user are one user, whatever the event type; nobody's are none.

    The page has no auth, so it must not show who is connected.
    """
    counted = metrics()
    first, second = (counted.stream(Operation.WATCH, name) for name in ("ev", "area"))
    with first.alive("ada"), second.alive("ada"), first.alive("bob"), first.alive(None):
        users = shown(counted).named("aviso_sse_unique_users_active")
        assert users == {frozenset({("route", "/api/v1/watch")}): 2}
        assert "ada" not in shown(counted).text
    assert shown(counted).total("aviso_sse_unique_users_active") == 0


@given(st.lists(st.floats(0, 100_000), max_size=30))
def test_histograms_agree_with_their_definition(durations: list[float]) -> None:
    """A bucket holds what is at most its bound; the last one holds all."""
    counted = metrics()
    for seconds in durations:
        counted.stream(Operation.REPLAY, "ev").lifetime.observe(seconds)
    counted.stream(Operation.REPLAY, "ev")
    found = shown(counted).named("aviso_sse_connection_duration_seconds_bucket")
    buckets = {float(dict(labels)["le"]): value for labels, value in found.items()}
    assert list(buckets)[:3] == [1.0, 5.0, 15.0]
    assert len(buckets) == 15
    assert buckets == {bound: sum(seconds <= bound for seconds in durations) for bound in buckets}


_EVENTS: list[Callable[[Metrics, float], None]] = [
    lambda m, x: m.requests("/", "GET", int(x))[0].add(),
    lambda m, x: m.requests("/", "GET", 200)[1].observe(x),
    lambda m, _: m.in_flight("GET").add(-1),
    lambda m, _: m.notified("ev", "success"),
    lambda m, x: m.backend_called("publish", x, failed=x > 1),
    lambda m, x: m.queues_seen([int(x)]),
    lambda m, x: m.auth_decided("direct", "success", x),
    lambda m, x: m.stream(Operation.WATCH, "ev").sent.add(int(x)),
    lambda m, x: m.stream(Operation.REPLAY, "generic").replay.observe(x),
]


_HAPPENED = st.lists(st.tuples(st.sampled_from(_EVENTS), st.floats(0, 500)), max_size=20)


@settings(max_examples=examples(40))
@given(before=_HAPPENED, after=_HAPPENED)
def test_counters_never_fall(
    before: list[tuple[Callable[[Metrics, float], None], float]],
    after: list[tuple[Callable[[Metrics, float], None], float]],
) -> None:
    """Whatever happens, no counter and no part of a histogram gets smaller or disappears."""
    counted = metrics()
    for event, amount in before:
        event(counted, amount)
    last = shown(counted).growing()
    for event, amount in after:
        event(counted, amount)
    now = shown(counted).growing()
    assert all(now[key] >= value for key, value in last.items())


def test_silence() -> None:
    """Without metrics nothing is recorded, and every call is harmless."""
    for event in _EVENTS:
        event(SILENT, 1.0)
    with SILENT.stream(Operation.WATCH, "ev").alive("ada"):
        pass
    assert SILENT.cells is None
    assert not SILENT.enabled
