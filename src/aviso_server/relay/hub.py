"""The hub: one live source per stream, any number of subscribers.

Rules
- One tail per stream and process, whatever the number of watchers.
- A subscriber is registered before its boundary H is read from the store. Everything above H is
  therefore offered to it, and everything up to H is history: no gap, no duplicate.
- Subscribers with equal filters form one group. A notification is matched once per group and
  rendered once for all; a chunk of frames is joined once per group and shared.
- Dispatching never waits for a subscriber: a full one detaches (see subscription).
- A tail that fails is recreated from the last sequence + 1, a bounded number of times. If it stays
  down, every subscriber is informed.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn, Self

import structlog

from aviso_server import tasks
from aviso_server.backends.backend import Backend, Bounds
from aviso_server.core.cloudevent import Renderer
from aviso_server.core.errors import HistoryLost, LiveFailed
from aviso_server.core.filter import Filter
from aviso_server.core.frame import LIVE
from aviso_server.core.notification import Entry, Notification, Unreadable
from aviso_server.relay import places
from aviso_server.relay.candidates import Group
from aviso_server.relay.index import Index
from aviso_server.relay.recent import Recent, Room
from aviso_server.relay.render import render
from aviso_server.relay.subscription import Chunk, Subscription

TEST_WORK = 2500
"""What a single spatial test costs, in comparisons of edges: 0.1 ms, or 1 ms if hostile."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """How a lost tail is recreated."""

    attempts: int = 5
    delay_s: float = 2.0
    """Waited before the first attempt; the n-th waits n times as long."""


@dataclass(frozen=True, slots=True)
class Keep:
    """What the hub keeps of the streams it follows, for ``history.Tiers`` to read."""

    recent_bytes: int = 0
    """Newest entries held per stream; 0 holds none."""
    always: frozenset[str] = frozenset()
    """Event types followed permanently once watched, so that they stay held."""
    total_bytes: int = 268_435_456
    """Newest entries held of all streams together."""


class Hub:
    """Fans every stream out to its subscribers. An async context manager that owns its tasks."""

    def __init__(
        self,
        backend: Backend,
        renderer: Renderer,
        recovery: Recovery,
        *,
        keep: Keep | None = None,
    ) -> None:
        self._backend = backend
        self._renderer = renderer
        self._recovery = recovery
        self._keep = keep or Keep()
        self._room = Room(self._keep.total_bytes)
        self._streams: dict[str, _Stream] = {}
        self._tasks = asyncio.TaskGroup()
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Start owning tasks."""
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every tail."""
        for stream in self._streams.values():
            stream.stop()
        await tasks.end(*self._running)
        # The block's own error is raised as is: the group would wrap it.
        await self._tasks.__aexit__(None, None, None)

    async def subscribe(self, event_type: str, request: Filter, subscription: Subscription) -> None:
        """Join the live feed and take the boundary H in one step."""
        stream = self._streams.get(event_type)
        if stream is None:
            bounds = await self._backend.bounds(event_type)
            stream = self._streams.get(event_type) or self._open(event_type, bounds)
        stream.add(request, subscription)
        try:
            bounds = await self._backend.bounds(event_type)
        except BaseException:
            self.unsubscribe(event_type, request, subscription)
            raise
        if stream.recent is not None:
            stream.recent.agree(bounds)
        # A store that answers from a replica may lag behind what this process has dispatched.
        subscription.boundary = max(bounds.last, subscription.boundary)

    def rejoin(self, event_type: str, request: Filter, subscription: Subscription) -> bool:
        """Join a stream that is being followed, without asking the store; False if it is not.

        H is then the last sequence dispatched: everything above it will be offered. So a reader
        that was left behind can come back while the store is unavailable.
        """
        stream = self._streams.get(event_type)
        if stream is None:
            return False
        stream.add(request, subscription)
        return True

    def unsubscribe(self, event_type: str, request: Filter, subscription: Subscription) -> None:
        """Leave the live feed; the last one out ends the tail."""
        stream = self._streams.get(event_type)
        if stream is None:
            return
        stream.remove(request, subscription)
        if stream.idle and event_type not in self._keep.always:
            self._streams.pop(event_type).stop()

    def recent(self, event_type: str) -> Recent | None:
        """The newest entries of a stream, where they are held."""
        stream = self._streams.get(event_type)
        return None if stream is None else stream.recent

    def depths(self) -> Iterator[int]:
        """How many notifications wait in the queue of each subscriber."""
        for stream in self._streams.values():
            yield from stream.depths()

    def _open(self, event_type: str, bounds: Bounds) -> "_Stream":
        kept = self._keep.recent_bytes
        recent = Recent(bounds, kept, self._room) if kept else None
        stream = _Stream(event_type, bounds.last, self._renderer, recent)
        self._streams[event_type] = stream
        stream.task = self._tasks.create_task(self._run(stream), name=f"tail {event_type}")
        self._running.add(stream.task)
        stream.task.add_done_callback(self._running.discard)
        return stream

    async def _run(self, stream: "_Stream") -> None:
        """Follow one stream until it has no subscribers or is lost for good."""
        journal = structlog.get_logger().bind(event_type=stream.event_type)
        failed = 0
        while True:
            begun_at = stream.position
            try:
                await self._follow(stream)
            except Exception as error:  # noqa: BLE001 - whatever broke a tail, its watchers are owed the recovery
                if stream.stopped:
                    return  # the backend failed while it was being stopped
                failed = 1 if stream.position > begun_at else failed + 1
                if isinstance(error, HistoryLost) or failed > self._recovery.attempts:
                    journal.error(
                        "Live source lost",
                        event_name="stream.watch.live.lost",
                        last_sequence=stream.position,
                        error=str(error),
                    )
                    self._streams.pop(stream.event_type, None)
                    stream.fail(LiveFailed("Live notifications are no longer available"))
                    if stream.recent is not None:
                        stream.recent.close()
                    return
                journal.warning(
                    "Live source failed and is being recreated",
                    event_name="stream.watch.live.recreated",
                    last_sequence=stream.position,
                    attempt=failed,
                    error=str(error),
                )
                await asyncio.sleep(self._recovery.delay_s * failed)

    async def _follow(self, stream: "_Stream") -> NoReturn:
        async with aclosing(self._backend.tail(stream.event_type, stream.position)) as tail:
            async for entries in tail:
                if stream.stopped:
                    break
                await stream.dispatch(entries)
        raise LiveFailed("the live source ended")


class _Stream:
    """The live side of one event type: its position, its groups of subscribers."""

    def __init__(
        self, event_type: str, position: int, renderer: Renderer, recent: Recent | None
    ) -> None:
        self.event_type = event_type
        self.position = position
        """Last sequence dispatched."""
        self.task: asyncio.Task[None] | None = None
        self.stopped = False
        self.recent = recent
        self._renderer = renderer
        self._index: Index[Subscription] = Index()

    @property
    def idle(self) -> bool:
        return not self._index

    def add(self, request: Filter, subscription: Subscription) -> None:
        # Nothing up to here will be offered again, so nothing up to here can be live.
        subscription.boundary = self.position
        self._index.add(request, subscription)

    def remove(self, request: Filter, subscription: Subscription) -> None:
        self._index.remove(request, subscription)

    def depths(self) -> Iterator[int]:
        for group in self._index.groups():
            for subscription in group.members:
                yield subscription.queued

    async def _matching(self, notification: Notification) -> Iterable[Group[Subscription]]:
        """The groups that ask for a notification; long spatial tests are made in a thread."""
        # All at once: the index may change while tests are waited for.
        groups = list(self._index.matching_texts(notification))
        spatial = [group for group in groups if group.filter.spatial is not None]
        if not spatial:
            return groups

        def decide() -> set[Group[Subscription]]:
            return {group for group in spatial if not group.filter.matches_place(notification)}

        work = sum(group.filter.work_on(notification) for group in spatial)
        little = work + TEST_WORK * len(spatial) <= places.LITTLE_WORK
        missed = decide() if little else await places.in_thread(decide)
        return [group for group in groups if group not in missed]

    def stop(self) -> None:
        self.stopped = True
        if self.recent is not None:
            self.recent.close()
        if self.task is not None:
            self.task.cancel()

    def fail(self, failure: LiveFailed) -> None:
        for group in self._index.groups():
            for subscription in tuple(group.members):
                subscription.fail(failure)

    async def dispatch(self, entries: Sequence[Entry]) -> None:
        """Match and render each entry once, and offer each group what it asked for.

        May wait for spatial tests. A subscriber that joins meanwhile has a boundary at or above the
        position, which is moved first: nothing that is being matched is live for it.
        """
        gathered: dict[Group[Subscription], list[tuple[int, bytes | Unreadable]]] = {}
        # A recreated tail may begin a little early.
        fresh = [entry for entry in entries if entry.sequence > self.position]
        if self.recent is not None:
            self.recent.add(fresh)
        for entry in fresh:
            # Before anything is awaited: whoever joins from here on has this one in its history.
            # If its group is offered it below, ``Subscription.take`` leaves it out.
            self.position = entry.sequence
            if isinstance(entry, Unreadable):
                # It has no fields to compare. It is shown to everybody rather than to nobody.
                matched = self._index.groups()
            else:
                matched = await self._matching(entry.notification)
            item: tuple[int, bytes | Unreadable] | None = None
            for group in matched:
                if item is None:  # rendered once, and not at all if nobody asks for it
                    item = (entry.sequence, render(self._renderer, entry, LIVE))
                gathered.setdefault(group, []).append(item)
        # Offered after everything is matched: one chunk per group, which all its members share.
        # Nothing is awaited from here on, so all of them see the same order.
        for group, items in gathered.items():
            chunk = Chunk(items)
            for subscription in tuple(group.members):
                if not subscription.offer(chunk):
                    # Full: it noted where to resume and reads history when its client catches up.
                    self._index.remove(group.filter, subscription)
