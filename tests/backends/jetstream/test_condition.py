"""Whether notifications can be stored: found at the start, and again when it changes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from backends.contract import CATALOGUE, append, notification
from backends.jetstream.conftest import Opener, brisk, eventually
from support.journal import recorded
from support.nats import NatsServer, nats_cluster, nats_server

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.options import CannotStart, StreamDefaults
from aviso_server.core.errors import StorageFailed
from aviso_server.core.json import Json
from aviso_server.core.schema import Catalogue, StoragePolicy

EV = CATALOGUE.schemas["ev"]


async def test_streams_are_made_at_the_start(opened: Opener) -> None:
    """All configured ones, before the first producer comes; what they hold is measured."""
    backend = await opened()
    assert await backend.event_types() == sorted(CATALOGUE.names)
    assert backend.fault is None
    await append(backend, 3)

    def measured() -> bool:
        usage = backend.usage
        return usage is not None and usage.streams["ev"].messages == 3

    await eventually(measured)
    assert backend.usage is not None
    assert backend.usage.stored_bytes >= backend.usage.streams["ev"].bytes > 0
    assert backend.usage.share is None, "nobody knows the limit of this server"


async def test_copies_that_cannot_be_had_stop_the_start(opened: Opener) -> None:
    """Three replicas on one server: the setting and the remedy are named."""
    with pytest.raises(CannotStart) as failure:
        await opened(streams=StreamDefaults(replicas=3))
    assert "replicas > 1 not supported in non-clustered mode" in str(failure.value)
    assert "notification_backend.jetstream.replicas to 1" in str(failure.value)


async def test_reservations_beyond_the_store_stop_the_start(tmp_path: Path) -> None:
    """Streams reserve their ``max_size``; together they must fit."""
    limited: dict[str, Json] = {
        "jetstream": {"store_dir": str(tmp_path / "store"), "max_file_store": 10_000_000}
    }
    greedy = replace(EV, storage=StoragePolicy(max_bytes=20_000_000))
    with (
        nats_server(tmp_path, limited) as server,
        pytest.raises(CannotStart, match=r"event type 'ev': insufficient storage.*max_size"),
    ):
        await JetStreamBackend.open(brisk(server.url), Catalogue([greedy]))


async def test_a_stream_we_may_not_make(tmp_path: Path) -> None:
    """Not ready, with the reason, until it is made; a restart is not needed."""
    denied: Json = {"deny": ["$JS.API.STREAM.CREATE.EV"]}
    users: Json = [
        {"user": "u", "password": "p", "permissions": {"publish": denied}},
        {"user": "root", "password": "p"},
    ]
    with nats_server(tmp_path, {"authorization": {"users": users}}) as server, recorded() as log:
        options = replace(brisk(server.url), username="u", password="p")
        options = replace(options, pace=replace(options.pace, request_s=0.5))
        backend = await JetStreamBackend.open(options, Catalogue([EV]))
        fault = backend.fault
        assert fault is not None
        assert fault.reason == "stream_refused"
        assert "not permitted to publish to $JS.API.STREAM.CREATE.EV" in fault.message
        assert backend.connected
        other = await JetStreamBackend.open(replace(options, username="root"), Catalogue([EV]))
        await other.close()
        await eventually(lambda: backend.fault is None)
        assert await append(backend, 1) == [1]
        await backend.close()
    (failing,) = log.all("backend.jetstream.store.failing")
    assert (failing["stream_name"], failing["reason"]) == ("EV", "stream_refused")
    assert log.all("backend.jetstream.store.recovered")


async def test_a_stream_that_is_removed_is_made_again(opened: Opener) -> None:
    """Without a producer, and without a word from us but in the log."""
    backend = await opened(Catalogue([EV]))
    await backend._connection.call("STREAM.DELETE.EV")

    async def back() -> bool:
        return await backend.event_types() == ["ev"]

    await eventually(back)
    await eventually(lambda: backend.fault is None)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NatsServer]]:
    """Three servers."""
    with nats_cluster(tmp_path_factory.mktemp("cluster")) as servers:
        yield servers


@pytest.mark.slow
async def test_without_a_quorum_nothing_is_stored(cluster: list[NatsServer]) -> None:
    """Two of three nodes are killed and come back: not ready, with the reason, and ready again."""
    options = replace(
        brisk(*(server.url for server in cluster)),
        retry_attempts=100,
        streams=StreamDefaults(replicas=3),
    )
    backend = await JetStreamBackend.open(options, Catalogue([EV]))
    # A cluster that just started may still look for places for its copies.
    await eventually(lambda: backend.fault is None)
    await append(backend, 2)
    port = backend._connection._client.connected_url
    assert port is not None
    lost = [server for server in cluster if server.port != port.port][:2]
    for server in lost:
        server.kill()
    await eventually(lambda: backend.fault is not None and backend.fault.reason == "no_quorum")
    assert backend.connected
    with pytest.raises(StorageFailed):
        await backend.append(notification(payload="lost"), key="lost")
    for server in lost:
        server.launch()
    for server in lost:
        server.wait()
    await eventually(lambda: backend.fault is None)
    await eventually(lambda: _stores(backend))
    await backend.close()


async def _stores(backend: JetStreamBackend) -> bool:
    try:
        await backend.append(notification(payload="back"), key="back")
    except StorageFailed:
        return False
    return True
