"""Streams whose stores fail: refused at once, tried again from time to time."""

import os
import shutil
from pathlib import Path

import pytest
from backends.contract import NONE
from backends.jetstream.conftest import Opener
from support.clock import Clock

from aviso_server.backends.jetstream import disk
from aviso_server.backends.jetstream.connection import (
    Connection,
    NoAnswer,
    NoResponder,
    Refused,
    Unavailable,
)
from aviso_server.backends.jetstream.options import Store
from aviso_server.backends.jetstream.stores import Stores

LATE = NoAnswer("no answer within 5 s")


@pytest.fixture
async def connection(opened: Opener) -> Connection:
    """A connection that is up."""
    return (await opened(NONE))._connection


async def test_one_failure_says_nothing(connection: Connection) -> None:
    """It is tried again; only one that failed for good trips its stream, and no other."""
    stores = Stores(connection, None)
    assert await stores.failed("EV", LATE, final=False) is None
    assert (stores.fault, stores.refusal("EV")) == (None, None)
    fault = await stores.failed("EV", LATE, final=True)
    assert fault is not None
    assert fault.reason == "not_acknowledged"
    assert stores.fault == stores.refusal("EV") == fault
    assert stores.refusal("AREA") is None


async def test_waits_double_until_one_is_stored(connection: Connection) -> None:
    """After each wait one may try; each failed try doubles the next wait, up to a bound."""
    clock = Clock()
    stores = Stores(connection, None, clock=clock)
    waits = []
    for _ in range(8):
        await stores.failed("EV", NoResponder("nobody"), final=True)
        begun = clock.now
        while stores.refusal("EV") is not None:
            clock.now += 1
        assert stores.on_trial("EV")
        assert stores.fault is None, "nobody knows, so traffic may come back and find out"
        waits.append(clock.now - begun)
    assert waits == [1, 2, 4, 8, 15, 30, 30, 30]
    stores.succeeded("EV")
    assert not stores.on_trial("EV")


async def test_another_connection_is_another_chance(connection: Connection) -> None:
    """NATS was restarted, or another node answers."""
    stores = Stores(connection, None, clock=Clock())
    await stores.failed("EV", LATE, final=True)
    connection.generation += 1
    assert stores.refusal("EV") is None
    assert stores.on_trial("EV")


async def test_a_lost_connection_is_no_fault_of_a_stream(connection: Connection) -> None:
    """Everything fails at once then, and comes back at once."""
    stores = Stores(connection, None)
    await connection.close()
    assert await stores.failed("EV", LATE, final=True) is None
    assert await stores.failed("EV", Unavailable("not connected"), final=True) is None
    assert not stores.on_trial("EV")


async def test_a_full_store_is_asked_every_time(connection: Connection, tmp_path: Path) -> None:
    """It refuses by itself and at once; a measurement below the limit ends the fault."""
    stores = Stores(connection, Store(tmp_path, 3 << 30), clock=Clock())
    fault = await stores.failed("EV", Refused(503, 10023, "insufficient resources"), final=True)
    assert fault is not None
    assert fault.message == "the store of the embedded NATS is full (limit 3.0 GiB)"
    assert stores.refusal("EV") is None
    assert stores.fault == fault
    await stores.reconsider(full=True, answering=frozenset())
    assert stores.fault == fault
    await stores.reconsider(full=False, answering=frozenset())
    assert stores.fault is None


async def test_a_leader_ends_the_wait_for_one(connection: Connection) -> None:
    """The stream answers again: the next notification may try at once."""
    stores = Stores(connection, None, clock=Clock())
    await stores.failed("EV", NoResponder("nobody"), final=True)
    await stores.reconsider(full=None, answering=frozenset({"AREA"}))
    assert stores.refusal("EV") is not None
    await stores.reconsider(full=None, answering=frozenset({"AREA", "EV"}))
    assert stores.refusal("EV") is None


async def test_what_the_embedded_server_says_is_the_reason(
    connection: Connection, tmp_path: Path
) -> None:
    """It is known after one attempt, and holds for as long as it is said."""
    words: list[str] = ["file too large"]
    clock = Clock()
    store = Store(tmp_path, 1 << 30)
    stores = Stores(connection, store, write_fault=lambda: words[0] if words else None, clock=clock)
    fault = await stores.failed("EV", LATE, final=False)
    assert fault is not None
    assert fault.reason == "write_failed"
    assert fault.message == "the embedded NATS cannot write: file too large"
    for _ in range(50):
        await stores.reconsider(full=False, answering=frozenset({"EV"}))
        clock.now += 0.9
    assert stores.refusal("EV") == fault
    words.clear()
    clock.now += 0.9
    await stores.reconsider(full=False, answering=frozenset({"EV"}))
    assert stores.refusal("EV") is None


async def test_made_up_event_types_are_forgotten(connection: Connection) -> None:
    """A client cannot fill the memory with streams that fail."""
    stores = Stores(connection, None)
    for number in range(1100):
        await stores.failed(f"S{number}", LATE, final=True)
    assert not stores.on_trial("S0")
    assert stores.on_trial("S1099")


def test_room_is_tried_for_real(tmp_path: Path) -> None:
    """A folder that takes nothing says why, and nothing is left of the attempt."""
    assert disk.lack_of_room(tmp_path) is None
    assert disk.shortage(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    assert disk.lack_of_room(tmp_path / "none") == os.strerror(2).lower()


def test_the_limit_is_a_part_of_the_disk(tmp_path: Path) -> None:
    """Whatever is stored or free now: neither may shrink it at a restart."""
    found = shutil.disk_usage(tmp_path)
    size = found.used + found.free  # without what is kept for root
    assert disk.default_limit(tmp_path) == pytest.approx(0.9 * size, rel=0.05)


@pytest.mark.parametrize(
    ("count", "shown"), [(1023, "1023 bytes"), (1024, "1.0 KiB"), (3 << 39, "1.5 TiB")]
)
def test_bytes_for_people(count: int, shown: str) -> None:
    """In the units of the settings."""
    assert disk.shown_bytes(count) == shown
