"""Streams on a real server: ensured once, kept in line, never taken from others (op. 3.2)."""

import asyncio
from dataclasses import replace

import pytest
from backends.contract import CATALOGUE, NONE, append, notification
from backends.jetstream.conftest import Opener, config_of
from nats.aio.msg import Msg

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.configuration import declared_text
from aviso_server.backends.jetstream.options import StreamDefaults
from aviso_server.core.declaration import read_declaration
from aviso_server.core.errors import SetupFailed, StorageFailed
from aviso_server.core.json import Json, parse
from aviso_server.core.schema import Catalogue, StoragePolicy


class Advisories:
    """What the server itself says was done to streams."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def listen(self, backend: JetStreamBackend) -> None:
        """Begin to note them."""
        await backend._connection.subscribe("$JS.EVENT.ADVISORY.STREAM.*.*", self._note)
        await backend._connection._client.flush()

    async def settled(self, backend: JetStreamBackend) -> list[str]:
        """All that were sent before now."""
        await backend._connection._client.flush()
        return self.seen

    async def _note(self, message: Msg) -> None:
        self.seen.append(message.subject.removeprefix("$JS.EVENT.ADVISORY.STREAM."))


async def make(backend: JetStreamBackend, **settings: Json) -> None:
    """Create the stream of ``ev`` as another program would."""
    body: dict[str, Json] = {"name": "EV", "subjects": ["ev.>"], **settings}
    await backend._connection.call("STREAM.CREATE.EV", body)


async def test_a_stream_is_created_once_and_left_alone(opened: Opener) -> None:
    """Many publishes from two processes at once create it once and never update it."""
    one, other = await opened(NONE), await opened(NONE)
    advisories = Advisories()
    await advisories.listen(one)
    await asyncio.gather(
        *(b.append(notification(payload=n), key=f"{n}") for n, b in enumerate([one, other] * 20))
    )
    third = await opened(NONE)
    await third.bounds("ev")
    assert await advisories.settled(one) == ["CREATED.EV"]


async def test_drift_is_mended_once(opened: Opener) -> None:
    """A reference server's stream gets our settings in one update, and its messages stay."""
    theirs = await opened(NONE)
    await make(theirs, max_msgs_per_subject=5, max_consumers=7)
    await theirs._connection._client.request("ev.n", b"1")
    advisories = Advisories()
    await advisories.listen(theirs)
    backend = await opened()
    await append(backend, 3)
    updated = [item for item in await advisories.settled(theirs) if item.endswith(".EV")]
    assert updated == ["UPDATED.EV"]
    config = await config_of(backend)
    assert (config["max_msgs_per_subject"], config["allow_direct"]) == (-1, True)
    assert config["max_consumers"] == 7
    assert (await backend.bounds("ev")).first == 1


async def test_limits_follow_the_schema(opened: Opener) -> None:
    """Every key of a storage policy reaches the stream."""
    policy = StoragePolicy(retention_s=3600, max_messages=10, max_bytes=2_000_000, compression=True)
    schema = replace(CATALOGUE.schemas["ev"], storage=policy)
    await append(await opened(), 1)
    backend = await opened(Catalogue([schema]))
    await append(backend, 1)
    config = await config_of(backend)
    assert (config["max_msgs"], config["max_bytes"]) == (10, 2_000_000)
    assert (config["max_age"], config["compression"]) == (3600 * 10**9, "s2")


async def test_the_schema_travels_with_the_stream(opened: Opener) -> None:
    """It is there from the start, follows the configuration, and spares the note of a wipe."""
    trimmed = StreamDefaults(max_messages=100)
    backend = await opened(streams=trimmed)
    await append(backend, 3)
    before = declared_text(await config_of(backend))
    assert before is not None
    await backend.wipe("ev")
    schema = replace(CATALOGUE.schemas["ev"], payload_required=True)
    other = await opened(Catalogue([schema]), streams=trimmed)
    await other.bounds("ev")
    config = await config_of(backend)
    after = declared_text(config)
    assert after is not None
    assert read_declaration(parse(after.encode())) == schema
    assert after != before
    assert isinstance(config["metadata"], dict)
    assert config["metadata"]["aviso-wiped-through"] == "3"


async def test_a_refused_update_does_not_stop_publishing(opened: Opener) -> None:
    """Three replicas on one server cannot be had; notify goes on."""
    await append(await opened(), 1)
    backend = await opened(streams=StreamDefaults(replicas=3))
    assert (await backend.append(notification(), key="more")).sequence == 2


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
async def test_other_retention_is_refused(opened: Opener, retention: str) -> None:
    """Messages that vanish when read cannot be history."""
    backend = await opened(NONE)
    await make(backend, retention=retention)
    with pytest.raises(SetupFailed, match=f"retention policy '{retention}'"):
        await backend.bounds("ev")
    with pytest.raises(StorageFailed) as failure:
        await append(backend, 1)
    assert failure.value.message == "Failed to publish notification message to JetStream"
    assert f"'{retention}'" in failure.value.details


async def test_storage_type_found_later(opened: Opener) -> None:
    """A stream that appears with another storage type fails set-up and is not altered."""
    backend = await opened(NONE)
    await make(backend, storage="memory", description="theirs")
    with pytest.raises(SetupFailed) as failure:
        await backend.bounds("ev")
    assert failure.value.message == (
        "Stream 'EV' uses storage type 'memory', configuration wants 'file'"
    )
    assert (await config_of(backend))["description"] == "theirs"


async def test_a_wipe_spares_what_comes_after(opened: Opener) -> None:
    """Notifications published while a wipe runs are either wiped whole or kept whole."""
    backend = await opened()
    await append(backend, 50)
    wiping = asyncio.ensure_future(backend.wipe("ev"))
    await asyncio.gather(
        *(backend.append(notification(payload=n), key=f"w{n}") for n in range(50)),
    )
    wiped = await wiping
    bounds = await backend.bounds("ev")
    assert bounds.last == 100
    assert bounds.first == wiped + 1
    assert bounds.deleted == 0
