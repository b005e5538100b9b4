"""Spatial tests that may take long, kept off the event loop."""

import threading
from dataclasses import replace

import pytest
from backends.contract import notification
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.places import zigzag
from support.relay import Relay, asked, relay

from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Area, Geometry
from aviso_server.core.notification import Entry, Record
from aviso_server.core.operation import Operation
from aviso_server.core.spatial import Intersects
from aviso_server.relay import places

SMALL = Area.of(((0.0, 0.0), (0.0, 2.0), (2.0, 2.0), (0.0, 0.0)))
LARGE = Area.of(zigzag(400, 0.0))
CLOSE = Area.of(zigzag(400, 2**-46))


def record(sequence: int, geometry: Geometry | None) -> Record:
    """A stored notification somewhere."""
    return Record(sequence, 0, structs.replace(notification({"region": "n"}), geometry=geometry))


@given(st.lists(st.sampled_from([None, SMALL, LARGE])), st.sampled_from([SMALL, LARGE]))
def test_runs_are_bounded_and_in_order(geometries: list[Area | None], asked_for: Area) -> None:
    """Each holds as much as fits, or one entry that is larger."""
    request = Filter(spatial=Intersects(asked_for))
    entries: list[Entry] = [record(i, area) for i, area in enumerate(geometries)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "RUN_WORK", 10_000)
        runs = list(places.runs(request, entries))
    assert [entry for _, run in runs for entry in run] == entries
    for work, run in runs:
        assert work == sum(map(request.work, run))
        assert work <= 10_000 or len(run) == 1


def test_filters_without_a_place_are_one_run() -> None:
    """They cost nothing here."""
    entries: list[Entry] = [record(i, LARGE) for i in range(5)]
    assert list(places.runs(Filter(), entries)) == [(0, entries)]


async def _publish(world: Relay, area: Area, key: str) -> None:
    item = structs.replace(notification({"region": "n"}), geometry=area)
    await world.backend.append(item, key=key)


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize(("area", "thread"), [(SMALL, "MainThread"), (LARGE, "aviso-places_0")])
async def test_large_places_are_compared_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, area: Area, thread: str, live: bool
) -> None:
    """Of history and of live notifications; small ones where they are, without a detour."""
    seen: list[str] = []
    for name in ("matches", "select"):
        test = getattr(Intersects, name)

        def noted(self: Intersects, given: object, test: object = test) -> object:
            seen.append(threading.current_thread().name)
            return test(self, given)  # type: ignore[operator]

        monkeypatch.setattr(Intersects, name, noted)
    async with relay() as world:
        query = asked(Operation.WATCH, {}, **({} if live else {"from_id": "1"}))
        query = replace(query, filter=Filter(spatial=Intersects(area)))
        if not live:
            await _publish(world, CLOSE, "a")
            await _publish(world, area, "b")
        reader = await world.open(query)
        if live:
            await world.settle()
            await _publish(world, CLOSE, "a")
            await _publish(world, area, "b")
        await reader.until_count(1)
        assert reader.sequences[-1] == 2
    assert set(seen) == {thread}
