"""A replay to another server: in order, each notification once, also if it is killed on the way.

Theory of operation
Spark reads, and this process alone publishes, one request after the other, so that order is kept.
After each request the ledger says how far it came, durably. A run that was killed may have sent one
request more than its ledger knows, and the next run finds out:

- The same notification has the same idempotency key in every run. While the server remembers keys
  (120 s), whatever is sent again is not stored again. That covers a request that is still on its
  way when the next run begins.
- Before it sends anything, a run looks at what the server stored after the last entry of the
  ledger, and leaves out what is there (``stored``). That covers everything older.

The range is pinned in the ledger when a replay begins: what is stored at the source later does not
become part of it.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from time import monotonic

from pyspark.sql import SparkSession

from aviso_server.core.json import compact, parse
from aviso_server.pipeline.history.frame import answer
from aviso_server.pipeline.history.plan import HistoryPlan
from aviso_server.pipeline.replay.ledger import LEDGER, Entry, Head, Ledger
from aviso_server.pipeline.replay.options import (
    Outcome,
    Progress,
    ReplayFailed,
    Server,
    chunks,
)
from aviso_server.pipeline.replay.requests import Item, items
from aviso_server.pipeline.replay.trouble import spark_failures
from aviso_server.pipeline.sink.client import Client, NotSent
from aviso_server.pipeline.sink.client import Stored as Accepted
from aviso_server.pipeline.sink.stored import Stored
from aviso_server.pipeline.sink.writer import MAX_BATCH_BYTES
from aviso_server.pipeline.source.options import read_options


def publish(
    spark: SparkSession,
    plan: HistoryPlan,
    target: Server,
    *,
    chunk: int,
    tell: Callable[[Progress], None],
) -> Outcome:
    """Publish the answer of a plan, or what is left of it; ReplayFailed if it cannot go on."""
    ledger = _ledger(plan, target, chunk)
    client = Client(target.sink)
    try:
        with spark_failures():
            return _Run(spark, plan, target, ledger, client, tell).publish()
    except NotSent as error:
        raise ReplayFailed(f"{error}. Repeat the command to go on from here") from error
    finally:
        client.close()
        ledger.close()


def published(plan: HistoryPlan, target: Server, *, chunk: int) -> Outcome | None:
    """The outcome of a replay that is complete; ReplayFailed if the ledger is that of another."""
    if not (target.state / LEDGER).exists():
        return None
    ledger = _ledger(plan, target, chunk)
    try:
        return _outcome(ledger, ledger.entry.published) if ledger.entry.complete else None
    finally:
        ledger.close()


def _ledger(plan: HistoryPlan, target: Server, chunk: int) -> Ledger:
    head = Head(_job(plan, target), plan.first, plan.last, target.sink.batch_size, chunk)
    return Ledger(target.state, head)


def _outcome(ledger: Ledger, resumed: int) -> Outcome:
    head, entry = ledger.head, ledger.entry
    return Outcome(entry.published, head.first, head.last, resumed=resumed, rejected=entry.rejected)


class _Run:
    """One run of a replay, from where the ledger is."""

    def __init__(
        self,
        spark: SparkSession,
        plan: HistoryPlan,
        target: Server,
        ledger: Ledger,
        client: Client,
        tell: Callable[[Progress], None],
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._target = target
        self._ledger = ledger
        self._client = client
        self._tell = tell
        self._event_type = plan.question.event_type
        self._stored = Stored(target.sink, self._event_type)
        self._unsure = ledger.resumed and ledger.entry.target is not None
        """Whether the next notifications may be at the server already."""
        self._before = ledger.entry.published
        self._due = monotonic()

    def publish(self) -> Outcome:
        """Publish everything that is not in the ledger."""
        head, plan = self._ledger.head, self._plan
        if head.last > plan.newest and not self._ledger.entry.complete:
            raise ReplayFailed(
                f"lake and log end at {plan.newest}, and this replay was to end at {head.last}: "
                "they are not the ones that it began with"
            )
        self._show()
        origin = head.job["source"]
        for first, last in chunks(self._ledger.entry.through + 1, head.last, head.chunk):
            piece = replace(plan, first=first, last=last)
            if piece.files or piece.source is not None:
                rows = answer(self._spark, piece)
                self._send_all(items(rows, self._event_type, origin, first=first, last=last))
            self._note(last)
        if not self._ledger.entry.complete:
            self._ledger.note(replace(self._ledger.entry, complete=True))
        return _outcome(self._ledger, self._before)

    def _send_all(self, found: Iterator[Item]) -> None:
        # The size of requests is that of the first run: what any killed run may have sent beyond
        # its ledger fits into one of them.
        size = self._ledger.head.batch
        if self._unsure:
            batch = list(islice(found, size))
            if batch:
                self._send(batch)
                self._unsure = False
        for batch in _batches(found, size):
            self._send(batch)

    def _send(self, batch: list[Item]) -> None:
        good = [item for item in batch if item.problem is None]
        entry, found = self._ledger.entry, [False] * len(good)
        bodies = [item.body for item in good]
        target = entry.target
        if self._unsure and target is not None and good:
            found, target = self._stored.of(bodies, above=target)
        elif target is None and good:
            target = self._stored.last(bodies)
            self._ledger.note(replace(entry, target=target))
        left = [item for item, known in zip(good, found, strict=True) if not known]
        self._pace(len(left))
        outcomes = self._client.post([item.request for item in left]) if left else []
        rejected = [(item, f"{item.problem}") for item in batch if item.problem is not None]
        for item, outcome in zip(left, outcomes, strict=True):
            if isinstance(outcome, Accepted):
                target = max(target or 0, int(outcome.id.rpartition("@")[2]))
            else:
                rejected.append((item, f"{outcome.code}: {outcome.message}"))
        self._note(
            batch[-1].sequence,
            target=target,
            published=len(batch) - len(rejected),
            rejected=sorted(rejected, key=lambda pair: pair[0].sequence),
        )

    def _note(
        self,
        through: int,
        *,
        target: int | None = None,
        published: int = 0,
        rejected: Iterable[tuple[Item, str]] = (),
    ) -> None:
        entry, lines, count = self._ledger.entry, b"", 0
        for item, why in rejected:
            name = f"{self._event_type}@{item.sequence}"
            if not self._target.skip_rejected:
                raise ReplayFailed(
                    f"{self._target.sink.url} does not take {name}: {why}. With --skip-rejected "
                    "the replay goes on without such notifications"
                )
            request = parse(item.body) if item.body else None
            lines += compact({"id": name, "problem": why, "request": request}) + b"\n"
            count += 1
        self._ledger.note(
            Entry(
                through,
                entry.target if target is None else target,
                entry.published + published,
                entry.rejected + count,
                entry.rejected_bytes + len(lines),
            ),
            lines,
        )
        self._show()

    def _show(self) -> None:
        head, entry = self._ledger.head, self._ledger.entry
        done, total = entry.through - head.first + 1, head.last - head.first + 1
        self._tell(Progress(max(done, 0), max(total, 0), entry.published, self._before))

    def _pace(self, count: int) -> None:
        """Wait until so many more are within the rate."""
        rate = self._target.sink.rate
        if rate is None or not count:
            return
        threading.Event().wait(max(self._due - monotonic(), 0.0))
        self._due = max(self._due, monotonic()) + count / rate


def _batches(found: Iterator[Item], size: int) -> Iterator[list[Item]]:
    """Requests bounded in number and in bytes."""
    batch: list[Item] = []
    room = MAX_BATCH_BYTES
    for item in found:
        if batch and (len(batch) >= size or len(item.body) + 1 > room):
            yield batch
            batch, room = [], MAX_BATCH_BYTES
        batch.append(item)
        room -= len(item.body) + 1
    if batch:
        yield batch


def _job(plan: HistoryPlan, target: Server) -> dict[str, str]:
    """What makes two runs the same replay; addresses come without credentials."""
    asked = plan.question
    options = read_options(asked.source(first=1, last=1))
    addresses = ",".join(options.access.addresses) or options.access.address_file
    return {
        "event_type": asked.event_type,
        "source": asked.place.path if asked.place else str(addresses),
        "filter": compact(dict(options.identifier or {})).decode(),
        "start": str(asked.start),
        "end": str(asked.end),
        "target": target.sink.url,
    }
