"""A metered backend keeps the backend contract, and counts its calls."""

from collections.abc import AsyncIterator

import pytest
from backends.contract import BackendContract, append, notification
from support.faults import FaultyBackend
from support.metrics import Sample, moved, shown

from aviso_server.backends.backend import Backend
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.backends.metered import look, meter, unwrap
from aviso_server.core.errors import HistoryFailed, StorageFailed
from aviso_server.core.schema import Catalogue
from aviso_server.relay.admin import Administration, WipeFailed
from aviso_server.telemetry.cells import Cells
from aviso_server.telemetry.metrics import SILENT, Metrics


def counting(kind: str = "in_memory") -> Metrics:
    return Metrics(Cells.private(), version="1", backend=kind)


def called(operation: str, outcome: str, count: int = 1) -> dict[Sample, float]:
    """The changes that calls make."""
    labels = {"backend": "in_memory", "operation": operation, "outcome": outcome}
    return moved("aviso_backend_operations_total", count, **labels) | moved(
        "aviso_backend_operation_duration_seconds_count", count, **labels
    )


class TestMetered(BackendContract):
    """Counting changes nothing that a caller can see."""

    @pytest.fixture
    async def backend(self) -> AsyncIterator[Backend]:
        """A fresh one."""
        clock = iter(range(10**18, 2 * 10**18, 10**9))
        backend = meter(MemoryBackend(MemoryLimits(), now_ns=lambda: next(clock)), counting())
        yield backend
        await backend.close()


async def test_each_operation_has_its_name() -> None:
    """Calls are counted by operation; one that finds nothing is no failure."""
    metrics = counting()
    backend = meter(FaultyBackend(), metrics)
    before = shown(metrics)
    await append(backend, 3)
    await backend.read("ev", 1, 3, limit=10)
    assert await backend.delete("ev", 2)
    assert not await backend.delete("ev", 2)
    await backend.wipe("ev")
    await backend.bounds("ev")
    assert shown(metrics).since(before) == (
        called("publish", "ok", 3)
        | called("get_batch", "ok")
        | called("delete_message", "ok", 2)
        | called("wipe_stream", "ok")
    )


async def test_failures_are_counted_and_go_on() -> None:
    """A failing call is an ``error``, and its caller gets the error."""
    metrics = counting()
    failures: dict[str, Exception] = {"append": StorageFailed("a"), "read": HistoryFailed("b")}
    backend = meter(FaultyBackend(failures), metrics)
    before = shown(metrics)
    with pytest.raises(StorageFailed):
        await backend.append(notification(), key="k")
    with pytest.raises(HistoryFailed):
        await backend.read("ev", 1, 1, limit=1)
    assert shown(metrics).since(before) == called("publish", "error") | called("get_batch", "error")


async def test_wiping_everything_counts_once() -> None:
    """However many streams there are, it is one ``wipe_all`` and no ``wipe_stream``."""
    metrics = counting()
    broken: dict[str, Exception] = {"wipe": OSError("broken")}
    whole: dict[str, Exception] = {}
    for failures, outcome in (whole, "ok"), (broken, "error"):
        backend = meter(FaultyBackend(failures), metrics)
        await append(backend, 1)
        await append(backend, 1, "area2")
        before = shown(metrics)
        office = Administration(backend, Catalogue(), metrics)
        if failures:
            with pytest.raises(WipeFailed):
                await office.wipe_all()
        else:
            assert await office.wipe_all() == {"ev": 1, "area2": 1}
        assert shown(metrics).since(before) == called("wipe_all", outcome)


async def test_state() -> None:
    """The connection is reported as it is; a backend that cannot reconnect has no reconnects."""
    metrics = counting()
    look(meter(FaultyBackend(), metrics), metrics)
    assert shown(metrics).value("aviso_backend_connected", backend="in_memory") == 1
    assert shown(metrics).value("aviso_backend_reconnects_total", backend="in_memory") == 0


async def test_without_metrics_there_is_nothing_in_between() -> None:
    """A server that counts nothing calls its backend directly."""
    backend = FaultyBackend()
    assert meter(backend, SILENT) is backend
    assert unwrap(meter(backend, counting())) is backend
