"""The contract every backend keeps: one suite, run over each of them.

To run it over a new backend, subclass ``BackendContract`` in a test module and give the subclass
an async fixture ``backend`` that yields a fresh, empty one for the catalogue of
``support.config.settings()``.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest
from support.config import settings

from aviso_server.backends.backend import Backend, Bounds, Receipt
from aviso_server.core.announcement import notification_of
from aviso_server.core.errors import InvalidRequest
from aviso_server.core.filter import Filter
from aviso_server.core.identifier import compile_filter
from aviso_server.core.json import Json
from aviso_server.core.notification import Entry, Notification, Record
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Catalogue
from aviso_server.core.wire import NotificationRequest

CATALOGUE = settings().catalogue
OPEN = Catalogue(CATALOGUE.schemas.values(), strict=False)
"""The same event types, others welcome too."""
NONE = Catalogue([], strict=False)
"""No event type configured: streams are made when they are first used."""


WANTED: list[dict[str, Json]] = [
    {},
    {"region": "north"},
    {"region": "west"},
    {"region": "south", "run_time": "0100"},
    {"run_time": "0200"},
    {"severity": 3},
    {"region": "east", "severity": {"gte": 5}},
    {"region": "north", "run_time": "0000", "severity": 1, "anomaly": 0},
    {"anomaly": 7.5},
    {"severity": {"in": [2, 4]}},
]
"""Filters that fix leading keys, later keys, all keys, none, and texts that subjects escape."""


def notification(
    identifier: dict[str, Json] | None = None, payload: Json = None, event_type: str = "ev"
) -> Notification:
    """A validated notification."""
    asked: dict[str, Json] = {"region": "n"} if identifier is None else identifier
    request = NotificationRequest(event_type=event_type, identifier=asked, payload=payload)
    return notification_of(OPEN.find(event_type), request)


async def append(backend: Backend, count: int = 1, event_type: str = "ev") -> list[int]:
    """Append some notifications with keys of their own; their sequences."""
    receipts = [
        await backend.append(notification({"region": "n"}, n, event_type), key=f"{event_type}-{n}")
        for n in range(count)
    ]
    return [receipt.sequence for receipt in receipts]


def filter_of(event_type: str, identifier: dict[str, Json]) -> Filter:
    """What a replay with this identifier asks for."""
    return compile_filter(OPEN.find(event_type), identifier, Operation.REPLAY)


async def read_all(
    backend: Backend,
    first: int,
    last: int,
    *,
    limit: int = 7,
    event_type: str = "ev",
    wanted: Filter | None = None,
) -> list[Entry]:
    """Read a range the way a feed does, batch by batch."""
    entries: list[Entry] = []
    position = first
    while position <= last:
        batch = await backend.read(event_type, position, last, limit=limit, wanted=wanted)
        assert batch.following > position, "a read always makes progress"
        entries += batch.entries
        position = batch.following
    return entries


def records(entries: Sequence[Entry]) -> list[Record]:
    """The entries, all of which must be readable."""
    return [entry for entry in entries if isinstance(entry, Record)]


class BackendContract:
    """What the relay relies on."""

    async def test_sequences_are_contiguous_from_one(self, backend: Backend) -> None:
        """The first notification of a stream is 1, the next 2, and so on."""
        assert await append(backend, 5) == [1, 2, 3, 4, 5]
        assert await backend.bounds("ev") == Bounds(1, 5)

    async def test_streams_count_for_themselves(self, backend: Backend) -> None:
        """Event types do not share a counter."""
        await append(backend, 3)
        receipt = await backend.append(
            notification({"destination": "A", "note": "x"}, None, "diss2"), key="other"
        )
        assert receipt.sequence == 1

    async def test_an_unused_stream_is_empty(self, backend: Backend) -> None:
        """A stream that never had anything has bounds and an empty history."""
        assert await backend.bounds("ev") == Bounds(1, 0)
        assert await backend.first_since("ev", 0) == 1
        assert await backend.last_until("ev", 2**62) == 0

    async def test_what_was_appended_is_read_back(self, backend: Backend) -> None:
        """Every part of a notification survives storage, geometry and odd texts included."""
        ring: Json = [[52.5, 13.4], [52.6, 13.5], [52.5, 13.6], [52.4, 13.5], [52.5, 13.4]]
        stored = [
            notification({"region": "a.b *>%é\n"}, {"é": [1, 2.5, None]}),
            notification({"region": "*"}, "text"),
            notification({"date": "20250706", "polygon": ring}, 1, "area"),
            notification({"date": "20250706", "polygon": "(1,2,3,4,5,6,1,2)"}, 1, "area"),
            notification(
                {"date": "20250706", "point_cloud": [[1, 2], [3.5, 4]]}, 1, "observations"
            ),
            notification({"destination": "FOO", "note": "ü b"}, None, "diss2"),
        ]
        for number, item in enumerate(stored):
            await backend.append(item, key=f"k{number}")
        for event_type in dict.fromkeys(item.event_type for item in stored):
            expected = [item for item in stored if item.event_type == event_type]
            batch = await backend.read(event_type, 1, len(expected), limit=100)
            assert [r.notification for r in records(batch.entries)] == expected
            assert [r.sequence for r in records(batch.entries)] == list(range(1, len(expected) + 1))

    async def test_times_never_decrease(self, backend: Backend) -> None:
        """Storage times are ordered like sequences."""
        await append(backend, 20)
        times = [r.stored_at_ns for r in records(await read_all(backend, 1, 20))]
        assert len(times) == 20
        assert times == sorted(times)

    async def test_read_respects_range_and_limit(self, backend: Backend) -> None:
        """Any window read in any batch size gives exactly the window."""
        await append(backend, 25)
        for first, last, limit in [(1, 25, 1), (3, 17, 4), (0, 25, 100), (25, 25, 5), (20, 40, 3)]:
            got = [e.sequence for e in await read_all(backend, first, last, limit=limit)]
            assert got == list(range(max(first, 1), min(last, 25) + 1))

    async def test_a_wanted_filter_misses_nothing(self, backend: Backend) -> None:
        """What is read for a filter holds exactly what it matches, whatever may be left out."""
        await backend.bounds("extreme")
        for n in range(60):
            identifier: dict[str, Json] = {
                "region": ("north", "south", "east")[n % 3],
                "run_time": f"{n % 4:02}00",
                "severity": 1 + n % 7,
                "anomaly": n / 2,
            }
            await backend.append(notification(identifier, n, "extreme"), key=f"x{n}")
        await backend.delete("extreme", 31)
        everything = await read_all(backend, 1, 60, event_type="extreme")
        assert len(everything) == 59
        for asked in WANTED:
            wanted = filter_of("extreme", asked)
            for first, last, limit in [(1, 60, 100), (1, 60, 3), (20, 40, 4), (31, 31, 1)]:
                got = await read_all(
                    backend, first, last, limit=limit, event_type="extreme", wanted=wanted
                )
                window = [e for e in everything if first <= e.sequence <= last]
                assert wanted.select(got) == wanted.select(window), asked

    async def test_a_filter_on_a_field_beside_the_topic(self, backend: Backend) -> None:
        """A field that is no topic token is matched like one that is."""
        for n, note in enumerate(["a", "b", "a", "a.b", "*"]):
            item = notification({"destination": "FOO", "note": note}, n, "diss2")
            await backend.append(item, key=note + str(n))
        for note, expected in [("a", [1, 3]), ("a.b", [4]), ("*", [5]), ("c", [])]:
            wanted = filter_of("diss2", {"destination": "FOO", "note": note})
            got = await read_all(backend, 1, 5, event_type="diss2", wanted=wanted)
            assert [e.sequence for e in wanted.select(got)] == expected

    async def test_time_lookup(self, backend: Backend) -> None:
        """from_date and to_date are inclusive at nanoseconds."""
        await append(backend, 10)
        stored = records(await read_all(backend, 1, 10))
        for record in stored:
            same = [r.sequence for r in stored if r.stored_at_ns == record.stored_at_ns]
            assert await backend.first_since("ev", record.stored_at_ns) == same[0]
            assert await backend.last_until("ev", record.stored_at_ns) == same[-1]
        assert await backend.first_since("ev", stored[-1].stored_at_ns + 1) == 11
        assert await backend.last_until("ev", stored[0].stored_at_ns - 1) == 0
        assert await backend.first_since("ev", -(10**20)) == 1
        assert await backend.last_until("ev", 10**20) == 10

    async def test_a_repeated_key_stores_nothing(self, backend: Backend) -> None:
        """The second append with a key answers with the first one's sequence."""
        first = await backend.append(notification(payload=1), key="same")
        again = await backend.append(notification(payload=2), key="same")
        other = await backend.append(notification(payload=3), key="other")
        assert (first.sequence, first.repeated) == (1, False)
        assert (again.sequence, again.repeated) == (1, True)
        assert other.sequence == 2

    async def test_concurrent_appends_all_get_their_own_sequence(self, backend: Backend) -> None:
        """Many appends in flight: contiguous sequences, nothing lost, nothing doubled."""
        receipts = await asyncio.gather(
            *(backend.append(notification(payload=n), key=f"c{n}") for n in range(200))
        )
        assert sorted(r.sequence for r in receipts) == list(range(1, 201))
        payloads = {
            r.sequence: r.notification.payload
            for r in records(await read_all(backend, 1, 200, limit=64))
        }
        assert all(
            payloads[receipt.sequence] == str(n).encode() for n, receipt in enumerate(receipts)
        )

    async def test_many_are_stored_in_their_order(self, backend: Backend) -> None:
        """Each has its own outcome: stored, repeated, or refused."""
        await append(backend, 1)
        items = [(notification(payload=n), f"m{n % 30}") for n in range(40)]
        outcomes = await backend.append_many(items)
        assert outcomes[:30] == [Receipt(n) for n in range(2, 32)]
        assert outcomes[30:] == [Receipt(n, repeated=True) for n in range(2, 12)]
        strange = await backend.append_many([(notification(event_type="EV2"), "a"), items[0]])
        assert strange == [Receipt(1), Receipt(2, repeated=True)]
        second = await backend.append_many([(notification(event_type="ev2"), "b")])
        assert isinstance(second[0], InvalidRequest)
        assert await backend.append_many([]) == []

    async def test_together_is_all_or_none(self, backend: Backend) -> None:
        """Stored as one; again it is the same; if some keys are known nothing is stored."""
        items = [(notification(payload=n), f"t{n}") for n in range(8)]
        assert await backend.append_together(items[:5]) == [Receipt(n) for n in range(1, 6)]
        again = await backend.append_together(items[:5])
        assert again == [Receipt(n, repeated=True) for n in range(1, 6)]
        some = await backend.append_together(items[3:])
        assert some == [Receipt(4, repeated=True), Receipt(5, repeated=True), None, None, None]
        assert (await backend.bounds("ev")).last == 5
        assert await backend.append_many(items[5:]) == [Receipt(n) for n in range(6, 9)]
        alone = [(notification(payload=9), "t9")]
        assert await backend.append_together(alone) == [Receipt(9)]

    async def test_delete_leaves_a_hole(self, backend: Backend) -> None:
        """One is gone, its neighbours keep their sequences, a second time is False."""
        await append(backend, 5)
        assert await backend.delete("ev", 3)
        assert not await backend.delete("ev", 3)
        assert not await backend.delete("ev", 99)
        assert not await backend.delete("nothing-here", 1)
        assert [e.sequence for e in await read_all(backend, 1, 5)] == [1, 2, 4, 5]
        assert await backend.bounds("ev") == Bounds(1, 5, deleted=1)

    async def test_deleting_the_ends_moves_them(self, backend: Backend) -> None:
        """First available is the lowest stored; last stays what was allocated; nothing is lost."""
        await append(backend, 5)
        await backend.delete("ev", 1)
        await backend.delete("ev", 5)
        bounds = await backend.bounds("ev")
        assert (bounds.first, bounds.last, bounds.lost) == (2, 5, 0)
        assert await append_one(backend) == 6

    async def test_time_lookup_steps_over_holes(self, backend: Backend) -> None:
        """to_date resolves to the last stored notification, not to a hole."""
        await append(backend, 4)
        stored = records(await read_all(backend, 1, 4))
        await backend.delete("ev", 4)
        await backend.delete("ev", 1)
        assert await backend.last_until("ev", stored[3].stored_at_ns) == 3
        assert await backend.first_since("ev", stored[0].stored_at_ns) == 2

    async def test_wipe_keeps_the_counter(self, backend: Backend) -> None:
        """Everything goes, the next sequence follows the last, and nothing is 'lost'."""
        await append(backend, 5)
        assert await backend.wipe("ev") == 5
        bounds = await backend.bounds("ev")
        assert (bounds.first, bounds.last, bounds.lost) == (6, 5, 0)
        assert await read_all(backend, 1, 5) == []
        assert await append_one(backend) == 6
        assert [e.sequence for e in await read_all(backend, 1, 6)] == [6]

    async def test_wipe_touches_one_stream(self, backend: Backend) -> None:
        """Wiping one event type leaves the others."""
        await append(backend, 2)
        await backend.append(notification({"destination": "A", "note": "x"}, 1, "diss2"), key="d")
        await backend.wipe("ev")
        assert await backend.bounds("diss2") == Bounds(1, 1)

    async def test_tail_delivers_everything_above(self, backend: Backend) -> None:
        """A tail gives what exists above its start, then what arrives, in order, once."""
        await append(backend, 4)
        got: list[int] = []
        async with asyncio.timeout(20), aclosing(backend.tail("ev", 2)) as tail:
            async for entries in tail:
                got += [entry.sequence for entry in entries]
                if got == [3, 4]:
                    for n in range(50):
                        await backend.append(notification(payload=n), key=f"t{n}")
                if len(got) >= 52:
                    break
        assert got == list(range(3, 55))

    async def test_tail_of_an_unused_stream_waits(self, backend: Backend) -> None:
        """Following may begin before anything was announced."""
        async with asyncio.timeout(20), aclosing(backend.tail("ev", 0)) as tail:
            first = asyncio.ensure_future(anext(tail))
            await asyncio.sleep(0)
            await append(backend, 1)
            assert [entry.sequence for entry in await first] == [1]

    async def test_generic_event_types(self, backend: Backend) -> None:
        """Event types without schema are kept like all others, with every field."""
        item = notification({"b": "2", "a": "1"}, None, "made_up")
        await backend.append(item, key="g")
        batch = await backend.read("made_up", 1, 1, limit=10)
        assert [r.notification for r in records(batch.entries)] == [item]
        assert "made_up" in await backend.event_types()

    async def test_a_second_spelling_is_refused(self, backend: Backend) -> None:
        """Two event types cannot share a stream name."""
        await backend.append(notification({}, None, "Made_Up"), key="g")
        with pytest.raises(InvalidRequest, match="event_type 'made_up' conflicts"):
            await backend.append(notification({}, None, "made_up"), key="h")

    async def test_connected(self, backend: Backend) -> None:
        """A backend in use is connected."""
        assert backend.connected


async def append_one(backend: Backend) -> int:
    """Append one more notification; its sequence."""
    return (await backend.append(notification(payload="more"), key="one more")).sequence
