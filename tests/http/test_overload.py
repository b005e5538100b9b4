"""Too much at once: turns, early refusals, and probes that are always answered."""

import asyncio
import gzip
from contextlib import AsyncExitStack

import pytest
from support.access import PROTECTED, proxy_auth
from support.config import settings
from support.edge import Edge, Parts, edge
from support.faults import FaultyBackend
from support.journal import recorded
from support.raw import Answer, request, wired

from aviso_server.core.json import Json
from aviso_server.http import overload
from aviso_server.http.turnstile import PER_TURN, Turnstile

NOTIFY = request("POST", "/api/v1/notification", b'{"event_type":"ev","identifier":{"region":"n"}}')
ONE_AT_A_TIME: dict[str, Json] = {"limits": {"max_notify_in_progress": 1}}


def slow() -> FaultyBackend:
    """Stores when it is let."""
    backend = FaultyBackend()
    backend.hanging.add("append")
    return backend


async def test_few_begin_in_one_turn_and_all_in_their_order() -> None:
    """Those that are gone meanwhile take nobody's place."""
    turnstile, turn, begun = Turnstile(), [0], list[tuple[int, int]]()

    async def come(number: int) -> None:
        await turnstile.enter()
        begun.append((turn[0], number))

    async def count() -> None:
        while True:
            turn[0] += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    tasks = [asyncio.create_task(come(number)) for number in range(10 * PER_TURN)]
    await asyncio.sleep(0)
    for task in tasks[-PER_TURN:]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    counting.cancel()
    assert [number for _, number in begun] == list(range(9 * PER_TURN))
    turns = [turn for turn, _ in begun]
    assert max(turns.count(turn) for turn in set(turns)) <= PER_TURN
    await turnstile.enter()
    assert turnstile.behind_s == 0.0


async def refused(served: Edge) -> Answer:
    """Notify, which must be refused for there are too many; the answer."""
    async with wired(served.running) as wire:
        await wire.send(NOTIFY)
        answer = await wire.answer()
    assert (answer.status, answer.data["code"]) == (503, "SERVER_OVERLOADED")
    assert answer.data["request_id"] == answer.request_id
    assert int(answer.header("retry-after") or 0) > 0
    return answer


async def test_more_than_the_limit_is_refused_until_there_is_room() -> None:
    """Nothing is stored of what was refused; probes are answered; it is over at once."""
    backend = slow()
    async with edge(settings(ONE_AT_A_TIME), Parts(backend)) as served:
        async with wired(served.running) as first, wired(served.running) as probe:
            await first.send(NOTIFY)
            await backend.stuck.wait()
            with recorded() as journal:
                answer = await refused(served)
                await refused(served)
            for path in ("/health", "/ready", "/api/v1/schema"):
                assert (await probe.ask("GET", path)).status == 200
            backend.free.set()
            assert (await first.answer()).data["sequence"] == 1
        assert (await served.notify("ev", {"region": "n"}))["sequence"] == 2
    (record,) = journal.all("api.request.limit.reached")  # one for all of them
    assert record["request_id"] == answer.request_id
    assert record["error_type"] == "Server Overloaded"


async def test_batches_take_a_bounded_memory_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes compressed counts with what it may become; when it is done there is room."""
    bounds: dict[str, Json] = {
        "application": {"max_batch_bytes": 400},
        "limits": {"max_batch_bytes_in_progress": 800},
    }
    item = b'{"event_type":"ev","identifier":{"region":"n"}}'
    plain = request("POST", "/api/v1/notifications", item + b" " * (390 - len(item)))
    zipped = request(
        "POST", "/api/v1/notifications", gzip.compress(item), [("Content-Encoding", "gzip")]
    )
    # A machine that others use is behind at times; the first would be refused, and wait for ever.
    monkeypatch.setattr(overload, "MAX_BEHIND_S", float("inf"))
    backend = slow()
    async with edge(settings(bounds), Parts(backend)) as served:
        async with wired(served.running) as first, wired(served.running) as second:
            await first.send(zipped)
            await backend.stuck.wait()
            await second.send(plain)
            answer = await second.answer()
            assert (answer.status, answer.data["code"]) == (503, "SERVER_OVERLOADED")
            assert int(answer.header("retry-after") or 0) > 0
            backend.free.set()
            assert (await first.answer()).data["accepted"] == 1
        async with wired(served.running) as third:
            await third.send(plain)
            assert (await third.answer()).data["accepted"] == 1


async def test_a_server_that_is_behind_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few are in progress: they have waited too long already. Readers are served."""
    monkeypatch.setattr(overload, "MAX_BEHIND_S", -1.0)
    async with edge(settings()) as served:
        await refused(served)
        async with served.replay("ev", {}, from_id="1") as stream:
            assert [event.kind for event in await stream.rest()][-1] == "end_of_stream"


async def test_nothing_is_done_for_those_who_are_refused() -> None:
    """Not even their credentials are checked, nor is the body read."""
    protected = settings({**ONE_AT_A_TIME, "auth": proxy_auth()}, schemas=PROTECTED)
    async with edge(protected) as served, AsyncExitStack() as stack:
        held = await stack.enter_async_context(wired(served.running))
        head = b"POST /api/v1/notification HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
        await held.send(head + b"\r\n")
        late = await stack.enter_async_context(wired(served.running))
        await late.send(head + b"Authorization: Bearer nonsense\r\n\r\n")
        assert (await late.answer()).status == 503


async def test_a_probe_overtakes_a_crowd() -> None:
    """Hundreds of requests that came before it are still waiting when it is answered."""
    crowd = 400
    async with edge(settings()) as served, AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(wired(served.running)) for _ in range(crowd)]
        probe = await stack.enter_async_context(wired(served.running))
        for wire in wires:
            wire.writer.write(NOTIFY)
        assert (await probe.ask("GET", "/health")).status == 200
        assert (await served.backend.bounds("ev")).last < crowd
        answers = [await wire.answer() for wire in wires]
        assert {answer.status for answer in answers} == {200}
        assert (await served.backend.bounds("ev")).last == crowd
