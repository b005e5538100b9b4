"""The overview over JetStream and a lake: what it counts is what a replay delivers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.jetstream.conftest import BRISK, eventually
from support.backup import archive
from support.config import on_jetstream, settings
from support.jetstream import behind
from support.nats import NatsServer
from support.server import Client, connected
from support.sse import sequences

from aviso_server.core.json import Json
from aviso_server.settings import Settings

POLICY: dict[str, Json] = {
    "retention_time": "7d",
    "max_messages": 10,
    "max_size": "1Mi",
    "allow_duplicates": True,
}


def chosen(nats: NatsServer, account: Mapping[str, Json], lake: Path) -> Settings:
    """Two event types on an account of the NATS server, with a lake."""
    region: Json = {"region": {"type": "StringHandler", "required": False}}
    return settings(
        {**on_jetstream(nats.url, **account, retention_time="1d"), "lake": {"path": str(lake)}},
        schemas={
            "alert": {
                "topic": {"base": "alert", "key_order": ["region"]},
                "identifier": region,
                "storage_policy": POLICY,
            },
            "latest": {
                "topic": {"base": "newest", "key_order": ["region"]},
                "identifier": region,
                "storage_policy": {"allow_duplicates": False},
            },
        },
    )


async def overview(client: Client) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The answer, and its event types by name."""
    async with client.session.get(f"{client.running.url}/api/v1/overview") as response:
        answer = await response.json()
        assert response.status == 200, answer
        return answer, {item["event_type"]: item for item in answer["event_types"]}


async def told(client: Client, name: str, **members: Any) -> dict[str, Any]:
    """Wait until the overview says so of an event type: a look is kept for a second."""
    found: dict[str, Any] = {}

    async def agrees() -> bool:
        nonlocal found
        found = (await overview(client))[1][name]
        return {key: found.get(key) for key in members} == members

    await eventually(agrees)
    return found


async def replayed(client: Client, name: str) -> list[int]:
    """What a replay from the beginning delivers."""
    async with client.replay(name, {}, from_id="0") as stream:
        return sequences(await stream.rest())


async def test_what_is_counted_is_what_a_replay_delivers(
    nats: NatsServer, account: dict[str, Json], tmp_path: Path
) -> None:
    """In memory, in the log and in the lake, in every process that serves the same store."""
    busy = chosen(nats, account, tmp_path / "lake")
    async with connected(busy) as client, connected(busy) as other, client.watch("alert", {}):
        for _ in range(10):
            await client.notify("alert", {"region": "r"})
        await archive(busy, last=10)
        for _ in range(5):
            await client.notify("alert", {"region": "r"})
        tiers = [
            {"tier": "memory", "first": 6, "last": 15},
            {"tier": "log", "first": 6, "last": 15},
            {"tier": "lake", "first": 1, "last": 10, "lag": 5},
        ]
        seen = await told(client, "alert", tiers=tiers)
        assert len(await replayed(client, "alert")) == seen["stored"] == 15
        assert (seen["first_sequence"], seen["last_sequence"]) == (1, 15)
        assert seen["rates"]["per_second_1h"] == round(15 / 3600, 6)
        assert seen["retention"] == {
            "seconds": 604_800,
            "max_messages": 10,
            "max_bytes": 1_048_576,
            "per_topic": None,
            "shared": False,
        }
        # The other process has nothing in memory, and the same numbers.
        assert await told(other, "alert", stored=15) == {**seen, "tiers": tiers[1:]}
        assert await client.delete("alert@9") == 200
        await told(client, "alert", stored=14)
        assert len(await replayed(client, "alert")) == 14


async def test_keep_latest_counts_what_is_kept(
    nats: NatsServer, account: dict[str, Json], tmp_path: Path
) -> None:
    """What was replaced is not stored any more, but it came all the same."""
    keeping = chosen(nats, account, tmp_path / "lake")
    async with connected(keeping) as client:
        for region in ("a", "r", "r", "b", "r"):
            await client.notify("latest", {"region": region})
        seen = await told(client, "latest", stored=3, first_sequence=1, last_sequence=5)
        assert seen["rates"]["per_second_1m"] == round(5 / 60, 6)
        assert seen["retention"]["per_topic"] == 1
        assert seen["retention"]["seconds"] == 86_400
        assert seen["last_time"] is not None


async def test_looking_at_nothing(
    nats: NatsServer, account: dict[str, Json], tmp_path: Path
) -> None:
    """There are those of the configured event types, made at the start, and they are empty."""
    unused = chosen(nats, account, tmp_path / "lake")
    async with connected(unused) as client, behind(nats, account) as api:
        answer, seen = await overview(client)
        assert (answer["lake"], answer["backend"]["kind"]) == (True, "jetstream")
        assert [item["stored"] for item in seen.values()] == [0, 0]
        names = [info.config.name for info in await api.streams_info()]
        assert sorted(map(str, names)) == ["ALERT", "NEWEST"]


async def test_looking_changes_no_stream(
    nats: NatsServer, account: dict[str, Json], tmp_path: Path
) -> None:
    """Not even with a configuration that has lost the event types: they are listed by name."""
    async with connected(chosen(nats, account, tmp_path / "lake")) as client:
        for name in ("alert", "latest"):
            await client.notify(name, {"region": "r"})
    lost = settings(
        {**on_jetstream(nats.url, **account, max_messages=1), "notification_schema_strict": False},
        schemas={},
    )
    async with connected(lost) as client, behind(nats, account) as api:
        before = await api.streams_info()
        named = {"configured": False, "readable": True, "writable": True}
        assert (await overview(client))[0]["event_types"] == [
            {"event_type": "alert", **named},
            {"event_type": "latest", **named},
        ]
        after = await api.streams_info()
        assert [item.config for item in after] == [item.config for item in before]
        assert [item.state.messages for item in after] == [1, 1]


async def test_nats_goes_and_comes_back(own: NatsServer, tmp_path: Path) -> None:
    """200 all the while; what cannot be known is said to be so, and then it can be again."""
    async with connected(chosen(own, {}, tmp_path / "lake"), pace=BRISK) as client:
        await client.notify("alert", {"region": "r"})
        assert (await overview(client))[0]["ready"] is True
        own.kill()
        lost = await told(client, "alert", error="The backend is not connected")
        assert "stored" not in lost
        answer, _ = await overview(client)
        assert (answer["ready"], answer["backend"]["connected"]) == (False, False)
        own.start()
        await told(client, "alert", stored=1)
        assert (await overview(client))[0]["ready"] is True
