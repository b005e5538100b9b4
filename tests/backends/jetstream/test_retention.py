"""New limits are announced with what they remove; removing more than is kept needs consent."""

import time
from dataclasses import replace

import pytest
from backends.contract import CATALOGUE, NONE, notification
from backends.jetstream.conftest import Opener, eventually
from hypothesis import given
from hypothesis import strategies as st
from support.journal import Journal, recorded

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.options import StreamDefaults
from aviso_server.backends.jetstream.retention import Contents
from aviso_server.core.json import Json
from aviso_server.core.mark import Mark
from aviso_server.core.schema import Catalogue, StoragePolicy

REMOVES = "backend.jetstream.stream.retention.removes"
REFUSED = "backend.jetstream.stream.retention.refused"

KEEP_LATEST = Catalogue(
    [replace(CATALOGUE.schemas["ev"], storage=StoragePolicy(allow_duplicates=False))]
)


async def stored(backend: JetStreamBackend, count: int, topics: int = 5) -> None:
    """Fill the stream."""
    for n in range(count):
        await backend.append(notification({"region": f"r{n % topics}"}, n), key=f"k{n}")


async def held(backend: JetStreamBackend) -> int:
    """How many notifications the log has."""
    bounds = await backend.bounds("ev")
    return len((await backend.read("ev", 1, bounds.last, limit=1000)).entries)


def told(journal: Journal, event: str) -> list[tuple[int, int]]:
    """Removed and stored, of each announcement."""
    return [(record["removed"], record["stored"]) for record in journal.all(event)]


async def test_a_little_less_is_announced_and_applied(opened: Opener) -> None:
    """At WARN, with numbers, old and new value."""
    await stored(await opened(), 20)
    with recorded() as journal:
        backend = await opened(streams=StreamDefaults(max_messages=12))
        assert await held(backend) == 12
        assert told(journal, REMOVES) == [(8, 20)]
        (record,) = journal.all(REMOVES)
        assert record["changes"] == {"max_messages": {"from": -1, "to": 12}}
        assert not journal.all(REFUSED)


@pytest.mark.parametrize(
    ("streams", "catalogue", "removed"),
    [
        (StreamDefaults(max_messages=3), CATALOGUE, 17),
        (StreamDefaults(max_bytes=400), CATALOGUE, None),
        (StreamDefaults(), KEEP_LATEST, 15),
    ],
)
async def test_more_than_half_needs_consent(
    opened: Opener, streams: StreamDefaults, catalogue: Catalogue, removed: int | None
) -> None:
    """Without it the old limits stay, and notify goes on; with it they are applied."""
    await stored(await opened(), 20)
    with recorded() as journal:
        backend = await opened(catalogue, streams=streams)
        assert await held(backend) == 20
        ((gone, all_of),) = told(journal, REFUSED)
        assert all_of == 20
        assert gone > 10
        assert removed in {None, gone}
        assert "allow_removal" in journal.all(REFUSED)[0]["event"]
        assert (await backend.append(notification(), key="more")).sequence == 21
        consenting = await opened(
            catalogue, streams=replace(streams, allow_removal=frozenset({"ev"}))
        )
        assert await held(consenting) <= 10
        assert len(journal.all(REMOVES)) == 1


async def test_age(opened: Opener) -> None:
    """What is too old is counted by its time; other changes are made all the same."""
    old = await opened()
    await stored(old, 9)
    bounds = await old.bounds("ev")
    youngest = (await old.read("ev", bounds.last, bounds.last, limit=1)).entries[0].stored_at_ns
    await eventually(lambda: time.time_ns() - youngest > 1_100_000_000)
    await old.append(notification(), key="young")
    with recorded() as journal:
        backend = await opened(streams=StreamDefaults(retention_s=1))
        await backend.bounds("ev")
        assert told(journal, REFUSED) == [(9, 10)]


async def test_a_stream_of_the_reference_server_is_no_exception(opened: Opener) -> None:
    """Taking one over must not empty it either."""
    backend = await opened(NONE)
    client = backend._connection._client
    made: dict[str, Json] = {"name": "EV", "subjects": ["ev.>"], "storage": "file"}
    await backend._connection.call("STREAM.CREATE.EV", made)
    for n in range(10):
        await client.request(f"ev.r{n}", b"1")
    with recorded() as journal:
        other = await opened(streams=StreamDefaults(max_messages=2))
        assert await held(other) == 10
        assert told(journal, REFUSED) == [(8, 10)]


async def test_what_the_lake_has_is_not_removed(opened: Opener) -> None:
    """Letting go of archived notifications needs no consent: they are replayed from the lake."""
    await stored(await opened(), 20)

    async def archived(_: str) -> Mark:
        return Mark(through=18)

    with recorded() as journal:
        backend = await opened(streams=StreamDefaults(max_messages=3), marks=archived)
        assert await held(backend) == 3
        assert not journal.all(REFUSED)
        assert not journal.all(REMOVES)


_sizes = st.integers(0, 50)


@given(
    first=st.integers(1, 50),
    kept=st.lists(st.booleans(), max_size=40),
    archived=_sizes,
    limits=st.tuples(_sizes, _sizes),
)
def test_counts_are_never_too_low(
    first: int, kept: list[bool], archived: int, limits: tuple[int, int]
) -> None:
    """Compared with removing one by one: holes make the count higher at most, never lower."""
    sequences = [first + n for n, there in enumerate(kept) if there]
    if not sequences:
        return
    most, young = limits[0], first + limits[1]
    contents = Contents(
        sequences[0], sequences[-1], len(sequences), 10 * len(sequences), 1, archived
    )
    wanted: dict[str, Json] = {"max_msgs": most or -1, "max_age": 1 if limits[1] else 0}
    left = sequences[-most:] if most else sequences
    left = [s for s in left if not limits[1] or s >= young]
    gone = [s for s in sequences if s not in left and s > archived]
    found = contents.removal(wanted, young=young)
    assert len(gone) <= found.removed <= found.stored == len(sequences)
