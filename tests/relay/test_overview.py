"""Looking at everything that is held: what is shown, what it costs, and what may go wrong."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from backends.contract import CATALOGUE, OPEN, append
from support.faults import FaultyBackend
from support.journal import recorded
from support.lake import filled, record

from aviso_server.backends.backend import Bounds
from aviso_server.backends.memory.backend import MemoryLimits
from aviso_server.backends.metered import MeteredBackend
from aviso_server.core.errors import HistoryFailed
from aviso_server.core.schema import Catalogue, Schema
from aviso_server.lake.bounds import LakeBounds
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import Place
from aviso_server.relay import overview as module
from aviso_server.relay.lake import LakeTier
from aviso_server.relay.overview import Look, LookPace, Overview, Seen
from aviso_server.relay.totals import NOTHING, Retention, TierBounds, Totals
from aviso_server.telemetry.cells import Cells
from aviso_server.telemetry.metrics import Metrics

NOW_S = 1_772_618_400
"""2026-03-04T10:00:00Z."""


@dataclass
class Clock:
    """A wall clock and a monotonic one that tests move."""

    at_s: float = NOW_S

    def ns(self) -> int:
        return int(self.at_s * 1_000_000_000)

    def monotonic(self) -> float:
        return self.at_s


class Hung(Lake):
    """A lake on a disk that does not answer."""

    async def bounds(self, event_type: str, *, fresh: bool = False) -> LakeBounds:
        await asyncio.Event().wait()
        return await super().bounds(event_type, fresh=fresh)


@dataclass
class Bench:
    """An overview of a memory backend, and the clock of both."""

    clock: Clock
    backend: FaultyBackend
    overview: Overview

    async def look(self, catalogue: Catalogue = CATALOGUE) -> dict[str, Seen]:
        """A fresh look; what was seen by event type."""
        self.clock.at_s += 1
        return by_name(await self.overview.look(catalogue))

    async def publish(self, event_type: str, count: int = 1) -> None:
        """Store some notifications at this moment."""
        for _ in range(count):
            item = record(1, event_type).notification
            await self.backend.append(item, key=str(self.backend.asked.total()))


def by_name(look: Look) -> dict[str, Seen]:
    return {seen.schema.event_type: seen for seen in look.event_types}


def totals_of(seen: Seen) -> Totals:
    assert seen.totals is not None
    return seen.totals


@asynccontextmanager
async def bench(
    *,
    limits: MemoryLimits | None = None,
    lake: LakeTier | None = None,
    others: bool = True,
    retention: Retention | None = None,
    within_s: float = 60,
) -> AsyncIterator[Bench]:
    clock = Clock()
    backend = FaultyBackend(limits=limits, now_ns=clock.ns)
    overview = Overview(
        backend,
        lambda _: None,
        retention=lambda _: retention or Retention(),
        now_ns=clock.ns,
        lake=lake,
        others=others,
        pace=LookPace(kept_s=1, within_s=within_s, clock=clock.monotonic),
    )
    try:
        yield Bench(clock, backend, overview)
    finally:
        await overview.close()


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    """An empty lake, read whenever it is asked."""
    opened = Lake(Place(str(tmp_path)), refresh_s=0)
    yield opened
    await opened.close()


# What is shown


async def test_every_configured_event_type_is_reported_with_what_it_has() -> None:
    """By name; those that never had anything too."""
    async with bench() as this:
        await append(this.backend, 3)
        await this.backend.delete("ev", 2)
        this.clock.at_s += 100
        seen = await this.look()
        assert list(seen) == sorted(CATALOGUE.names)
        told = totals_of(seen["ev"])
        assert (told.stored, told.first, told.last) == (2, 1, 3)
        assert told.newest_ns == NOW_S * 1_000_000_000
        assert list(told.rates) == [0, 0.01, round(3 / 3600, 6)]
        assert told.tiers == (TierBounds("log", 1, 3),)
        assert seen["area"].totals == NOTHING
        assert all(item.error is None for item in seen.values())


async def test_the_newest_is_the_last_one_that_is_still_there() -> None:
    """A deleted last one is not; after a wipe there is none."""
    async with bench() as this:
        await this.publish("ev")
        this.clock.at_s += 10
        await this.publish("ev")
        await this.backend.delete("ev", 2)
        told = totals_of((await this.look())["ev"])
        assert told.newest_ns == NOW_S * 1_000_000_000
        await this.backend.wipe("ev")
        told = totals_of((await this.look())["ev"])
        assert (told.stored, told.first, told.last, told.newest_ns) == (0, None, 2, None)


async def test_the_lake_adds_what_is_below_the_log(tmp_path: Path, lake: Lake) -> None:
    """How much, from where on, how far it is behind; and rates that the log alone cannot tell."""
    limits = MemoryLimits(max_messages=10)
    async with bench(limits=limits, lake=lake, retention=Retention(max_messages=10)) as this:
        at_ns = []
        for _ in range(30):
            this.clock.at_s += 10
            await this.publish("ev")
            at_ns.append(this.clock.ns())
        told = totals_of((await this.look())["ev"])
        assert (told.stored, told.first, told.last) == (10, 21, 30)
        assert list(told.rates) == [round(6 / 60, 6), None, None]
        assert told.tiers == (TierBounds("log", 21, 30), TierBounds("lake", None, None, 10))
        place = Place(str(tmp_path))
        filled(place, [record(n, "ev", ns=at_ns[n - 1]) for n in range(1, 29)])
        told = totals_of((await this.look())["ev"])
        assert (told.stored, told.first, told.last) == (30, 1, 30)
        assert list(told.rates) == [round(6 / 60, 6), 0.1, round(30 / 3600, 6)]
        assert told.tiers == (TierBounds("log", 21, 30), TierBounds("lake", 1, 28, 2))


async def test_the_newest_of_an_empty_log_is_in_the_lake(tmp_path: Path, lake: Lake) -> None:
    """An event type that is older than the log's retention still has a last notification."""
    async with bench(limits=MemoryLimits(max_messages=1), lake=lake) as this:
        await this.publish("ev", 3)
        filled(Place(str(tmp_path)), [record(n, "ev", ns=NOW_S * 10**9 + n) for n in (1, 2, 3)])
        await this.publish("area")
        told = totals_of((await this.look())["ev"])
        assert (told.stored, told.first, told.last) == (3, 1, 3)
        assert told.newest_ns == NOW_S * 10**9 + 3
        assert told.tiers == (TierBounds("log", None, None), TierBounds("lake", 1, 3, 0))


async def test_metrics_do_not_count_who_looks_on() -> None:
    """Backend operations are those of producers and readers."""
    clock = Clock()
    cells = Cells.private()
    metrics = Metrics(cells, version="1", backend="in_memory", event_types=CATALOGUE.names)
    backend = MeteredBackend(FaultyBackend(now_ns=clock.ns), metrics)
    await append(backend, 2)
    before = cells.snapshot()
    this = Overview(backend, lambda _: None, retention=lambda _: Retention(), now_ns=clock.ns)
    assert by_name(await this.look(CATALOGUE))["ev"].totals is not None
    assert cells.snapshot() == before
    await this.close()


# Event types without schema


async def test_others_are_told_where_requests_may_name_them() -> None:
    """After those configured, and only if they have something; not at all in strict mode."""
    async with bench() as this:
        for name in ("zeta", "alpha", "wiped"):
            await this.publish(name)
        await this.backend.wipe("wiped")
        seen = await this.look(OPEN)
        assert list(seen) == [*sorted(CATALOGUE.names), "alpha", "zeta"]
        assert [name for name, item in seen.items() if item.schema.generic] == ["alpha", "zeta"]
        assert list(await this.look(CATALOGUE)) == sorted(CATALOGUE.names)


async def test_others_may_be_named_without_asking() -> None:
    """Where asking about a stream would change it; those configured are asked about."""
    async with bench(others=False) as this:
        await this.publish("alpha")
        await this.publish("ev")
        seen = await this.look(OPEN)
        assert (seen["alpha"].totals, seen["alpha"].error) == (None, None)
        assert totals_of(seen["ev"]).stored == 1
        assert this.backend.asked["bounds"] == 1


async def test_names_that_no_request_can_use_are_not_listed() -> None:
    """A stream left by another configuration is not everybody's to know."""
    async with bench() as this:
        for name in ("no.name", "POLYGON", "fine"):
            await this.publish(name)
        assert list(await this.look(OPEN)) == [*sorted(CATALOGUE.names), "fine"]


async def test_made_up_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not read is counted and not asked about."""
    monkeypatch.setattr(module, "MAX_OTHERS", 3)
    async with bench() as this:
        for number in range(8):
            await this.publish(f"made-up-{number}")
        look = await this.overview.look(OPEN)
        others = [item for item in look.event_types if item.schema.generic]
        assert [item.schema.event_type for item in others] == [f"made-up-{n}" for n in range(3)]
        assert look.omitted == 5
        assert this.backend.asked["bounds"] == 3


# What it costs


async def test_any_number_of_callers_costs_one_look() -> None:
    """While it is under way, and for a second after."""
    async with bench() as this:
        await this.publish("ev", 5)
        this.backend.hanging.add("event_types")
        asking = [asyncio.create_task(this.overview.look(CATALOGUE)) for _ in range(50)]
        await this.backend.stuck.wait()
        asking.pop().cancel()  # whoever goes away takes nothing from the others
        this.backend.free.set()
        looks = await asyncio.gather(*asking)
        this.clock.at_s += 0.9
        looks.append(await this.overview.look(CATALOGUE))
        assert len({id(look) for look in looks}) == 1
        assert this.backend.asked["event_types"] == this.backend.asked["bounds"] == 1
        this.clock.at_s += 0.2
        assert await this.overview.look(CATALOGUE) is not looks[0]
        assert this.backend.asked["event_types"] == 2


async def test_another_catalogue_is_looked_at_at_once() -> None:
    """A reload shows without delay."""
    async with bench() as this:
        await this.overview.look(CATALOGUE)
        fresh = Catalogue([*CATALOGUE.schemas.values(), Schema("fresh", base="fresh")])
        assert "fresh" in by_name(await this.overview.look(fresh))


async def test_an_idle_event_type_costs_two_questions() -> None:
    """Nothing in the hour is nothing in the minute, and its newest is known."""
    async with bench() as this:
        await this.publish("ev", 5)
        await this.look()
        this.clock.at_s += 4000
        this.backend.asked.clear()
        await this.look()
        assert this.backend.asked == {"event_types": 1, "bounds": 1, "first_since": 1}


async def test_only_what_is_there_is_asked_about() -> None:
    """Asking a durable store for the bounds of a stream would make the stream."""
    async with bench() as this:
        assert len(await this.look()) == len(CATALOGUE.names)
        assert this.backend.asked == {"event_types": 1}


@dataclass
class Crowd:
    """How many are asked at the same time."""

    now: int = 0
    most: int = 0
    full: asyncio.Event = field(default_factory=asyncio.Event)


class Crowded(FaultyBackend):
    """A backend that answers when as many as may be have asked."""

    crowd = Crowd()

    async def bounds(self, event_type: str) -> Bounds:
        crowd = self.crowd
        crowd.now += 1
        crowd.most = max(crowd.most, crowd.now)
        if crowd.now == module.TOGETHER:
            crowd.full.set()
        await crowd.full.wait()
        await asyncio.sleep(0)
        crowd.now -= 1
        return await super().bounds(event_type)


async def test_event_types_are_asked_about_together_but_not_all_at_once() -> None:
    """As many as ``TOGETHER``."""
    clock = Clock()
    backend = Crowded(now_ns=clock.ns)
    backend.crowd = Crowd()
    for number in range(40):
        await backend.append(record(1, f"t{number}").notification, key="k")
    this = Overview(backend, lambda _: None, retention=lambda _: Retention(), now_ns=clock.ns)
    assert len((await this.look(Catalogue(strict=False))).event_types) == 40
    assert backend.crowd.most == module.TOGETHER
    await this.close()


# What may go wrong


@pytest.mark.parametrize("operation", ["bounds", "first_since", "read"])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (HistoryFailed("Failed to read history", details="secret"), "Failed to read history"),
        (RuntimeError("secret"), module.FAILED),
    ],
)
async def test_what_fails_is_reported_and_the_rest_is_shown(
    operation: str, error: Exception, text: str
) -> None:
    """In words that give no internals away."""
    async with bench() as this:
        await this.publish("ev")
        await this.publish("area")
        this.backend.failures[f"{operation} ev"] = error
        seen = await this.look()
        assert (seen["ev"].totals, seen["ev"].error) == (None, text)
        assert seen["area"].totals is not None
        assert seen["area"].error is None
        this.backend.failures.clear()
        assert (await this.look())["ev"].totals is not None


async def test_what_hangs_is_reported_and_the_rest_is_shown() -> None:
    """A look ends in time."""
    async with bench(within_s=0.05) as this:
        await this.publish("ev")
        await this.publish("area")
        this.backend.hanging.add("bounds ev")
        seen = await this.look()
        assert (seen["ev"].totals, seen["ev"].error) == (None, module.LATE)
        assert seen["area"].totals is not None


@pytest.mark.parametrize("connected", [True, False])
async def test_a_store_that_is_away_is_reported_for_every_event_type(
    monkeypatch: pytest.MonkeyPatch, *, connected: bool
) -> None:
    """There is still something to show: the names, and that nothing is known."""
    async with bench() as this:
        monkeypatch.setattr(this.backend, "connected", connected, raising=False)
        this.backend.failures["event_types"] = OSError("nobody there")
        seen = await this.look()
        text = module.FAILED if connected else module.DISCONNECTED
        assert [(item.totals, item.error) for item in seen.values()] == [(None, text)] * len(
            CATALOGUE.names
        )


async def test_a_lake_that_cannot_be_read_leaves_the_log(tmp_path: Path, lake: Lake) -> None:
    """The numbers are then those of the log, and it is said so."""
    filled(Place(str(tmp_path)), [record(n, "ev") for n in (1, 2)])
    _spoil(tmp_path)
    async with bench(lake=lake) as this:
        await this.publish("ev", 3)
        seen = (await this.look())["ev"]
        assert seen.error == module.NO_LAKE
        assert totals_of(seen).stored == 3
        assert totals_of(seen).tiers == (TierBounds("log", 1, 3),)


def _spoil(folder: Path) -> None:
    for file in folder.rglob("*.json"):
        file.write_text("not a log")


async def test_a_lake_that_hangs_takes_nothing_from_the_log(tmp_path: Path) -> None:
    """Not from those event types either that had to wait for their turn."""
    hung = Hung(Place(str(tmp_path)))
    names = [f"t{number}" for number in range(3 * module.TOGETHER)]
    async with bench(lake=hung, within_s=0.05) as this:
        for name in names:
            await this.publish(name)
        seen = await this.look(Catalogue(strict=False))
        assert list(seen) == sorted(names)
        for item in seen.values():
            assert item.error == module.NO_LAKE
            assert totals_of(item).stored == 1
    await hung.close()


async def test_a_failure_is_logged_when_it_begins_not_every_second() -> None:
    """With its details; and again when something else fails."""
    failed = HistoryFailed("Failed to read history", details="disk 7 is gone")
    with recorded() as journal:
        async with bench() as this:
            await this.publish("ev")
            await this.publish("area")
            this.backend.failures["bounds ev"] = failed
            for _ in range(3):
                await this.look()
            (told,) = journal.all("overview.look.failed")
            assert (told["event_types"], told["error"]) == (["ev"], "disk 7 is gone")
            this.backend.failures["bounds area"] = failed
            for _ in range(3):
                await this.look()
            assert len(journal.all("overview.look.failed")) == 2
            this.backend.failures.clear()
            await this.look()
            this.backend.failures["bounds ev"] = failed
            await this.look()
            assert len(journal.all("overview.look.failed")) == 3


async def test_a_look_ends_with_the_server() -> None:
    """Nobody waits for a store that hangs."""
    async with bench() as this:
        this.backend.hanging.add("event_types")
        asking = asyncio.create_task(this.overview.look(CATALOGUE))
        await this.backend.stuck.wait()
        await this.overview.close()
        with pytest.raises(asyncio.CancelledError):
            await asking
