"""Every frame of docs/protocol.md#streams through sockets, byte for byte, with a frozen clock."""

import pytest
from support.config import settings
from support.edge import NOON_NS, Edge, Parts, edge
from support.faults import FaultyBackend
from support.raw import request, wired

from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.errors import HistoryFailed, LiveFailed
from aviso_server.relay.query import StreamRules

AREA = "(52.5,13.4,52.6,13.5,52.5,13.6,52.4,13.5,52.5,13.4)"
POINTS = "[[52.5,13.4],[52.6,13.5],[52.5,13.6],[52.4,13.5],[52.5,13.4]]"
FILTER = {"time": "12:00", "polygon": AREA}
NOW = '"timestamp":"2026-03-04T10:00:00Z"'
TOPIC = '"topic":"polygon.*.1200"'
HEARTBEAT = f"event: heartbeat\ndata: {{{NOW},{TOPIC}}}\n\n"
COMPLETED = f'event: replay-control\ndata: {{{NOW},{TOPIC},"type":"replay_completed"}}\n\n'
REASONS = {
    "end_of_stream": "Stream completed",
    "max_duration_reached": "Connection reached maximum duration",
    "server_shutdown": "Server is shutting down gracefully",
}


def frozen() -> int:
    return NOON_NS


def started(request_id: str, first: str = "1", **more: str) -> str:
    """`replay_started`; members are given as JSON text."""
    known = {"batch_size": "100", "end_sequence": "null", "from_date": "null", "to_date": "null"}
    known |= {"from_sequence": first, "request_id": f'"{request_id}"', **more}
    known |= {"timestamp": '"2026-03-04T10:00:00Z"', "topic": '"polygon.*.1200"'}
    known["type"] = '"replay_started"'
    members = ",".join(f'"{name}":{known[name]}' for name in sorted(known))
    return f"event: replay-control\ndata: {{{members}}}\n\n"


def notification(name: str, sequence: int) -> str:
    return (
        f'event: {name}\ndata: {{"data":{{"identifier":{{"date":"20250706","polygon":{POINTS},'
        '"time":"1200"},"payload":{"note":"ok"}},"datacontenttype":"application/json",'
        '"dataschema":"http://localhost:8000/api/v1/schema/test_polygon",'
        f'"id":"test_polygon@{sequence}","sequence":{sequence},"source":"http://localhost:8000",'
        '"specversion":"1.0","time":"2026-03-04T10:00:00.123456789Z",'
        '"type":"int.ecmwf.aviso.test_polygon"}\n\n'
    )


def closing(request_id: str, reason: str = "end_of_stream") -> str:
    return (
        f'event: connection-closing\ndata: {{"message":"{REASONS[reason]}","reason":"{reason}",'
        f'"request_id":"{request_id}",{NOW},{TOPIC}}}\n\n'
    )


def gap(requested: int, first: int) -> str:
    return (
        f'event: replay-control\ndata: {{"first_available_sequence":{first},'
        f'"requested_sequence":{requested},{NOW},{TOPIC},"type":"history_gap"}}\n\n'
    )


def failed(request_id: str, message: str) -> str:
    return (
        f'event: error\ndata: {{"error":"stream_processing_failed","message":"{message}",'
        f'"request_id":"{request_id}",{TOPIC}}}\n\n'
    )


async def publish(client: Edge, count: int) -> None:
    for _ in range(count):
        identifier = {"date": "2025-07-06", "time": 12, "polygon": AREA}
        await client.notify("test_polygon", identifier, payload={"note": "ok"})


async def replayed(client: Edge, **cursors: object) -> tuple[str, str]:
    """The whole body of a replay, and its request id."""
    async with client.replay("test_polygon", FILTER, **cursors) as stream:
        body = b"".join(event.raw for event in await stream.rest())
        return body.decode(), stream.response.headers["X-Request-ID"]


async def test_a_replay() -> None:
    """Started, replayed, completed, closed; the same id in header, opening and close."""
    async with edge(settings(), Parts(now_ns=frozen)) as client:
        await publish(client, 2)
        body, request_id = await replayed(client, from_id="1")
        assert body == (
            started(request_id)
            + notification("replay", 1)
            + notification("replay", 2)
            + COMPLETED
            + closing(request_id)
        )


@pytest.mark.parametrize(
    ("cursors", "shown", "delivered"),
    [
        ({"from_id": "0"}, {"first": "0"}, [1, 2, 3]),
        ({"from_id": 3}, {"first": "3"}, [3]),
        ({"from_id": "4"}, {"first": "4"}, []),
        ({"from_id": "18446744073709551615"}, {"first": "18446744073709551615"}, []),
        ({"from_id": "2", "to_id": "2"}, {"first": "2", "end_sequence": "2"}, [2]),
        ({"from_id": "2", "to_id": "9"}, {"first": "2", "end_sequence": "3"}, [2, 3]),
        ({"from_id": "0", "to_id": "0"}, {"first": "0", "end_sequence": "0"}, []),
        (
            {"from_date": "2026-03-04T10:00:00.123456789Z"},
            {"first": "null", "from_date": '"2026-03-04T10:00:00Z"'},
            [1, 2, 3],
        ),
        (
            {"from_date": "2026-03-04T11:00:00.123456790+01:00"},
            {"first": "null", "from_date": '"2026-03-04T10:00:00Z"'},
            [],
        ),
        (
            {"from_date": "9999-12-31T23:59:59Z"},
            {"first": "null", "from_date": '"9999-12-31T23:59:59Z"'},
            [],
        ),
        (
            {"from_date": 0, "to_date": 1772618400123},
            {
                "first": "null",
                "from_date": '"1970-01-01T00:00:00Z"',
                "to_date": '"2026-03-04T10:00:00Z"',
                "end_sequence": "0",
            },
            [],
        ),
        (
            {"from_id": "1", "to_date": "1772618401"},
            {"first": "1", "to_date": '"2026-03-04T10:00:01Z"', "end_sequence": "3"},
            [1, 2, 3],
        ),
    ],
)
async def test_starts_and_ends(
    cursors: dict[str, object], shown: dict[str, str], delivered: list[int]
) -> None:
    """Inclusive, to the nanosecond; `end_sequence` is the effective end."""
    async with edge(settings(), Parts(now_ns=frozen)) as client:
        await publish(client, 3)
        body, request_id = await replayed(client, **cursors)
        assert body == (
            started(request_id, **shown)
            + "".join(notification("replay", sequence) for sequence in delivered)
            + COMPLETED
            + closing(request_id)
        )


async def test_a_live_watch_until_shutdown() -> None:
    """Established, heartbeat at once, live from after the headers on, shutdown."""
    async with edge(settings(), Parts(now_ns=frozen)) as client:
        await publish(client, 1)
        async with client.watch("test_polygon", FILTER) as stream:
            request_id = stream.response.headers["X-Request-ID"]
            await publish(client, 1)
            seen = await stream.until("live-notification")
            client.running.stop.request()
            seen += await stream.rest()
        assert b"".join(event.raw for event in seen).decode() == (
            'event: live-notification\ndata: {"connection_will_close_in_seconds":3600,'
            f'"request_id":"{request_id}",{NOW},{TOPIC},"type":"connection_established"}}\n\n'
            + HEARTBEAT
            + notification("live-notification", 2)
            + closing(request_id, "server_shutdown")
        )


async def test_a_watch_with_a_start() -> None:
    """History, the boundary, then live."""
    async with edge(settings(), Parts(now_ns=frozen)) as client:
        await publish(client, 1)
        async with client.watch("test_polygon", FILTER, from_id="1") as stream:
            request_id = stream.response.headers["X-Request-ID"]
            seen = await stream.until("replay_completed")
            await publish(client, 1)
            seen += await stream.until("live-notification")
        assert b"".join(event.raw for event in seen).decode() == (
            started(request_id)
            + HEARTBEAT
            + notification("replay", 1)
            + COMPLETED
            + notification("live-notification", 2)
        )


@pytest.mark.parametrize("start", [{}, {"from_id": "1"}])
async def test_a_watch_ends_when_its_time_is_up(start: dict[str, str]) -> None:
    """The closing frame says so, and nothing follows it."""
    rules = StreamRules(max_duration_s=0.05)
    async with edge(settings(), Parts(now_ns=frozen, rules=rules)) as client:
        async with client.watch("test_polygon", FILTER, **start) as stream:
            request_id = stream.response.headers["X-Request-ID"]
            seen = await stream.rest()
        assert seen[-1].raw.decode() == closing(request_id, "max_duration_reached")


async def test_the_cap() -> None:
    """N delivered, the limit frame, and neither completion nor live."""
    rules = StreamRules(history_cap=2, batch_size=7)
    async with edge(settings(), Parts(now_ns=frozen, rules=rules)) as client:
        await publish(client, 2)
        body, request_id = await replayed(client, from_id="1")
        assert "notification_replay_limit_reached" not in body  # exactly the cap completes
        await publish(client, 1)
        body, request_id = await replayed(client, from_id="1")
        assert body == (
            started(request_id, batch_size="7")
            + notification("replay", 1)
            + notification("replay", 2)
            + 'event: replay-control\ndata: {"max_allowed":2,"message":"Historical replay limited '
            "to 2 messages. Additional historical messages may be available but were not "
            f'retrieved.",{NOW},{TOPIC},"type":"notification_replay_limit_reached"}}\n\n'
            + closing(request_id)
        )


@pytest.mark.parametrize(("first", "signalled"), [("1", True), ("2", False), ("0", False)])
async def test_the_gap_signal(first: str, signalled: bool) -> None:
    """A start older than anything kept is signalled once, and the replay continues."""
    backend = MemoryBackend(MemoryLimits(max_messages=2), now_ns=frozen)
    async with edge(settings(), Parts(backend, frozen)) as client:
        await publish(client, 3)
        body, request_id = await replayed(client, from_id=first)
        assert body == (
            started(request_id, first)
            + (gap(1, 2) if signalled else "")
            + notification("replay", 2)
            + notification("replay", 3)
            + COMPLETED
            + closing(request_id)
        )


async def test_a_history_failure() -> None:
    """`error`, then the close; a false completion never appears."""
    backend = FaultyBackend(
        {"read": HistoryFailed("Failed to read history", details="nats: timeout")}
    )
    async with edge(settings(), Parts(backend, frozen)) as client:
        await publish(client, 1)
        body, request_id = await replayed(client, from_id="1")
        assert body == (
            started(request_id) + failed(request_id, "Failed to read history") + closing(request_id)
        )


async def test_a_live_failure() -> None:
    """A live source that stays down ends the watch with `error`."""
    backend = FaultyBackend({"tail": LiveFailed("gone")})
    async with edge(settings(), Parts(backend, frozen)) as client:
        async with client.watch("test_polygon", FILTER) as stream:
            request_id = stream.response.headers["X-Request-ID"]
            seen = await stream.rest()
        assert b"".join(event.raw for event in seen[2:]).decode() == (
            failed(request_id, "Live notifications are no longer available") + closing(request_id)
        )


async def test_an_unreadable_message() -> None:
    """`error` stands in its place, with its own topic, and the stream goes on."""

    def in_place(request_id: str, sequence: int) -> str:
        return (
            'event: error\ndata: {"error":"CloudEvent creation failed",'
            f'"message":"Failed to decode stored topic","request_id":"{request_id}",'
            f'"sequence":{sequence},"topic":"polygon.20250706.1200"}}\n\n'
        )

    backend = FaultyBackend()
    backend.unreadable = (1, 2)
    async with edge(settings(), Parts(backend, frozen)) as client:
        await publish(client, 1)
        body, request_id = await replayed(client, from_id="1")
        assert body == (
            started(request_id) + in_place(request_id, 1) + COMPLETED + closing(request_id)
        )
        async with client.watch("test_polygon", FILTER) as stream:
            await publish(client, 1)
            request_id = stream.response.headers["X-Request-ID"]
            event = (await stream.until("error"))[-1]
            assert event.raw.decode() == in_place(request_id, 2)


async def test_heartbeats_on_an_idle_watch() -> None:
    """One at once, then one per interval, always the same bytes under a frozen clock."""
    rules = StreamRules(heartbeat_s=0.02)
    async with (
        edge(settings(), Parts(now_ns=frozen, rules=rules)) as client,
        client.watch("test_polygon", FILTER) as stream,
    ):
        await stream.next()
        for _ in range(3):
            event = await stream.next()
            assert event is not None
            assert event.raw.decode() == HEARTBEAT


async def test_frames_are_never_split_over_chunks() -> None:
    """What is written at once is whole frames, and the body ends cleanly."""
    async with edge(settings()) as client, wired(client.running) as wire:
        await publish(client, 250)
        body = b'{"event_type":"test_polygon","identifier":{"point":"52.55,13.5"},"from_id":"1"}'
        await wire.send(request("POST", "/api/v1/replay", body))
        await wire.reader.readuntil(b"\r\n\r\n")
        frames = 0
        while chunk := await wire.chunk():
            assert chunk.startswith(b"event: ")
            assert chunk.endswith(b"}\n\n")
            frames += chunk.count(b"\n\n")
        assert frames == 253
        assert (await wire.ask("GET", "/health")).status == 200  # and the connection goes on


async def test_stream_text_stays_on_one_line() -> None:
    """Line ends in values are escaped: a client's text cannot forge a frame."""
    nasty = "a\n\nevent: x\ndata: {}\r\n\u2028\x85"
    async with edge(settings(), Parts(now_ns=frozen)) as client:
        await client.notify("ev", {"region": nasty}, payload={nasty: nasty})
        async with client.replay("ev", {"region": nasty}, from_id="1") as stream:
            events = await stream.rest()
        assert [event.kind for event in events] == (
            ["replay_started", "replay", "replay_completed", "end_of_stream"]
        )
        assert all(event.raw.count(b"\n") == 3 for event in events)
        assert events[0].data["topic"] == f"ev.{nasty}"
        assert events[1].data["data"] == {
            "identifier": {"region": nasty},
            "payload": {nasty: nasty},
        }
