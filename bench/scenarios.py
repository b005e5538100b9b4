"""The loads of a soak. Each is bounded, and yields what it measured and what was wrong."""

import asyncio
import random
import socket
import struct
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from statistics import quantiles
from time import monotonic

from bench.census import MEBIBYTE, Census, settle
from bench.crew import HOST
from bench.crowd import Answer, Observer, Offer, SlowReader, Watcher, open_watchers
from bench.figures import Failed, Value
from bench.plots import Track
from bench.served import HERE, Served
from bench.wire import STEPS, notify_requests, post, replay_request, watch_request
from nats.js import JetStreamContext

DRAIN_S = 60.0
CALLERS = 64
TIMES = 10
"""How many times its capacity a server is offered."""
SIPS = (2048, 4)
"""Bytes that a trickling reader takes at a time, and how often per second."""
READER_BYTES = 96 * 1024
"""What a slow reader may take of the server's memory, the shared queue included."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much of everything."""

    seconds: int = 180
    """How long each load lasts, where it is not counted."""
    watchers: int = 5000
    churn: int = 100
    """Watchers that leave, and others that come, per second."""
    rate: int = 200
    """Notifications per second."""
    callers: int = 4000
    """Connections over which too much is offered."""
    cycles: int = 20_000
    slow: int = 1000
    """Stalled readers, and as many trickling ones."""


@dataclass(slots=True)
class World:
    """A server under load, and what is seen of it."""

    server: Served
    api: JetStreamContext
    amounts: Amounts
    track: Track

    async def begin(self) -> Census:
        """What the server holds when it is warm and nobody is there."""
        before = await settle(self.server, self.api)
        self.track.began_at = monotonic()
        self.track.panels.clear()
        return before

    async def end(self, before: Census) -> AsyncIterator[Value | Failed]:
        """Compare with the beginning."""
        after = await settle(self.server, self.api, before)
        for name in ("memory_bytes", "descriptors", "tasks", "consumers"):
            began, ended = getattr(before, name), getattr(after, name)
            if name == "memory_bytes":
                began, ended = began / MEBIBYTE, ended / MEBIBYTE
            label, unit = ("memory", "MiB") if name == "memory_bytes" else (name, "")
            yield Value(f"{label}, before", unit, (began,))
            yield Value(f"{label}, after", unit, (ended,))
        yield Value("memory, at most", "MiB", (self.track.most("Memory, MiB", "resident"),))
        for fault in after.beyond(before):
            yield Failed("what the server holds", fault)

    @asynccontextmanager
    async def watched(self, look: Callable[[], None] | None = None) -> AsyncIterator[None]:
        """Look at the server once per second until the block ends."""

        async def looking() -> None:
            while True:
                self.track.note("Memory, MiB", "resident", self.server.rss_bytes() / MEBIBYTE)
                self.track.note("Open files", "descriptors", self.server.descriptors())
                if look is not None:
                    look()
                await asyncio.sleep(1)

        task = asyncio.create_task(looking())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


Load = Callable[[World], AsyncIterator[Value | Failed]]


async def crowd(world: World) -> AsyncIterator[Value | Failed]:
    """Thousands of watchers, some of whom leave while others come, and a steady rate of notify.

    Twice: the first crowd shows how much memory the allocator keeps for the next one, the second
    that a crowd leaves nothing behind.
    """
    first = await _gather(world, min(60, world.amounts.seconds))
    first.leave()
    before = await world.begin()
    there = await _gather(world, world.amounts.seconds)
    for fault in there.wrong:
        yield fault
    yield Value("watchers that stayed", "", (len(there.staying),))
    yield Value("watchers that came meanwhile", "", (there.came,))
    yield Value("watchers that left meanwhile", "", (there.gone,))
    for value in _times("notify", there.offer.answers):
        yield value
    for value in _percentiles("from notify to a watcher", there.delays):
        yield value
    there.leave()
    async for item in world.end(before):
        yield item


@dataclass(slots=True)
class _Crowd:
    """Watchers and callers, and what became of them."""

    staying: list[Watcher]
    passing: deque[Watcher]
    observer: Observer
    offer: Offer
    came: int = 0
    gone: int = 0
    changing: bool = True
    """Whether some still leave and others come."""
    delays: list[float] = field(default_factory=list)
    """From notify to the observer."""
    wrong: list[Failed] = field(default_factory=list)

    async def change(self, port: int, wanted: Sequence[bytes], per_second: int) -> None:
        """Let some leave and others come, for as long as the crowd changes."""
        while per_second and self.changing:
            for _ in range(min(10, len(self.passing))):
                self.passing.popleft().leave()
                self.gone += 1
            new = await open_watchers(port, random.choices(wanted, k=10))
            self.passing.extend(new)
            self.came += len(new)
            await asyncio.sleep(10 / per_second)

    def leave(self) -> None:
        """Hang up."""
        for watcher in (*self.staying, *self.passing, self.observer):
            watcher.leave()
        self.offer.hang_up()


async def _gather(world: World, seconds: int) -> _Crowd:
    """Let a crowd watch for a while; it is still there afterwards."""
    amounts, port = world.amounts, world.server.port
    wanted = [watch_request(STEPS[n % len(STEPS)]) for n in range(amounts.watchers)]
    _, observer = await asyncio.get_running_loop().create_connection(
        lambda: Observer(watch_request()), HOST, port
    )
    await observer.opened
    # Half of them stay; it is the others who come and go.
    there = _Crowd(
        await open_watchers(port, wanted[::2]),
        deque(await open_watchers(port, wanted[1::2])),
        observer,
        Offer(notify_requests()),
    )
    staying, offer = there.staying, there.offer
    await offer.connect(port, CALLERS)
    rates = _Rates(world.track, lambda: sum(watcher.count for watcher in staying), offer)
    async with world.watched(rates.look):
        changing = asyncio.create_task(there.change(port, wanted, amounts.churn))
        await offer.run(amounts.rate, seconds)
        there.changing = False
        await changing
        stored = [answer for answer in offer.answers if answer.status == 200]
        each = Counter(answer.number % len(STEPS) for answer in stored)
        due = [each[n % len(STEPS)] for n in range(0, len(wanted), 2)]
        await _until(lambda: sum(watcher.count for watcher in staying) >= sum(due))
    there.wrong += _wrong_counts(staying, due, offer, len(stored))
    sent = {answer.sequence: answer.sent_at for answer in stored}
    there.delays += [at - sent[number] for number, at in observer.seen if number in sent]
    return there


async def overload(world: World) -> AsyncIterator[Value | Failed]:
    """Ten times what the server can take, for a while; then it must be as it was."""
    amounts, port, track = world.amounts, world.server.port, world.track
    warming = Offer(notify_requests())
    await warming.connect(port, amounts.callers)
    await warming.saturate(min(5, amounts.seconds))
    warming.hang_up()
    before = await world.begin()
    calm, crowd_ = Offer(notify_requests()), Offer(notify_requests())
    await calm.connect(port, CALLERS)
    async with _probed(world) as probes, world.watched(_Rates(track, None, crowd_).look):
        calm_s = min(5, amounts.seconds)
        capacity = await calm.saturate(calm_s)
        calm.answers.clear()
        await calm.run(capacity / 4, calm_s)
        usual = list(calm.answers)
        await crowd_.connect(port, amounts.callers)
        began_at = monotonic()
        await crowd_.run(capacity * TIMES, amounts.seconds)
        ended_at = monotonic()
        # The first request after it: nothing is left to wait for, and nothing to reset. Over new
        # connections, for the server closes those that were idle meanwhile.
        again = Offer(notify_requests())
        await again.connect(port, CALLERS)
        await again.run(capacity / 4, calm_s)
        recovered = list(again.answers)
    yield Value("capacity", "notify/s", (capacity,))
    yield Value("offered", "notify/s", (crowd_.offered / amounts.seconds,))
    yield Value(
        "sent, the rest had no free connection", "notify/s", (crowd_.sent / (ended_at - began_at),)
    )
    for status in sorted({answer.status for answer in crowd_.answers}):
        some = [answer for answer in crowd_.answers if answer.status == status]
        yield Value(f"answers {status}", "/s", (len(some) / (ended_at - began_at),))
        for value in _percentiles(f"answers {status}", [answer.after_s for answer in some]):
            yield value
    for fault in _wrong_refusals(crowd_, recovered):
        yield fault
    for name, answers in (("before", usual), ("right after", recovered)):
        for value in _times(f"notify {name}", answers):
            yield value
    during = [took for at, took, _ in probes if began_at <= at < ended_at]
    for value in _percentiles("/health meanwhile", during):
        yield value
    if any(status != 200 for _, _, status in probes):
        yield Failed("/health", "was not answered with 200")
    for offer in (crowd_, calm, again):
        offer.hang_up()
    async for item in world.end(before):
        yield item


async def cycles(world: World) -> AsyncIterator[Value | Failed]:
    """Streams opened and closed again, in every way that clients have."""
    port, total = world.server.port, world.amounts.cycles
    await _warm_up(port, notify_requests(), replace(world.amounts, rate=50, seconds=1))
    await _cycle(port, max(50, total // 10), Counter())
    before = await world.begin()
    done: Counter[str] = Counter()
    last = [0, monotonic()]

    def look() -> None:
        now = monotonic()
        count = sum(done.values())
        world.track.note("Cycles per second", "cycles", (count - last[0]) / max(now - last[1], 0.5))
        last[:] = [count, now]

    began_at = monotonic()
    async with world.watched(look):
        await _cycle(port, total, done)
    yield Value("cycles", "/s", (total / (monotonic() - began_at),))
    for way, count in sorted(done.items()):
        yield Value(f"cycles: {way}", "", (count,))
    if wrong := done["not answered as expected"]:
        yield Failed("cycles", f"{wrong} were not answered as expected")
    async for item in world.end(before):
        yield item


async def slow(world: World) -> AsyncIterator[Value | Failed]:
    """Readers that never read and readers that hardly do, beside some that read everything."""
    amounts, port, track = world.amounts, world.server.port, world.track
    request = watch_request()
    size, often = SIPS
    # The warm-up has the same peak, so that what the heap keeps of it is there before.
    warming = await asyncio.to_thread(_slow_readers, port, request, 2 * amounts.slow)
    await _warm_up(port, _large_requests(), amounts)
    for reader in warming:
        reader.leave()
    before = await world.begin()
    offer = Offer(_large_requests())
    await offer.connect(port, CALLERS)
    stalled = await asyncio.to_thread(_slow_readers, port, request, amounts.slow)
    trickling = await asyncio.to_thread(_slow_readers, port, request, amounts.slow)
    quick = await open_watchers(port, [request] * 10)

    async def trickle() -> None:
        while True:
            for reader in trickling:
                reader.read(size)
            await asyncio.sleep(1 / often)

    async with world.watched(_Rates(track, lambda: sum(w.count for w in quick), offer).look):
        task = asyncio.create_task(trickle())
        await offer.run(amounts.rate, amounts.seconds)
        stored = sum(answer.status == 200 for answer in offer.answers)
        await _until(lambda: all(watcher.count >= stored for watcher in quick))
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    for fault in _wrong_counts(quick, [stored] * len(quick), offer, stored):
        yield fault
    got = [reader.count for reader in trickling]
    yield Value("notifications sent", "", (stored,))
    yield Value("read by a trickling reader", "", tuple(got))
    if holes := sum(reader.holes for reader in trickling):
        yield Failed("trickling readers", f"{holes} sequences did not follow on the one before")
    for value in _times("notify", offer.answers):
        yield value
    grown = track.most("Memory, MiB", "resident") * MEBIBYTE - before.memory_bytes
    yield Value("memory per slow reader, at most", "KiB", (grown / 1024 / (2 * amounts.slow),))
    if grown > 2 * amounts.slow * READER_BYTES + 64 * MEBIBYTE:
        yield Failed("slow readers", f"took {grown / MEBIBYTE:.0f} MiB")
    for reader in (*stalled, *trickling):
        reader.leave()
    for watcher in quick:
        watcher.leave()
    offer.hang_up()
    async for item in world.end(before):
        yield item


SCENARIOS: dict[str, Load] = {"crowd": crowd, "overload": overload, "cycles": cycles, "slow": slow}


class _Rates:
    """Notes rates and latencies of the second that has passed."""

    def __init__(self, track: Track, delivered: Callable[[], int] | None, offer: Offer) -> None:
        self._track = track
        self._delivered = delivered
        self._offer = offer
        self._seen = len(offer.answers)
        self._last = (delivered() if delivered else 0, monotonic())

    def look(self) -> None:
        now = monotonic()
        before, at = self._last
        passed = max(now - at, 0.5)
        if self._delivered is not None:
            count = self._delivered()
            self._track.note(
                "Deliveries per second", "to those who stay", (count - before) / passed
            )
            self._last = (count, now)
        else:
            self._last = (0, now)
        fresh = self._offer.answers[self._seen :]
        self._seen = len(self._offer.answers)
        stored = [answer.after_s for answer in fresh if answer.status == 200]
        refused = [answer.after_s for answer in fresh if answer.status != 200]
        for name, latencies in (("200", stored), ("refused", refused)):
            if name == "200" or latencies:
                self._track.note("Answers per second", name, len(latencies) / passed)
            if latencies:
                self._track.note("Longest answer, ms", name, max(latencies) * 1000)


def _percentiles(name: str, seconds: Sequence[float]) -> Iterator[Value]:
    if len(seconds) < 2:
        return
    cuts = quantiles(seconds, n=100)
    for label, value in (("p50", cuts[49]), ("p99", cuts[98]), ("longest", max(seconds))):
        yield Value(f"{name}: {label}", "ms", (value * 1000,))


def _times(name: str, answers: Sequence[Answer]) -> Iterator[Value]:
    yield from _percentiles(name, [answer.after_s for answer in answers])


def _wrong_counts(
    watchers: Sequence[Watcher], due: Sequence[int], offer: Offer, stored: int
) -> Iterator[Failed]:
    wrong = sum(watcher.count != count for watcher, count in zip(watchers, due, strict=True))
    if wrong:
        yield Failed("watchers", f"{wrong} of {len(watchers)} did not get exactly what was stored")
    if offer.lost or stored != len(offer.answers):
        refused = len(offer.answers) - stored
        yield Failed("notify", f"{refused} were refused and {offer.lost} connections lost")


def _wrong_refusals(offer: Offer, recovered: Sequence[Answer]) -> Iterator[Failed]:
    strange = Counter(each.status for each in offer.answers if each.status not in {200, 429, 503})
    if strange:
        yield Failed("answers under overload", f"{dict(strange)}")
    bare = sum(answer.status != 200 and not answer.retry_after for answer in offer.answers)
    if bare:
        yield Failed("answers under overload", f"{bare} refusals without Retry-After")
    if offer.lost:
        yield Failed("answers under overload", f"{offer.lost} connections lost")
    if any(answer.status != 200 for answer in recovered):
        yield Failed("recovery", "a notification was refused after the overload")


def _large_requests() -> list[bytes]:
    fields = {"class": "od", "expver": "1", "domain": "g", "date": "20250706", "time": "1200"}
    return [
        post(
            "/api/v1/notification",
            {
                "event_type": "mars",
                "identifier": {**fields, "stream": "oper", "step": step},
                "payload": {"note": "x" * 2000},
            },
        )
        for step in STEPS
    ]


async def _warm_up(port: int, requests: Sequence[bytes], amounts: Amounts) -> None:
    """Notify for a while, and hang up."""
    offer = Offer(requests)
    await offer.connect(port, CALLERS)
    await offer.run(amounts.rate, min(10, amounts.seconds))
    offer.hang_up()


def _slow_readers(port: int, request: bytes, count: int) -> list[SlowReader]:
    return [SlowReader(port, request) for _ in range(count)]


async def _until(reached: Callable[[], bool]) -> None:
    """Wait for a condition, not longer than DRAIN_S: what is missing then is counted."""
    end = monotonic() + DRAIN_S
    while not reached() and monotonic() < end:  # noqa: ASYNC110 - a look is enough
        await asyncio.sleep(0.05)


@asynccontextmanager
async def _probed(world: World) -> AsyncIterator[list[tuple[float, float, int]]]:
    """Answers of /health while the block lasts, complete after it: when, after how long, status."""
    probes: list[tuple[float, float, int]] = []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(HERE / "probe.py"), str(world.server.port)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield probes
    finally:
        assert process.stdin is not None
        process.stdin.close()
        assert process.stdout is not None
        told = await process.stdout.read()
        await process.wait()
        for line in told.splitlines():
            at, took, status = line.decode().strip("[]").split(",")
            probes.append((float(at), float(took), int(status)))
            world.track.note("Time of /health, ms", "health", float(took) * 1000, at=float(at))


async def _cycle(port: int, total: int, done: Counter[str]) -> None:
    ways = (_read_and_close, _read_and_reset, _leave_at_once, _half_a_head, _replay, _refused)
    left = iter(range(total))

    async def work() -> None:
        for number in left:
            way = ways[number % len(ways)]
            try:
                async with asyncio.timeout(60):
                    fine = await way(port)
            except OSError:
                fine = False
            done[
                way.__name__.strip("_").replace("_", " ") if fine else "not answered as expected"
            ] += 1

    await asyncio.gather(*(work() for _ in range(50)))


Way = Callable[[int], Awaitable[bool]]


async def _read_and_close(port: int) -> bool:
    return await _exchange(port, watch_request(), until=b"connection_established")


async def _read_and_reset(port: int) -> bool:
    return await _exchange(port, watch_request(), until=b"connection_established", reset=True)


async def _leave_at_once(port: int) -> bool:
    return await _exchange(port, watch_request(), until=None)


async def _half_a_head(port: int) -> bool:
    return await _exchange(port, watch_request()[:60], until=None)


async def _replay(port: int) -> bool:
    return await _exchange(port, replay_request(), until=b"event: connection-closing")


async def _refused(port: int) -> bool:
    nonsense = post("/api/v1/watch", {"event_type": "mars", "identifier": {"nonsense": "1"}})
    return await _exchange(port, nonsense, until=b" 400 ")


async def _exchange(port: int, request: bytes, *, until: bytes | None, reset: bool = False) -> bool:
    """Send, read until a mark if there is one, leave; whether the mark was seen."""
    reader, writer = await asyncio.open_connection(HOST, port, limit=MEBIBYTE)
    writer.write(request)
    seen = True
    if until is not None:
        try:
            await reader.readuntil(until)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            seen = False
    if reset:
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    else:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    return seen
