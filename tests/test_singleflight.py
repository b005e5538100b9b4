"""Single flight and memory."""

import asyncio
from typing import Any

import pytest
from support.clock import Clock

from aviso_server.singleflight import Answered, SingleFlight


class Fetch:
    """Counts how often it is asked, and answers when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = asyncio.Event()
        self.failure: Exception | None = None

    async def __call__(self) -> int:
        self.asked += 1
        await self.go.wait()
        if self.failure is not None:
            raise self.failure
        return self.asked


def flight(max_entries: int, clock: Clock, ttl_s: float = 10) -> SingleFlight[Any, int]:
    return SingleFlight(max_entries=max_entries, ttl_s=lambda _: ttl_s, clock=clock)


async def test_everybody_who_asks_meanwhile_gets_the_one_answer() -> None:
    """A hundred callers, one fetch; one of them made it, the others waited."""
    flights: SingleFlight[str, int] = flight(10, Clock())
    fetch = Fetch()
    asking = [asyncio.create_task(flights.get("k", fetch)) for _ in range(100)]
    await asyncio.sleep(0)
    fetch.go.set()
    answers = await asyncio.gather(*asking)
    assert fetch.asked == 1
    assert [source for _, source in answers].count(Answered.FETCHED) == 1
    assert {value for value, _ in answers} == {1}
    assert (await flights.get("k", fetch))[1] is Answered.HIT


async def test_values_are_kept_for_their_time_only() -> None:
    """The age counts from the insertion, and a look does not make a value younger."""
    clock = Clock()
    flights: SingleFlight[str, int] = flight(10, clock)
    fetch = Fetch()
    fetch.go.set()
    await flights.get("k", fetch)
    clock.now = 9.9
    assert await flights.get("k", fetch) == (1, Answered.HIT)
    clock.now = 10
    assert await flights.get("k", fetch) == (2, Answered.FETCHED)


async def test_what_has_no_time_is_not_kept() -> None:
    """A life of zero or less turns the memory off; the single flight stays."""
    flights: SingleFlight[str, int] = flight(10, Clock(), ttl_s=0)
    fetch = Fetch()
    fetch.go.set()
    for _ in range(2):
        await flights.get("k", fetch)
    assert (fetch.asked, len(flights)) == (2, 0)


async def test_the_oldest_goes_when_it_is_full() -> None:
    """Memory is bounded."""
    flights: SingleFlight[int, int] = flight(3, Clock())
    fetch = Fetch()
    fetch.go.set()
    for key in range(5):
        await flights.get(key, fetch)
    assert len(flights) == 3
    assert (await flights.get(4, fetch))[1] is Answered.HIT
    assert (await flights.get(1, fetch))[1] is Answered.FETCHED


async def test_failures_reach_all_and_are_forgotten() -> None:
    """Every waiter learns of it; the next caller tries again."""
    flights: SingleFlight[str, int] = flight(10, Clock())
    fetch = Fetch()
    fetch.failure = RuntimeError("away")
    fetch.go.set()
    asking = [flights.get("k", fetch) for _ in range(3)]
    failed = await asyncio.gather(*asking, return_exceptions=True)
    assert [str(failure) for failure in failed] == ["away"] * 3
    fetch.failure = None
    assert await flights.get("k", fetch) == (2, Answered.FETCHED)


async def test_a_caller_who_goes_away_takes_nothing_from_the_others() -> None:
    """The first one's disconnect does not end the fetch the second one waits for."""
    flights: SingleFlight[str, int] = flight(10, Clock())
    fetch = Fetch()
    first = asyncio.create_task(flights.get("k", fetch))
    second = asyncio.create_task(flights.get("k", fetch))
    await asyncio.sleep(0)
    first.cancel()
    fetch.go.set()
    assert await second == (1, Answered.COALESCED)
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_closing_ends_what_is_on_its_way() -> None:
    """No fetch outlives its owner."""
    flights: SingleFlight[str, int] = flight(10, Clock())
    asking = asyncio.create_task(flights.get("k", Fetch()))
    await asyncio.sleep(0)
    await flights.close()
    with pytest.raises(asyncio.CancelledError):
        await asking
