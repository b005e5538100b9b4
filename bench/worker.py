"""A load process: takes jobs over a pipe, does them on its own event loop, answers each.

Times are ``time.monotonic()``, which on Linux is one clock for all processes.
"""

import asyncio
import gc
import multiprocessing
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import uvloop
from bench.crew import HOST, Broken, Producer, Producers, Reader, Replayer, Watcher
from bench.served import cpu_s
from bench.wire import Speech, aviso

_Pipe: TypeAlias = "Connection[Any, Any]"
_Reader = TypeVar("_Reader", bound=Reader)

GATHER_S = 45
"""How long readers may wait for what was sent: less than the parent waits for them."""
CONNECTING = 50
"""Connections opened at a time: the listen queue must not overflow."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Notify so often over so many connections; answered with a Span."""

    port: int
    notifications: int
    connections: int
    speech: Speech = field(default_factory=aviso)


@dataclass(frozen=True, slots=True)
class Replay:
    """Read all history with so many readers at once, each of which must get ``expected``."""

    port: int
    readers: int
    expected: int
    speech: Speech = field(default_factory=aviso)


@dataclass(frozen=True, slots=True)
class Watch:
    """Open so many watches and keep them; answered once every opening frame is there."""

    port: int
    watchers: int
    speech: Speech = field(default_factory=aviso)


@dataclass(frozen=True, slots=True)
class Aim:
    """From now on count so many further frames on every open watch; answered at once."""

    port: int
    frames: int


@dataclass(frozen=True, slots=True)
class Gather:
    """Answered when every watch has reached its aim, with a Span that ends there."""

    port: int


Job: TypeAlias = Publish | Replay | Watch | Aim | Gather


@dataclass(frozen=True, slots=True)
class Span:
    """When a job began and ended, and how long each answer took where that was noted."""

    began_at: float
    ended_at: float
    latencies_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job was not done."""

    why: str


class LoadFailed(SystemExit):
    """A job was not done. It ends the benchmark, unless somebody knows better."""


class Worker:
    """The parent's hand on a load process."""

    def __init__(self, process: multiprocessing.process.BaseProcess, pipe: _Pipe) -> None:
        self._process = process
        self._pipe = pipe

    def cpu_s(self) -> float:
        """CPU time used so far."""
        assert self._process.pid is not None
        return cpu_s(self._process.pid)

    def start(self, job: Job) -> None:
        """Hand a job over."""
        self._pipe.send(job)

    def finish(self, timeout_s: float) -> Span:
        """Its answer; the benchmark ends when there is none in time."""
        if not self._pipe.poll(timeout_s):
            raise SystemExit(f"a load process did not finish within {timeout_s:.0f} s")
        answer = self._pipe.recv()
        if isinstance(answer, Failure):
            raise LoadFailed(f"the load failed: {answer.why}")
        assert isinstance(answer, Span)
        return answer

    def do(self, job: Job, timeout_s: float) -> Span:
        """Hand a job over and wait for its answer."""
        self.start(job)
        return self.finish(timeout_s)


@contextmanager
def worker() -> Iterator[Worker]:
    """A load process, ended with the block."""
    # Spawned, not forked: a load process must not share the parent's state or sockets.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Worker(process, ours)
    finally:
        ours.close()
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()


def work(pipe: _Pipe) -> None:
    """Run a load process until its parent hangs up."""
    gc.disable()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(pipe))
    os._exit(0)  # thousands of open sockets need no farewell


async def _work(pipe: _Pipe) -> None:
    loop = asyncio.get_running_loop()
    desk = _Desk()
    while True:
        try:
            job: Job = await loop.run_in_executor(None, pipe.recv)
        except EOFError:
            return
        try:
            answer: Span | Failure = await desk.do(job)
        except TimeoutError:
            answer = Failure(f"some readers had not got everything after {GATHER_S} s")
        except (Broken, OSError) as error:
            answer = Failure(str(error))
        pipe.send(answer)


class _Desk:
    """Does jobs; holds the watches between them."""

    def __init__(self) -> None:
        self._watches: dict[int, list[Watcher]] = defaultdict(list)

    async def do(self, job: Job) -> Span:
        began_at = monotonic()
        match job:
            case Publish():
                return await self._publish(job)
            case Replay():
                return await self._replay(job)
            case Watch():
                await self._watch(job)
            case Aim(port, frames):
                for reader in self._watches[port]:
                    reader.aim(frames)
            case Gather(port):
                async with asyncio.timeout(GATHER_S):
                    for reader in self._watches[port]:
                        await reader.reached()
                return Span(began_at, max(reader.reached_at for reader in self._watches[port]))
        return Span(began_at, monotonic())

    async def _publish(self, job: Publish) -> Span:
        loop = asyncio.get_running_loop()
        count = job.notifications // job.speech.batch
        producers = Producers(job.speech, count)
        members = []
        for _ in range(min(job.connections, count)):
            _, member = await loop.create_connection(lambda: Producer(producers), HOST, job.port)
            members.append(member)
        began_at = monotonic()
        for member in members:
            member.send()
        await producers.done
        ended_at = monotonic()
        for member in members:
            assert member.transport is not None
            member.transport.abort()
        return Span(began_at, ended_at, producers.latencies_s)

    async def _replay(self, job: Replay) -> Span:
        began_at = monotonic()
        readers = await _connect(job.readers, job.port, lambda: Replayer(job.speech.replay))
        for reader in readers:
            await reader.reached()
            if reader.transport is not None:
                reader.transport.abort()
            if reader.count != job.expected:
                raise Broken(f"a replay gave {reader.count} of {job.expected} notifications")
        return Span(began_at, max(reader.reached_at for reader in readers))

    async def _watch(self, job: Watch) -> None:
        opened = await _connect(job.watchers, job.port, lambda: Watcher(job.speech))
        for reader in opened:
            await reader.reached()
        self._watches[job.port] += opened


async def _connect(count: int, port: int, make: Callable[[], _Reader]) -> list[_Reader]:
    loop = asyncio.get_running_loop()
    readers: list[_Reader] = []
    while len(readers) < count:
        some = range(min(CONNECTING, count - len(readers)))
        connecting = (loop.create_connection(make, HOST, port) for _ in some)
        readers += [reader for _, reader in await asyncio.gather(*connecting)]
    return readers
