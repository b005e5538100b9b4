"""Replays that match nothing: what they cost the server, and what they cost others.

History is read from JetStream, whatever the other parts run on. A filter that fixes a key is left
to NATS; one that asks for a range has to look at every notification. While many of those scan,
a caller who finds something is timed too.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from time import perf_counter

import aiohttp
from bench.figures import Value
from bench.served import Conditions, Served, served
from bench.worker import Publish, worker

SCANS = 60
FOUND = 1000
"""Notifications that the caller who finds something asks for."""
NO_KEY = {"class": "zz"}
NO_RANGE = {"class": "od", "step": {"gt": 90_000}}

_Values = Iterator[Value]


def barren_replays(
    stored: int, connections: int, conditions: Conditions, progress: Callable[[str], None]
) -> _Values:
    """CPU time and wall clock of replays that match nothing, alone and many at once."""
    durable = replace(conditions, backend="jetstream")
    with served(durable, "scans") as server, worker() as load:
        progress(f"storing {stored} notifications")
        load.do(Publish(server.port, stored, connections), 600)
        for name, wanted in (("a key", NO_KEY), ("a range", NO_RANGE)):
            for count in (1, SCANS):
                progress(f"{count} replays that match nothing, by {name}")
                about = f"{count} replay{'s'[: count != 1]} of {stored} for nothing, by {name}"
                yield from asyncio.run(_timed(server, about, wanted, count))
        progress("a caller who finds something meanwhile")
        yield asyncio.run(_meanwhile(server, stored))


async def _timed(
    server: Served, about: str, wanted: Mapping[str, object], count: int
) -> list[Value]:
    async with _session() as session:
        before, begun = server.cpu_s(), perf_counter()
        await asyncio.gather(*(_replay(session, server, wanted, 1) for _ in range(count)))
        wall, cpu = perf_counter() - begun, server.cpu_s() - before
    return [
        Value(f"{about}: server CPU", "ms", (cpu * 1000,)),
        Value(f"{about}: wall clock", "ms", (wall * 1000,)),
    ]


async def _meanwhile(server: Served, stored: int) -> Value:
    async with (
        _session() as session,
        _session("127.0.0.2") as another,
        asyncio.TaskGroup() as scanning,
    ):
        scans = [scanning.create_task(_replay(session, server, NO_RANGE, 1)) for _ in range(SCANS)]
        await asyncio.sleep(0.5)  # until they are all under way
        begun = perf_counter()
        found = await _replay(another, server, {"class": "od"}, stored - FOUND + 1)
        took = perf_counter() - begun
        for scan in scans:
            scan.cancel()
    assert found >= FOUND, found
    return Value(f"replay of {FOUND} while {SCANS} scan for nothing", "ms", (took * 1000,))


def _session(address: str = "127.0.0.1") -> aiohttp.ClientSession:
    """A client with an address of its own: by that the server tells anonymous callers apart."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, local_addr=(address, 0)),
        timeout=aiohttp.ClientTimeout(total=600),
    )


async def _replay(
    session: aiohttp.ClientSession, server: Served, wanted: Mapping[str, object], first: int
) -> int:
    """Read a replay to its end; how many notifications came."""
    body = {"event_type": "mars", "identifier": wanted, "from_id": str(first)}
    url = f"http://127.0.0.1:{server.port}/api/v1/replay"
    async with session.post(url, json=body) as answer:
        text = await answer.read()
    if b"replay_completed" not in text:
        raise SystemExit(f"a replay did not complete: {text[-300:]!r}")
    return text.count(b"event: replay\n")
