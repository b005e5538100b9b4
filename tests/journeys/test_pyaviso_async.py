"""The real client, asynchronous: docs/compatibility.md#what-the-client-relies-on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyaviso
import pytest
from support.config import SCHEMAS, settings
from support.journal import WATCHING, Journal
from support.listening import anonymous, published, take
from support.server import connected

from aviso_server.core.json import Json

NORTH = {"region": "n"}
SQUARE = [[0.0, 0.0], [0.0, 10.0], [10.0, 10.0], [10.0, 0.0], [0.0, 0.0]]
"""Ten degrees of latitude and longitude."""

TWO: dict[str, Json] = {
    "ev": SCHEMAS["ev"],
    "other": {
        "topic": {"base": "other", "key_order": ["region"]},
        "identifier": {"region": {"type": "StringHandler", "required": False}},
    },
}
"""Two streams of the same shape."""


@pytest.fixture
async def client() -> AsyncIterator[pyaviso.AsyncAvisoClient]:
    """The client of a server with the usual settings."""
    async with connected(settings()) as server:
        yield anonymous(server.running.url)


async def replayed(
    client: pyaviso.AsyncAvisoClient,
    event_type: str = "ev",
    *,
    keep: dict[str, Any] | None = None,
    start_from: int | str = 0,
    **end: Any,
) -> list[pyaviso.Notification]:
    """A replay to its end."""
    listening = client.listen(
        event_type, filter=keep, start_from=start_from, mode="replay_only", **end
    )
    async with asyncio.timeout(20), listening as history:
        return [item async for item in history]


async def sequences(
    client: pyaviso.AsyncAvisoClient, event_type: str = "ev", **asked: Any
) -> list[int]:
    """The sequences of a replay to its end."""
    return [item.sequence for item in await replayed(client, event_type, **asked)]


# Publishing


async def test_notify_answer(client: pyaviso.AsyncAvisoClient) -> None:
    """The client understands the answer, with the members we add to it."""
    answer = await client.notify(event_type="ev", identifier=NORTH)
    assert answer.status == "success"
    assert len(answer.request_id) == 36
    assert len(answer.processed_at) == 20


@pytest.mark.parametrize(
    "payload", [None, True, 0, 1.5, "text", "é\n", [], [1, [2]], {}, {"b": 1, "a": {"c": None}}]
)
async def test_payload_round_trip(client: pyaviso.AsyncAvisoClient, payload: object) -> None:
    """A payload of any JSON shape comes back as it was sent."""
    await client.notify(event_type="ev", identifier=NORTH, payload=payload)
    (item,) = await replayed(client, keep=NORTH)
    assert item.payload == payload
    assert item.identifier == NORTH
    assert item.cloudevent is not None
    assert item.cloudevent["id"] == "ev@1"


async def test_notify_many(client: pyaviso.AsyncAvisoClient) -> None:
    """Each notification of a batch has its own result; a refused one does not stop the others."""
    batch: list[dict[str, Any]] = [
        {"event_type": "ev", "identifier": NORTH, "payload": value} for value in range(20)
    ]
    batch[7] = {"event_type": "nope", "identifier": {}}
    results = await client.notify_many(batch, concurrency=4)
    assert [result.index for result in results if not result.ok] == [7]
    error = results[7].error
    assert isinstance(error, pyaviso.HttpError)
    assert "UNKNOWN_EVENT_TYPE" in error.body
    assert await sequences(client) == list(range(1, 20))


@pytest.mark.parametrize(
    ("event_type", "identifier", "code"),
    [
        ("nope", {}, "UNKNOWN_EVENT_TYPE"),
        ("ev", {"regin": "n"}, "INVALID_NOTIFICATION_REQUEST"),
        ("diss2", {}, "INVALID_NOTIFICATION_REQUEST"),
    ],
)
async def test_notify_refused(
    client: pyaviso.AsyncAvisoClient, event_type: str, identifier: dict[str, str], code: str
) -> None:
    """A refused notify raises HttpError with the status, the body and the request id."""
    with pytest.raises(pyaviso.HttpError) as refused:
        await client.notify(event_type=event_type, identifier=identifier)
    assert refused.value.status == 400
    assert code in refused.value.body
    assert refused.value.request_id is not None
    assert refused.value.request_id in refused.value.body


# History


async def test_replay_ends(client: pyaviso.AsyncAvisoClient) -> None:
    """A replay delivers the matching history in order and ends, even if there is none."""
    assert await sequences(client, keep=NORTH) == []
    for region in "nsnsn":
        await published(client, 1, region=region)
    assert await sequences(client, keep=NORTH) == [1, 3, 5]
    assert await sequences(client) == [1, 2, 3, 4, 5]


async def test_window_by_sequence(client: pyaviso.AsyncAvisoClient) -> None:
    """A start is exclusive and an end inclusive for the client; both are exact."""
    await published(client, 6)
    assert await sequences(client, keep=NORTH, start_from=2, until=4) == [3, 4]
    assert await sequences(client, start_from=5, until=99) == [6]
    assert await sequences(client, start_from=6) == []


async def test_window_by_date(client: pyaviso.AsyncAvisoClient) -> None:
    """Storage times, as delivered, select inclusively to the nanosecond."""
    await published(client, 5)
    items = await replayed(client)
    times = [item.cloudevent["time"] for item in items if item.cloudevent]
    assert await sequences(client, start_from=times[1], until=times[3]) == [2, 3, 4]
    assert await sequences(client, start_from=times[2]) == [3, 4, 5]
    assert await sequences(client, start_from=1, until=times[2]) == [2, 3]
    assert await sequences(client, start_from="2999-01-01T00:00:00Z") == []


async def test_date_without_time(client: pyaviso.AsyncAvisoClient) -> None:
    """The client sends a plain date as it is, and it is refused."""
    with pytest.raises(pyaviso.HttpError, match="from_date must be a valid datetime") as error:
        await replayed(client, start_from="2026-01-01")
    assert error.value.status == 400


@pytest.mark.parametrize("mode", ["watch", "replay_only"])
async def test_cap(mode: str) -> None:
    """More history than the cap raises replay_limit_reached after exactly the cap."""
    limited = settings({"watch_endpoint": {"max_historical_notifications": 2}})
    async with connected(limited) as server:
        client = anonymous(server.running.url)
        await published(client, 3)
        async with client.listen("ev", filter=NORTH, start_from=0, mode=mode) as history:
            assert [item.sequence for item in await take(history, 2)] == [1, 2]
            with pytest.raises(pyaviso.HistoryGapError) as cut:
                await take(history, 1)
        assert (cut.value.reason, cut.value.max_allowed) == ("replay_limit_reached", 2)
        assert await sequences(client, keep=NORTH, start_from=0, until=2) == [1, 2]


# Live


async def test_listen_in_order(client: pyaviso.AsyncAvisoClient, journal: Journal) -> None:
    """A live listener gets what is published from now on, in order, and only what it asked for."""
    await published(client, 2)
    async with client.listen("ev", filter=NORTH) as live:
        await journal.seen(WATCHING)
        await published(client, 1, region="s")
        await published(client, 20)
        items = await take(live, 20)
    assert [item.sequence for item in items] == list(range(4, 24))
    assert [item.payload for item in items] == list(range(20))


async def test_hand_over_under_load() -> None:
    """Five publishers at once: an unfiltered listener gets 1, 2, 3 ... without a hole.

    It begins in the middle of the publishing, so that it crosses from history to live; the client
    itself raises HistoryGapError at the first jump.
    """
    async with connected(settings()) as server:
        url = server.running.url
        first = anonymous(url)
        await published(first, 50)

        async def listen() -> list[pyaviso.Notification]:
            async with first.listen("ev", start_from=0) as stream:
                return await take(stream, 550)

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(published(anonymous(url), 100, region=str(number)))
            listeners = [group.create_task(listen()) for _ in range(3)]
        for listener in listeners:
            items = listener.result()
            assert [item.sequence for item in items] == list(range(1, 551))
            for name in "01234":
                mine = [item.payload for item in items if item.identifier["region"] == name]
                assert mine == list(range(100))


async def test_two_streams(journal: Journal) -> None:
    """One client follows two event types at once, each with its own sequences."""
    async with connected(settings(schemas=TWO)) as server:
        client = anonymous(server.running.url)
        wanted = {"one": {"event_type": "ev"}, "two": {"event_type": "other"}}
        async with client.listen_many(wanted) as both:
            await journal.seen(WATCHING, 2)
            for _ in range(5):
                await published(client, 1)
                await published(client, 1, event_type="other")
            items = await take(both, 10)
        for name in ("one", "two"):
            assert [item.sequence for from_, item in items if from_ == name] == [1, 2, 3, 4, 5]


async def test_unknown_filter_name() -> None:
    """A mistyped filter ends the listen at once with the server's words."""
    async with connected(settings()) as server:
        client = anonymous(server.running.url)
        async with client.listen("ev", filter={"regin": "n"}) as live:
            with pytest.raises(pyaviso.HttpError, match="regin") as refused:
                await take(live, 1)
        assert refused.value.status == 400


# Reconnecting


async def test_max_duration(journal: Journal) -> None:
    """A listener outlives the longest connection: it comes back after what it had.

    It is unfiltered, so nothing may be missed; its requests start at the last sequence + 1.
    """
    async with connected(
        settings({"watch_endpoint": {"connection_max_duration_sec": 1}})
    ) as server:
        client = anonymous(server.running.url)
        async with client.listen("ev") as live:
            for turn in (1, 2, 3):
                await journal.seen(WATCHING, turn)
                await published(client, 2)
                items = await take(live, 2)
                assert [item.sequence for item in items] == [2 * turn - 1, 2 * turn]
        assert [record["start_at"] for record in journal.all(WATCHING)][:3] == ["live", "3", "5"]


async def test_resume_from_state_file(journal: Journal, tmp_path: Path) -> None:
    """A second client with the first one's state file goes on where that one stopped."""
    async with connected(settings()) as server:
        url = server.running.url
        await published(anonymous(url), 4)
        for start, expected in ((0, [1, 2]), (None, [3, 4])):
            client = anonymous(url, state=pyaviso.JsonFileStore(tmp_path / "state.json"))
            async with client.listen("ev", filter=NORTH, start_from=start) as stream:
                assert [item.sequence for item in await take(stream, 2)] == expected
        assert [record["start_at"] for record in journal.all(WATCHING)] == ["1", "3"]


@pytest.mark.slow
async def test_server_restart(journal: Journal) -> None:
    """After server_shutdown the listener returns to the restarted server and resumes there.

    The in-memory history is lost with the first server, the position of the listener is not.
    """
    async with connected(settings()) as server:
        port = server.running.port
        client = anonymous(server.running.url)
        live = client.listen("ev", filter=NORTH)
        await journal.seen(WATCHING)
        await published(client, 1)
        assert [item.sequence for item in await take(live, 1)] == [1]
    async with live, connected(settings({"application": {"port": port}})):
        await published(client, 2)
        await journal.seen(WATCHING, 2)  # the client waits 5 s after a shutdown
        await published(client, 1)  # on the connection that was idle meanwhile
        assert [item.sequence for item in await take(live, 2)] == [2, 3]
    assert [record["start_at"] for record in journal.all(WATCHING)] == ["live", "2"]


# Filters


async def test_constraints(client: pyaviso.AsyncAvisoClient) -> None:
    """Constraint objects pass through the client unchanged."""
    for severity in range(1, 6):
        await client.notify(
            event_type="extreme",
            identifier={
                "region": "north" if severity % 2 else "south",
                "run_time": "1200",
                "severity": severity,
                "anomaly": severity * 10.5,
            },
        )
    expected: list[tuple[dict[str, Any], list[int]]] = [
        ({"severity": {"gte": 3}}, [3, 4, 5]),
        ({"severity": {"between": [2, 4]}}, [2, 3, 4]),
        ({"severity": {"in": [1, 5]}}, [1, 5]),
        ({"anomaly": {"lt": 21.5}, "region": "south"}, [2]),
        ({"region": {"in": ["south"]}}, [2, 4]),
    ]
    for keep, sequence in expected:
        assert await sequences(client, "extreme", keep=keep) == sequence, keep


async def test_places(client: pyaviso.AsyncAvisoClient) -> None:
    """Polygons touch, points are strictly inside, in every form the client can send."""
    await client.notify(
        event_type="area", identifier={"date": "20260101", "polygon": SQUARE}, payload=1
    )
    near = [[10, 10], [10, 20], [20, 20], [10, 10]]
    for keep, found in (
        ({"point": [5, 5]}, True),
        ({"point": "5,5"}, True),
        ({"point": [10, 5]}, False),
        ({"point": [15, 5]}, False),
        ({"polygon": near}, True),
        ({"polygon": "10,10,10,20,20,20,10,10"}, True),
        ({"polygon": [[11, 11], [11, 20], [20, 20], [11, 11]]}, False),
    ):
        items = await replayed(client, "area", keep=keep)
        assert [item.identifier["polygon"] for item in items] == [SQUARE] * found, keep


async def test_point_clouds(client: pyaviso.AsyncAvisoClient) -> None:
    """A polygon filter keeps point clouds with a point in it."""
    cloud = [[50.0, 50.0], [5.0, 5.0]]
    await client.notify(
        event_type="observations", identifier={"date": "20260101", "point_cloud": cloud}
    )
    (item,) = await replayed(client, "observations", keep={"polygon": SQUARE})
    assert item.identifier["point_cloud"] == cloud
    away = [[20, 20], [20, 30], [30, 30], [20, 20]]
    assert await replayed(client, "observations", keep={"polygon": away}) == []


# Schemas and administration


async def test_schemas(client: pyaviso.AsyncAvisoClient) -> None:
    """The client reads the catalogue, one schema, and a 404 with its request id."""
    catalogue = await client.schema()
    assert catalogue.event_types == sorted(catalogue.schema)
    assert catalogue.total_schemas == len(catalogue.event_types)
    one = await client.schema_for("ev")
    assert one.event_type == "ev"
    assert one.schema == catalogue.schema["ev"]
    with pytest.raises(pyaviso.HttpError, match="Event type 'nope' not found") as missing:
        await client.schema_for("nope")
    assert missing.value.status == 404
    assert missing.value.request_id


async def test_delete_leaves_a_hole(client: pyaviso.AsyncAvisoClient) -> None:
    """A deleted notification stops an unfiltered listener and no filtered one."""
    await published(client, 3)
    await client.delete_notification("ev@2")
    assert await sequences(client, keep=NORTH) == [1, 3]
    with pytest.raises(pyaviso.HistoryGapError) as gap:
        await replayed(client)
    assert gap.value.reason == "sequence_jump"
    assert (gap.value.expected, gap.value.observed) == (2, 3)
    with pytest.raises(pyaviso.HttpError, match="Notification not found") as missing:
        await client.delete_notification("ev@2")
    assert missing.value.status == 404
    with pytest.raises(pyaviso.HttpError, match="format") as malformed:
        await client.delete_notification("ev")
    assert malformed.value.status == 400


async def test_wipe_stream() -> None:
    """A wipe empties one stream, whose sequences go on; an unknown name is a 404."""
    async with connected(settings(schemas=TWO)) as server:
        client = anonymous(server.running.url)
        await published(client, 3)
        await published(client, 1, event_type="other")
        await client.wipe_stream("EV")
        assert await sequences(client, keep=NORTH) == []
        assert await sequences(client, "other") == [1]
        await published(client, 1)
        assert await sequences(client, keep=NORTH) == [4]
        with pytest.raises(pyaviso.HistoryGapError) as gap:
            await replayed(client)
        assert (gap.value.expected, gap.value.observed) == (1, 4)
        with pytest.raises(pyaviso.HttpError, match="Stream not found: evv") as missing:
            await client.wipe_stream("evv")
        assert missing.value.status == 404


async def test_wipe_all(client: pyaviso.AsyncAvisoClient) -> None:
    """Everything is wiped; a listener that is connected stays and goes on."""
    await published(client, 2)
    async with client.listen("ev", start_from=0) as stream:
        assert [item.sequence for item in await take(stream, 2)] == [1, 2]
        await client.wipe_all()
        await published(client, 1)
        assert [item.sequence for item in await take(stream, 1)] == [3]
    assert await sequences(client, keep=NORTH) == [3]
