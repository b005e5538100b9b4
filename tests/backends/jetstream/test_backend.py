"""The JetStream backend on a real nats-server: the shared contract, and what is its own."""

import asyncio
from dataclasses import replace

import pytest
from backends.contract import (
    CATALOGUE,
    NONE,
    OPEN,
    BackendContract,
    append,
    notification,
    read_all,
    records,
)
from backends.jetstream.conftest import Opener

from aviso_server.backends.backend import Bounds
from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.history import MAX_BATCH_BYTES, Reader
from aviso_server.backends.jetstream.options import CannotStart, StreamDefaults
from aviso_server.core.errors import InvalidRequest, StorageFailed
from aviso_server.core.notification import Unreadable
from aviso_server.core.schema import Catalogue, StoragePolicy


class TestContract(BackendContract):
    """The shared contract."""

    @pytest.fixture
    async def backend(self, opened: Opener) -> JetStreamBackend:
        """A backend on an account without streams."""
        return await opened()


class TestContractOnOlderServers(BackendContract):
    """The shared contract with the reads that servers before 2.11 allow."""

    @pytest.fixture
    async def backend(self, opened: Opener) -> JetStreamBackend:
        """A backend that asks for one message at a time."""
        backend = await opened()
        backend._reader = Reader(backend._connection, batches=False)
        return backend


def keeping(policy: StoragePolicy) -> Catalogue:
    """The catalogue with a storage policy for ``ev``."""
    schemas = {**CATALOGUE.schemas, "ev": replace(CATALOGUE.schemas["ev"], storage=policy)}
    return Catalogue(schemas.values())


async def test_two_processes_share_a_stream(opened: Opener) -> None:
    """Cluster-wide: what one process stores, another reads, follows and refuses to repeat."""
    one, other = await opened(), await opened()
    await append(one, 3)
    assert await other.bounds("ev") == Bounds(1, 3)
    assert [e.sequence for e in await read_all(other, 1, 3)] == [1, 2, 3]
    again = await other.append(notification(payload=0), key="ev-0")
    assert (again.sequence, again.repeated) == (1, True)


async def test_history_outlives_the_process(opened: Opener) -> None:
    """Durable: a new process finds everything, with the same times."""
    one = await opened()
    await append(one, 3)
    before = await read_all(one, 1, 3)
    await one.close()
    assert await read_all(await opened(), 1, 3) == before


async def test_messages_of_the_reference_server(opened: Opener) -> None:
    """Subject, body and spatial headers are enough; repeats are joined."""
    backend = await opened()
    await backend.bounds("area")
    client = backend._connection._client
    headers = {"spatial_geometry": "(1,2,3,4", "Spatial_Geometry": "5,6,1,2)"}
    await client.request(
        "area.20250706", b'{"k": 1}', headers={"spatial_geometry": "(1,2,3,4,5,6,1,2)"}
    )
    await client.request("area.%zz", b"", headers=headers)
    first, second = (await backend.read("area", 1, 2, limit=10)).entries
    [record] = records([first])
    assert record.notification.identifier == {"date": "20250706"}
    assert record.notification.payload == b'{"k":1}'
    assert record.notification.geometry is not None
    assert isinstance(second, Unreadable)


async def test_repeated_headers_are_joined(opened: Opener) -> None:
    """Two values of one header read as one, joined with a comma."""
    backend = await opened()
    await backend.bounds("area")
    raw = b"NATS/1.0\r\nspatial_geometry: (1,2,3,4\r\nspatial_geometry: 5,6,1,2)\r\n\r\n"
    client = backend._connection._client
    await client._send_command(
        b"HPUB area.20250706 %d %d\r\n%s1\r\n" % (len(raw), len(raw) + 1, raw)
    )
    await client.flush()
    [record] = records((await backend.read("area", 1, 1, limit=1)).entries)
    assert record.notification.geometry is not None


async def test_keep_latest(opened: Opener) -> None:
    """``allow_duplicates: false`` keeps one per subject, and nothing is lost."""
    backend = await opened(keeping(StoragePolicy(allow_duplicates=False)))
    await append(backend, 5)
    assert [e.sequence for e in await read_all(backend, 1, 5)] == [5]
    assert await backend.bounds("ev") == Bounds(5, 5)


async def test_retention_is_reported_as_loss(opened: Opener) -> None:
    """What ``max_messages`` removed is lost; a wipe after it adds nothing to that."""
    backend = await opened(keeping(StoragePolicy(max_messages=3)))
    await append(backend, 5)
    assert await backend.bounds("ev") == Bounds(3, 5, lost=2)
    await backend.delete("ev", 3)
    assert await backend.bounds("ev") == Bounds(4, 5, lost=2)
    await backend.wipe("ev")
    assert await backend.bounds("ev") == Bounds(6, 5, lost=2)
    batch = await backend.read("ev", 1, 5, limit=10)
    assert (list(batch.entries), batch.following, batch.bounds.lost) == ([], 6, 2)


async def test_discard_new_refuses(opened: Opener) -> None:
    """A refusal by the server fails at once and stores nothing."""
    backend = await opened(streams=StreamDefaults(max_messages=2, discard_policy="new"))
    await append(backend, 2)
    with pytest.raises(StorageFailed) as failure:
        await backend.append(notification(payload=3), key="third")
    assert failure.value.message == "Failed to receive publish acknowledgment from JetStream"
    assert failure.value.details == "maximum messages exceeded"
    assert await backend.bounds("ev") == Bounds(1, 2)


async def test_too_large_is_refused_before_it_is_sent(opened: Opener) -> None:
    """An oversized message would cost every other publisher the connection."""
    backend = await opened()
    generation = backend._connection.generation
    with pytest.raises(StorageFailed, match="Failed to publish notification message"):
        await backend.append(notification(payload="x" * 1_100_000), key="large")
    await append(backend, 1)
    assert backend._connection.generation == generation


async def test_another_storage_type_stops_the_start(opened: Opener) -> None:
    """Found before anything is altered."""
    await append(await opened(Catalogue([CATALOGUE.schemas["ev"]])), 1)
    with pytest.raises(CannotStart) as failure:
        await opened(streams=StreamDefaults(storage_type="memory"))
    assert str(failure.value) == (
        "Stream 'EV' uses storage type 'file', configuration wants 'memory'"
    )


async def test_event_types_are_ours(opened: Opener) -> None:
    """Configured event types and marked streams; nothing else in the account."""
    backend = await opened(Catalogue([CATALOGUE.schemas["ev"]]))
    await append(backend, 1)
    await backend.append(notification({}, None, "Generic-One"), key="g")
    await backend._connection.call("STREAM.CREATE.SHOP", {"name": "SHOP", "subjects": ["orders.>"]})
    assert await backend.event_types() == ["Generic-One", "ev"]
    with pytest.raises(InvalidRequest, match="conflicts"):
        await backend.append(notification({}, None, "shop"), key="s")


async def test_a_second_spelling_is_refused_across_processes(opened: Opener) -> None:
    """The stream itself remembers who made it."""
    await (await opened()).append(notification({}, None, "Made_Up"), key="g")
    with pytest.raises(InvalidRequest, match="event_type 'made_up' conflicts"):
        await (await opened(OPEN)).bounds("made_up")


async def test_wiping_what_does_not_exist(opened: Opener) -> None:
    """An event type without a stream has nothing to wipe, and gets no stream."""
    backend = await opened(NONE)
    assert await backend.wipe("ev") == 0
    assert await backend.event_types() == []


async def test_a_stream_that_vanished_is_made_again(opened: Opener) -> None:
    """A stream-not-found answer makes us ensure it again."""
    backend = await opened(NONE)
    await append(backend, 2)
    await backend._connection.call("STREAM.DELETE.EV")
    await backend.append(notification(), key="new")
    await backend._connection.call("STREAM.DELETE.EV")
    await backend.bounds("ev")
    assert await backend.event_types() == ["ev"]


async def test_reads_end_with_what_was_asked_for(opened: Opener) -> None:
    """As much as that, across holes; fewer when they are large."""
    backend = await opened()
    await backend.append_many([(notification(payload=n), f"k/{n}") for n in range(600)])
    holes = (1, 250, 251, 600)
    for hole in holes:
        await backend.delete("ev", hole)
    batch = await backend.read("ev", 1, 600, limit=600)
    left = [n for n in range(1, 601) if n not in holes]
    assert [entry.sequence for entry in batch.entries] == left
    assert batch.following == 601
    some = await backend.read("ev", 1, 600, limit=257)
    assert [entry.sequence for entry in some.entries] == left[:257]
    assert some.following == left[256] + 1
    large = notification(payload="x" * (MAX_BATCH_BYTES // 5))
    await backend.append_many([(large, f"large/{n}") for n in range(8)])
    piece = await backend.read("ev", 601, 608, limit=1000)
    assert 0 < len(piece.entries) < 8
    assert piece.following == 601 + len(piece.entries)


async def test_large_history_in_small_pieces(opened: Opener) -> None:
    """Any batch size gives every sequence once, also across the server's own batch limit."""
    backend = await opened()
    await asyncio.gather(
        *(backend.append(notification(payload=n), key=f"n{n}") for n in range(2500))
    )
    for limit in (2500, 999):
        got = [e.sequence for e in await read_all(backend, 1, 2500, limit=limit)]
        assert got == list(range(1, 2501))
