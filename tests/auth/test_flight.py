"""Single flight and memory."""

import asyncio

import pytest

from aviso_server.auth.flight import Flights, Source


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


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


def ten_seconds(_: int) -> float:
    return 10


async def test_everybody_who_asks_meanwhile_gets_the_one_answer() -> None:
    """A hundred callers, one fetch; one of them made it, the others waited."""
    flights: Flights[str, int] = Flights(max_entries=10, clock=Clock())
    fetch = Fetch()
    asking = [asyncio.create_task(flights.get("k", fetch, ttl_s=ten_seconds)) for _ in range(100)]
    await asyncio.sleep(0)
    fetch.go.set()
    answers = await asyncio.gather(*asking)
    assert fetch.asked == 1
    assert [source for _, source in answers].count(Source.FETCHED) == 1
    assert {value for value, _ in answers} == {1}
    assert (await flights.get("k", fetch, ttl_s=ten_seconds))[1] is Source.HIT


async def test_values_are_kept_for_their_time_only() -> None:
    """The age counts from the insertion, and a look does not make a value younger."""
    clock = Clock()
    flights: Flights[str, int] = Flights(max_entries=10, clock=clock)
    fetch = Fetch()
    fetch.go.set()
    await flights.get("k", fetch, ttl_s=ten_seconds)
    clock.now = 9.9
    assert await flights.get("k", fetch, ttl_s=ten_seconds) == (1, Source.HIT)
    clock.now = 10
    assert await flights.get("k", fetch, ttl_s=ten_seconds) == (2, Source.FETCHED)


async def test_what_has_no_time_is_not_kept() -> None:
    """A life of zero or less turns the memory off; the single flight stays."""
    flights: Flights[str, int] = Flights(max_entries=10, clock=Clock())
    fetch = Fetch()
    fetch.go.set()
    for _ in range(2):
        await flights.get("k", fetch, ttl_s=lambda _: 0)
    assert (fetch.asked, len(flights)) == (2, 0)


async def test_the_oldest_goes_when_it_is_full() -> None:
    """Memory is bounded."""
    flights: Flights[int, int] = Flights(max_entries=3, clock=Clock())
    fetch = Fetch()
    fetch.go.set()
    for key in range(5):
        await flights.get(key, fetch, ttl_s=ten_seconds)
    assert len(flights) == 3
    assert (await flights.get(4, fetch, ttl_s=ten_seconds))[1] is Source.HIT
    assert (await flights.get(1, fetch, ttl_s=ten_seconds))[1] is Source.FETCHED


async def test_failures_reach_all_and_are_forgotten() -> None:
    """Every waiter learns of it; the next caller tries again."""
    flights: Flights[str, int] = Flights(max_entries=10, clock=Clock())
    fetch = Fetch()
    fetch.failure = RuntimeError("away")
    fetch.go.set()
    asking = [flights.get("k", fetch, ttl_s=ten_seconds) for _ in range(3)]
    failed = await asyncio.gather(*asking, return_exceptions=True)
    assert [str(failure) for failure in failed] == ["away"] * 3
    fetch.failure = None
    assert await flights.get("k", fetch, ttl_s=ten_seconds) == (2, Source.FETCHED)


async def test_a_caller_who_goes_away_takes_nothing_from_the_others() -> None:
    """The first one's disconnect does not end the fetch the second one waits for."""
    flights: Flights[str, int] = Flights(max_entries=10, clock=Clock())
    fetch = Fetch()
    first = asyncio.create_task(flights.get("k", fetch, ttl_s=ten_seconds))
    second = asyncio.create_task(flights.get("k", fetch, ttl_s=ten_seconds))
    await asyncio.sleep(0)
    first.cancel()
    fetch.go.set()
    assert await second == (1, Source.COALESCED)
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_closing_ends_what_is_on_its_way() -> None:
    """No fetch outlives its owner."""
    flights: Flights[str, int] = Flights(max_entries=10, clock=Clock())
    asking = asyncio.create_task(flights.get("k", Fetch(), ttl_s=ten_seconds))
    await asyncio.sleep(0)
    await flights.close()
    with pytest.raises(asyncio.CancelledError):
        await asking
