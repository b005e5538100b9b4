"""A feed: history, then live, as the bytes of one SSE stream (docs/protocol.md#streams).

Rules
- The boundary H is taken when the feed is opened, in one step with the live subscription.
  History is every matching sequence <= H, then ``replay_completed``, then every matching one > H.
- History is capped by the number delivered, with a look-ahead of one. When the cap cuts,
  there is neither ``replay_completed`` nor a live phase.
- A subscription whose queue was full is left behind: what it holds is delivered, then history is
  read from the first sequence it could not take up to a new boundary, and live continues from
  there. No control frame marks the switch and the cap does not apply.
- Retention may overtake a reader. Before the first batch nothing was promised, so history just
  begins later, with the gap signal where one is due. Afterwards it is a failure.
- What is missing between the lake and the log, or inside the lake, is signalled where it is
  missing, and history continues. For a slow reader on its way back to live it is a failure.
- A failure gives one ``error`` and the closing frame, never a false ``replay_completed``.
- Stop conditions are checked before every piece; nothing pending is flushed once one holds.

Theory of operation
Bytes go to the outlet, which sets the pace: sending returns when the client can take more. While
it is blocked the bounded subscription fills, and then detaches. All other waiting happens in the
``Pulse``. Once the live phase has nothing to do, the feed *rests*: ``begin`` and ``resume`` return,
so that no coroutine is kept for it, and the hub hands chunks straight to the outlet. Whatever else
happens ends the rest, and then ``resume`` continues: in a coroutine that waited (``run``), or in a
new task of the connection (http/resting).
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias, TypeVar, cast

import structlog
from structlog.typing import FilteringBoundLogger

from aviso_server.backends.backend import Batch
from aviso_server.core.cloudevent import Renderer
from aviso_server.core.cursor import FromSequence, FromTime, ToSequence, ToTime
from aviso_server.core.errors import (
    HistoryFailed,
    HistoryLost,
    LiveFailed,
    RequestError,
    SetupFailed,
)
from aviso_server.core.frame import (
    LIVE,
    REPLAY,
    Closing,
    Frame,
    Framer,
    Heartbeat,
    HistoryGap,
    LimitReached,
    NotRendered,
    Reason,
    ReplayCompleted,
    StreamFailed,
)
from aviso_server.core.notification import Entry, Unreadable
from aviso_server.core.operation import Operation
from aviso_server.relay import places
from aviso_server.relay.history import History
from aviso_server.relay.hub import Hub
from aviso_server.relay.outlet import Outlet
from aviso_server.relay.pulse import Alarms, Ended, Pulse, Stop
from aviso_server.relay.query import Query, StreamRules, opening_of
from aviso_server.relay.quota import Quota
from aviso_server.relay.readers import Readers
from aviso_server.relay.render import pieces, render
from aviso_server.relay.subscription import Chunk, Subscription
from aviso_server.telemetry.metrics import SILENT, Metrics

_Result = TypeVar("_Result")
_Work: TypeAlias = Coroutine[Any, Any, _Result] | asyncio.Task[_Result]


@dataclass(frozen=True, slots=True)
class Sources:
    """What feeds read from and are ruled by; the same for all feeds of a server."""

    hub: Hub
    history: History
    renderer: Renderer
    rules: StreamRules
    stop: Stop
    now_ns: Callable[[], int]
    metrics: Metrics = SILENT
    readers: Readers = field(default_factory=Readers)
    alarms: Alarms = field(default_factory=Alarms)


class Feed:
    """One stream to one client: opened, run, closed."""

    __slots__ = (
        *("_ahead", "_boundary", "_end", "_first", "_framer", "_meter", "_outlet"),
        *("_pulse", "_query", "_rules", "_sources", "_subscription", "_woken"),
    )

    def __init__(self, sources: Sources, query: Query) -> None:
        self._sources = sources
        self._rules = sources.rules
        self._query = query
        self._framer = Framer(query.request_id, query.topic)
        self._meter = sources.metrics.stream(query.operation, query.schema.label)
        self._pulse = Pulse(sources.stop, sources.alarms, sources.rules.heartbeat_s)
        self._subscription: Subscription | None = None
        self._boundary = 0
        self._first = 0
        """Where history begins as asked for, which may be older than anything kept."""
        self._end: int | None = None
        """The effective end of history, where the request gave an end point."""
        self._outlet: Outlet  # from ``begin`` on
        self._ahead: asyncio.Task[Batch] | None = None
        """The read of the next batch, while the client takes this one."""
        self._woken: Callable[[], None] | None = None
        """Called when a rest ends."""

    @property
    def request_id(self) -> str:
        """The request that the stream answers."""
        return self._query.request_id

    async def open(self) -> None:
        """Set the stream up: subscription, H, start and end.

        Raises SetupFailed, or a RequestError that only the store could notice.
        """
        try:
            await self._set_up()
        except BaseException as error:
            self.close()
            if isinstance(error, RequestError) or not isinstance(error, Exception):
                raise
            raise SetupFailed("Failed to create stream consumer", details=str(error)) from error

    def close(self) -> None:
        """Free what the feed holds; harmless when done twice."""
        self._pulse.close()
        self._leave()
        if self._ahead is not None:
            self._ahead.cancel()

    async def run(self, outlet: Outlet, *, begun: bool = False) -> None:
        """Send the whole stream, or what is left of it, in one coroutine."""
        ended = not begun and await self.begin(outlet)
        while not ended:
            woken = asyncio.Event()
            self.rest(outlet, woken.set)
            await woken.wait()
            ended = await self.resume()

    async def begin(self, outlet: Outlet) -> bool:
        """Send until the stream has ended, or may ``rest``: then False."""
        self._outlet = outlet
        await self._put(opening_of(self._query, self._rules, self._end, self._sources.now_ns))
        return await self._advance(self._phases)

    def rest(self, outlet: Outlet, woken: Callable[[], None]) -> None:
        """Let the hub write to the outlet until ``woken`` is called, once: ``resume`` is due."""
        self._outlet, self._woken = outlet, woken
        if self._subscription is not None:
            self._subscription.pass_on = outlet.pass_on
        self._pulse.rest(self._rouse)

    def _rouse(self) -> None:
        """The rest is over: what comes now must queue up behind what ended it."""
        if self._subscription is not None:
            self._subscription.pass_on = None
        woken, self._woken = self._woken, None
        if woken is not None:
            woken()

    async def resume(self) -> bool:
        """Continue after a rest, until the stream has ended, or may rest again: then False."""
        return await self._advance(self._live)

    async def _advance(self, phases: Callable[[], Coroutine[Any, Any, bool]]) -> bool:
        reason = Reason.END_OF_STREAM
        try:
            if not await phases():
                return False
        except Ended as ended:
            reason = ended.reason
        except (HistoryFailed, LiveFailed) as error:
            self._journal.warning(
                "Stream failed", event_name="stream.replay.batch.failed", error=error.details
            )
            self._meter.errors.add()
            await self._put(StreamFailed(error.message))
        await self._put(Closing(reason))
        return True

    async def _phases(self) -> bool:
        """History and live, as asked for; False when there is nothing to do at the moment."""
        query = self._query
        if query.window.start is None:
            self._pulse.beat_now()
        else:
            last = self._boundary if self._end is None else self._end
            begun = perf_counter()
            cut = await self._history(self._first, last, REPLAY)
            self._meter.replay.observe(perf_counter() - begun)
            if cut:
                return True
            await self._beat()
            await self._put(ReplayCompleted())
        return query.operation is Operation.REPLAY or await self._live()

    # Setting up

    async def _set_up(self) -> None:
        query, history = self._query, self._sources.history
        if query.operation is Operation.WATCH:
            self._boundary = await self._subscribe()
            self._pulse.end_after(self._rules.max_duration_s)
        else:
            self._boundary = (await history.bounds(query.event_type)).last
        if query.expires_at_ns is not None:
            self._pulse.end_after((query.expires_at_ns - self._sources.now_ns()) / 1e9)
        match query.window.start:
            case FromSequence(sequence):
                self._first = sequence
            case FromTime(ns):
                self._first = await history.first_since(query.event_type, ns)
        match query.window.end:
            case ToSequence(sequence):
                self._end = min(sequence, self._boundary)
            case ToTime(ns):
                self._end = min(await history.last_until(query.event_type, ns), self._boundary)

    async def _subscribe(self) -> int:
        """Join the live feed; the boundary H. The feed owns the subscription from here on."""
        joined = self._new_subscription()
        await self._sources.hub.subscribe(self._query.event_type, self._query.filter, joined)
        self._subscription = joined
        return joined.boundary

    def _rejoin(self, first: int) -> int | None:
        """Join the live feed again to continue with ``first``; the new boundary.

        None when the stream is not followed any more.
        """
        joined = self._new_subscription()
        if not self._sources.hub.rejoin(self._query.event_type, self._query.filter, joined):
            return None
        # The hub may still be behind the H this stream had: what lies between is not for it.
        joined.boundary = max(joined.boundary, first - 1)
        self._leave()  # only now: the last one to leave would end the tail
        self._subscription = joined
        return joined.boundary

    def _new_subscription(self) -> Subscription:
        return Subscription(self._rules.queue_size, self._pulse.wake, self._meter.sent)

    def _leave(self) -> None:
        if self._subscription is not None:
            query = self._query
            self._sources.hub.unsubscribe(query.event_type, query.filter, self._subscription)
            self._subscription = None

    # History

    async def _history(self, first: int, last: int, name: bytes) -> bool:
        """Deliver ``first..last`` from history; True when the cap cut it."""
        # What a client asked for, as ``replay`` and capped; or the way back of a slow reader to
        # live, as ``live-notification`` and not capped.
        returning = name is LIVE
        quota = Quota(None if returning else self._cap)
        # Nothing is promised before the first batch has shown where history begins: retention may
        # take from its beginning until then. A slow reader was promised all of it when it joined.
        position, promised = first, returning
        if position > last and not promised:
            await self._begin_history(None)  # nothing to read, but the first heartbeat is due
        while position <= last:
            # The first look must see the deletions of other processes, too; later ones need not.
            ask = partial(self._reading, position, last, fresh=not promised)
            batch = await self._patiently(ask)
            if not promised:
                await self._begin_history(batch, position)
                promised = True
            # ``lost`` at or above the position: retention overtook this reader. ``missing``:
            # neither log nor lake has what comes here. A replay is told where that is; a slow
            # reader on its way back was promised everything.
            elif batch.bounds.lost >= position or (batch.missing and returning):
                raise HistoryLost(
                    "History is no longer kept",
                    details=f"sequence {position} is gone; "
                    f"the first one available is {max(batch.bounds.first, batch.following)}",
                )
            elif batch.missing:
                await self._gap(position, batch.following)
            chosen = await self._select(batch.entries)
            # What is read and not sent costs this caller its turn: see relay/readers.
            unsent = batch.passed + len(batch.entries) - len(chosen)
            self._sources.readers.charge(self._query.caller, unsent)
            for frames in pieces(self._frames(chosen, name, quota)):
                # A stop ends the stream here, between two writes; what is left is not flushed.
                await self._beat()
                await self._outlet.send(frames)
                self._meter.sent.add(quota.fresh())
                # Not before the client has taken some: one that stalls holds a batch, not two. Nor
                # before a pause, in which something may be deleted.
                if batch.following <= last and not (quota.exceeded or self._rules.batch_delay_s):
                    self._ahead = self._reading(batch.following, last, fresh=False)
            # Exceeded by one that was looked at and not sent: exactly the cap is not exceeded.
            if quota.exceeded:
                await self._limit_reached(quota)
                return True
            # Not the last entry + 1: whatever lies below was considered, even if nothing matched.
            position = batch.following
            if self._rules.batch_delay_s and position <= last:
                await self._meanwhile(asyncio.sleep(self._rules.batch_delay_s))
        return False

    def _reading(self, first: int, last: int, *, fresh: bool) -> asyncio.Task[Batch]:
        """The read that was begun ahead, or one that begins now."""
        begun, self._ahead = self._ahead, None
        return begun or asyncio.create_task(self._read(first, last, fresh=fresh))

    async def _read(self, first: int, last: int, *, fresh: bool) -> Batch:
        """A piece of history: at once if it is in memory, else when it is this caller's turn."""
        query, history = self._query, self._sources.history
        limit = self._rules.read_size or self._rules.batch_size
        held = history.at_hand(query.event_type, first, last, limit=limit)
        if held is not None:
            return held
        async with self._sources.readers.turn(query.caller):
            return await history.read(
                query.event_type, first, last, limit=limit, wanted=query.filter, fresh=fresh
            )

    async def _select(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries asked for, in order; long spatial tests are waited for meanwhile."""
        wanted = self._query.filter
        chosen: list[Entry] = []
        for work, run in places.runs(wanted, wanted.select_texts(entries)):
            if work <= places.LITTLE_WORK:
                chosen += wanted.select_places(run)
            else:
                tests = await self._meanwhile(places.in_thread(partial(wanted.select_places, run)))
                chosen += tests.result()
        return chosen

    async def _begin_history(self, batch: Batch | None, position: int = 0) -> None:
        """After the first read of history: the gap signal, then a watch's first heartbeat."""
        if batch is not None:
            asked, begins = self._query.window.start, batch.bounds.first
            if isinstance(asked, FromSequence) and 0 < asked.sequence < begins:
                await self._gap(asked.sequence, begins)
            elif batch.missing and position >= begins:
                await self._gap(position, batch.following)
        if self._query.operation is Operation.WATCH:
            self._pulse.beat_now()
            await self._beat()

    async def _gap(self, wanted: int, available: int) -> None:
        """Report that history is missing here, and where it continues."""
        self._journal.warning(
            "History gap",
            event_name="stream.replay.history_gap",
            requested_sequence=wanted,
            first_available_sequence=available,
        )
        self._meter.gaps.add()
        await self._put(HistoryGap(wanted, available))

    def _frames(self, entries: Iterable[Entry], name: bytes, quota: Quota) -> Iterator[bytes]:
        """The frames of a batch, up to the quota."""
        renderer = self._sources.renderer
        for entry in entries:
            frame = render(renderer, entry, name)
            if isinstance(frame, Unreadable):
                yield self._not_rendered(frame)
            elif quota.take():
                yield frame
            else:
                return

    def _not_rendered(self, entry: Unreadable) -> bytes:
        self._journal.warning(
            "Stored notification cannot be rendered",
            event_name="stream.sse.cloudevent.creation.failed",
            sequence=entry.sequence,
            error=entry.reason,
        )
        self._meter.errors.add()
        return self._frame(NotRendered(entry.sequence, entry.topic, entry.reason))

    @property
    def _cap(self) -> int:
        return self._query.schema.history_cap or self._rules.history_cap

    async def _limit_reached(self, quota: Quota) -> None:
        self._journal.warning(
            "Replay limit reached",
            event_name="stream.replay.limit.reached",
            max_allowed=quota.allowed,
        )
        self._meter.limited.add()
        await self._put(LimitReached(self._cap))

    # Live

    async def _live(self) -> bool:
        """Deliver what the hub has offered; False when there is no more."""
        while (subscription := self._subscription) is not None:
            await self._beat()
            if (chunk := subscription.take()) is not None:
                await self._deliver(chunk)
            elif subscription.resume_at is not None:
                # What did not fit may begin below H, when the hub was behind as H was taken.
                await self._catch_up(max(subscription.resume_at, subscription.boundary + 1))
            elif subscription.failure is not None:
                raise subscription.failure
            else:
                return False
        return True

    async def _catch_up(self, first: int) -> None:
        """Go back to history for what did not fit into the queue, and join live again."""
        self._journal.info(
            "Reader switched to history",
            event_name="stream.watch.reader.switched",
            last_sequence=first - 1,
        )
        self._meter.switches.add()
        boundary = self._rejoin(first)
        if boundary is None:
            self._leave()
            boundary = await self._patiently(self._subscribe)
        await self._history(first, boundary, LIVE)

    async def _deliver(self, chunk: Chunk) -> None:
        """Send a chunk as shared by all, unless something in it is for this stream only."""
        if chunk.same_for_all:
            await self._outlet.deliver(chunk)
        else:
            frames = (
                frame if isinstance(frame, bytes) else self._not_rendered(frame)
                for _, frame in chunk.items
            )
            await self._outlet.send(b"".join(frames))
        self._meter.sent.add(chunk.notifications)

    @property
    def _journal(self) -> FilteringBoundLogger:
        """A log that names the stream; made when it is needed, which is seldom."""
        query, journal = self._query, structlog.get_logger()
        named = {"request_id": query.request_id, "event_type": query.event_type}
        return cast("FilteringBoundLogger", journal.bind(**named, topic=query.topic))

    # Pace

    async def _beat(self) -> None:
        """Send a heartbeat if one is due; raises Ended when the stream must end."""
        if self._pulse.beats():
            await self._put(Heartbeat())

    async def _patiently(self, ask: Callable[[], _Work[_Result]]) -> _Result:
        """Ask the store, again after a while when it fails; HistoryFailed when it stays away."""
        attempt = 1
        while True:
            task = await self._meanwhile(ask())
            failure = task.exception()
            if failure is None:
                return task.result()
            if isinstance(failure, HistoryLost) or attempt >= self._rules.read_attempts:
                if isinstance(failure, HistoryFailed):
                    raise failure
                raise HistoryFailed("Failed to read history", details=str(failure)) from failure
            self._journal.warning(
                "History could not be read and is tried again",
                event_name="stream.replay.batch.failed",
                attempt=attempt,
                error=str(failure),
            )
            await self._meanwhile(asyncio.sleep(self._rules.read_delay_s * attempt))
            attempt += 1

    async def _meanwhile(self, work: _Work[_Result]) -> asyncio.Task[_Result]:
        """Await something slow; heartbeats continue and stop conditions hold meanwhile."""
        task = work if isinstance(work, asyncio.Task) else asyncio.create_task(work)
        task.add_done_callback(lambda _: self._pulse.wake())
        try:
            while not task.done():
                await self._pulse.wait()
                await self._beat()
        finally:
            task.cancel()
        return task

    async def _put(self, frame: Frame) -> None:
        await self._outlet.send(self._frame(frame))

    def _frame(self, frame: Frame) -> bytes:
        return self._framer.render(frame, self._sources.now_ns())
