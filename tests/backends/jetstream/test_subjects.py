"""Reading by subject: the server leaves out what a filter cannot match, and nothing else."""

import asyncio
import random
from dataclasses import replace

from backends.contract import CATALOGUE, append, filter_of, notification, read_all
from backends.jetstream.conftest import Opener, config_of

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.configuration import TOPIC, TOPIC_FROM
from aviso_server.core.announcement import notification_of
from aviso_server.core.constraint import Choice, Kind
from aviso_server.core.filter import Filter
from aviso_server.core.json import Json
from aviso_server.core.notification import Record, Unreadable
from aviso_server.core.schema import Catalogue, StoragePolicy
from aviso_server.core.wire import NotificationRequest

NOTE_IN_TOPIC = Catalogue(
    {
        **CATALOGUE.schemas,
        "diss2": replace(CATALOGUE.schemas["diss2"], key_order=("destination", "note")),
    }.values()
)
"""The event types after ``note`` of ``diss2`` has become a topic token."""

NOTE_FIRST = Catalogue(
    {
        **CATALOGUE.schemas,
        "diss2": replace(CATALOGUE.schemas["diss2"], key_order=("note", "destination")),
    }.values()
)
"""And after it was put in front."""


async def stored_raw(
    backend: JetStreamBackend, *subjects: str, event_type: str = "extreme"
) -> None:
    """Store messages as others may have written them."""
    await backend.bounds(event_type)
    client = backend._connection._client
    await asyncio.gather(*(client.request(subject, b"1") for subject in subjects))


async def dispatched(backend: JetStreamBackend, notes: str, *, by: str = "one") -> None:
    """Append a notification of ``diss2`` for each note."""
    for n, note in enumerate(notes):
        identifier: dict[str, Json] = {"destination": "FOO", "note": note}
        request = NotificationRequest(event_type="diss2", identifier=identifier, payload=n)
        item = notification_of(backend._schema("diss2"), request)
        await backend.append(item, key=f"{by}-{note}-{n}")


async def renote(backend: JetStreamBackend, **notes: str | None) -> None:
    """Write other notes into the metadata of the stream of ``diss2``; None takes one away."""
    config = await config_of(backend, "DISS")
    assert isinstance(config["metadata"], dict)
    merged = {**config["metadata"], **notes}
    kept: dict[str, Json] = {name: text for name, text in merged.items() if text is not None}
    await backend._connection.call("STREAM.UPDATE.DISS", {**config, "metadata": kept})


async def found(backend: JetStreamBackend, event_type: str, wanted: Filter) -> list[int]:
    """The sequences that a replay of the whole log delivers."""
    last = (await backend.bounds(event_type)).last
    got = await read_all(backend, 1, last, event_type=event_type, wanted=wanted)
    return [entry.sequence for entry in wanted.select(got)]


async def test_what_cannot_match_is_not_read(opened: Opener) -> None:
    """One read of one message passes the whole log when the filter matches nothing in it."""
    backend = await opened()
    await append(backend, 50)
    last = (await backend.bounds("ev")).last
    batch = await backend.read("ev", 1, last, limit=1, wanted=filter_of("ev", {"region": "zz"}))
    assert (list(batch.entries), batch.following, batch.passed) == ([], last + 1, 0)


async def test_later_keys_are_left_to_the_server_too(opened: Opener) -> None:
    """A filter need not fix the first key: what it fixes is asked for by place."""
    backend = await opened()
    for n in range(20):
        identifier: dict[str, Json] = {
            "region": "north",
            "run_time": f"{n % 4:02}00",
            "severity": 1 + n % 5,
            "anomaly": n,
        }
        await backend.append(notification(identifier, n, "extreme"), key=str(n))
    wanted = filter_of("extreme", {"severity": 3})
    last = (await backend.bounds("extreme")).last
    batch = await backend.read("extreme", 1, last, limit=250, wanted=wanted)
    assert [e.sequence for e in batch.entries] == [3, 8, 13, 18]
    assert batch.passed == 0


async def test_what_was_written_after_the_look_is_not_missed(opened: Opener) -> None:
    """A read beyond what this process has seen of the stream looks at every message."""
    one, other = await opened(), await opened()
    assert (await one.bounds("ev")).last == 0
    await append(other, 3)
    wanted = filter_of("ev", {"region": "n"})
    assert [e.sequence for e in await read_all(one, 1, 3, wanted=wanted)] == [1, 2, 3]


async def test_topics_of_any_length_are_found(opened: Opener) -> None:
    """Surplus tokens are ignored and missing ones leave fields out, filtered or not.

    The odd subjects are drawn: every length, values that match and values that do not, escapes
    spelled as others may spell them, and some that cannot be read.
    """
    backend = await opened()
    draw = random.Random(7)
    choices = [
        ("north", "south", "*", "%zz"),
        ("0000", "0100"),
        ("1", "2"),
        ("7%2E5", "7%2e5", "7", "%37"),
        ("surplus",),
        ("more",),
    ]
    subjects = [
        ".".join(["extreme", *(draw.choice(of) for of in choices[: draw.randint(1, 6)])])
        for _ in range(150)
    ]
    await stored_raw(backend, *(s.replace("*", "%2A") for s in subjects))
    everything = await read_all(backend, 1, 150, event_type="extreme", limit=250)
    assert len(everything) == 150
    filters: list[dict[str, Json]] = [
        {"region": "north"},
        {"region": "south", "run_time": "0100"},
        {"run_time": "0000", "severity": 2},
        {"anomaly": 7.5},
        {"region": "north", "run_time": "0000", "severity": 1, "anomaly": 7.5},
    ]
    for asked in filters:
        wanted = filter_of("extreme", asked)
        got = await read_all(backend, 1, 150, event_type="extreme", limit=9, wanted=wanted)
        readable = [e for e in everything if not isinstance(e, Unreadable)]
        chosen = [e for e in wanted.select(got) if not isinstance(e, Unreadable)]
        assert chosen == wanted.select(readable), asked


async def test_unreadable_messages_under_the_subject_are_reported(opened: Opener) -> None:
    """A message that the subject does not exclude and that cannot be read keeps its place."""
    backend = await opened()
    await stored_raw(backend, "extreme.north.%zz.1.2", "extreme.south.%zz.1.2")
    wanted = filter_of("extreme", {"region": "north"})
    assert len(await found(backend, "extreme", wanted)) == 1


async def test_a_field_that_became_a_token(opened: Opener) -> None:
    """History written while the field was beside the topic is found as before."""
    await dispatched(await opened(), "aba")
    backend = await opened(NOTE_IN_TOPIC)
    await dispatched(backend, "ab", by="other")
    wanted = filter_of("diss2", {"destination": "FOO", "note": "a"})
    assert await found(backend, "diss2", wanted) == [1, 3, 4]


async def test_servers_with_different_key_orders_at_the_same_time(opened: Opener) -> None:
    """While a new configuration is rolled out both ways of writing are found."""
    new = await opened(NOTE_IN_TOPIC)
    await dispatched(new, "ab")
    wanted = filter_of("diss2", {"destination": "FOO", "note": "a"})
    assert await found(new, "diss2", wanted) == [1]
    old = await opened()
    await dispatched(old, "aba", by="other")
    await dispatched(new, "a", by="third")
    assert await found(new, "diss2", wanted) == [1, 3, 5, 6]
    assert await found(old, "diss2", wanted) == [1, 3, 5, 6]


async def test_keys_in_another_order(opened: Opener) -> None:
    """What both orders stored is found by either, and keeps its meaning; also at the same time."""
    one, other = await opened(NOTE_IN_TOPIC), await opened(NOTE_FIRST)
    await dispatched(one, "ab")
    await dispatched(other, "ba", by="other")
    await dispatched(one, "FOO", by="third")
    notes = ["a", "b", "b", "a", "F", "O", "O"]
    for backend in (one, other, await opened(NOTE_IN_TOPIC)):
        everything = await read_all(backend, 1, 7, event_type="diss2")
        records = [entry for entry in everything if isinstance(entry, Record)]
        assert [record.notification.identifier for record in records] == [
            {"destination": "FOO", "note": note} for note in notes
        ]
        for note in "abFO":
            wanted = filter_of("diss2", {"destination": "FOO", "note": note})
            expected = [n for n, stored in enumerate(notes, 1) if stored == note]
            assert await found(backend, "diss2", wanted) == expected


async def test_messages_of_others_keep_their_meaning(opened: Opener) -> None:
    """The reference server's do not name their fields: they are read as was declared then."""
    await stored_raw(await opened(NOTE_IN_TOPIC), "diss.FOO.a", "diss.BAR.b", event_type="diss2")
    backend = await opened(NOTE_FIRST)
    await stored_raw(backend, "diss.c.BAR", event_type="diss2")
    for reader in (backend, await opened(NOTE_FIRST)):
        wanted = filter_of("diss2", {"destination": "BAR"})
        assert await found(reader, "diss2", wanted) == [2, 3]
        wanted = filter_of("diss2", {"destination": "FOO", "note": "a"})
        assert await found(reader, "diss2", wanted) == [1]


async def test_a_note_that_was_overwritten_is_made_again(opened: Opener) -> None:
    """Two servers may note at the same time; the one whose note is gone sees it and notes again."""
    old, new = await opened(), await opened(NOTE_IN_TOPIC)
    await dispatched(new, "a")
    await dispatched(old, "a", by="other")
    await renote(old, **{TOPIC: '["destination","note"]'})
    await old.bounds("diss2")
    await old.bounds("diss2")
    wanted = filter_of("diss2", {"destination": "FOO", "note": "a"})
    assert await found(new, "diss2", wanted) == [1, 2]


async def test_streams_from_before_this_was_noted(opened: Opener) -> None:
    """What a stream held before it was noted which fields are tokens is read as a whole."""
    old = await opened()
    await dispatched(old, "aba")
    await renote(old, **{TOPIC: None, TOPIC_FROM: None})
    backend = await opened(NOTE_IN_TOPIC)
    await dispatched(backend, "zzab", by="other")
    wanted = filter_of("diss2", {"destination": "FOO", "note": "a"})
    assert await found(backend, "diss2", wanted) == [1, 3, 6]
    batch = await backend.read("diss2", 4, 7, limit=1, wanted=wanted)
    assert [e.sequence for e in batch.entries] == [6], "and by subject from there on"


async def test_loss_shows_though_nothing_matches(opened: Opener) -> None:
    """The bounds of a filtered read report what retention removed."""
    schemas = {
        **CATALOGUE.schemas,
        "ev": replace(CATALOGUE.schemas["ev"], storage=StoragePolicy(max_messages=3)),
    }
    backend = await opened(Catalogue(schemas.values()))
    await append(backend, 5)
    last = (await backend.bounds("ev")).last
    batch = await backend.read("ev", 1, last, limit=10, wanted=filter_of("ev", {"region": "zz"}))
    assert (list(batch.entries), batch.following) == ([], 6)
    assert (batch.bounds.first, batch.bounds.lost) == (3, 2)


async def test_what_is_not_wanted_is_not_decoded(opened: Opener) -> None:
    """Where the server cannot decide, the texts do: neither place nor payload is read."""
    backend = await opened()
    ring: Json = [[1, 2], [3, 4], [5, 6], [1, 2]]
    for day in ("20250706", "20250707", "20250706"):
        await backend.append(notification({"date": day, "polygon": ring}, 1, "area"), key=day)
    wanted = Filter(constraints=(Choice("date", Kind.ENUM, frozenset({"20250707"})),))
    batch = await backend.read("area", 1, 2, limit=10, wanted=wanted)
    assert [e.sequence for e in batch.entries] == [2]
    assert batch.passed == 1
