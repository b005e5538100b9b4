"""Every step at which a change to the lake can fail, before and after it took effect.

Whatever fails: each sequence is there once, every file that a table refers to is there, and the
mark says what is readable; when the fault is gone, trying again completes it.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest
from deltalake import DeltaTable, write_deltalake
from support.farlake import assert_whole, block_checkpoints, far_lakes
from support.lake import filled, record, table_of
from support.lossy import When

from aviso_server.core.errors import AvisoError
from aviso_server.core.notification import Unreadable
from aviso_server.lake import deadletters, tombstones
from aviso_server.lake.commit import archived_through
from aviso_server.lake.inventory import inventory
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.table import find
from aviso_server.pipeline.archive.sink import LakeWriter
from aviso_server.pipeline.maintain.plan import Rewrite
from aviso_server.pipeline.maintain.replace import replace_files
from aviso_server.pipeline.maintain.rewrite import Task, rewrite_files
from aviso_server.pipeline.source.columns import MARKED, Columns
from aviso_server.pipeline.source.ranges import Range

pytestmark = pytest.mark.slow


class Job(Protocol):
    """What changes a lake, one step after the other."""

    def prepare(self, place: Place) -> None:
        """Put there what the next step works on."""

    def step(self, place: Place) -> None:
        """Do the step, or what is left of it."""

    def verify(self, place: Place, *, done: bool) -> None:
        """Check what must hold; ``done``: the step, too."""


@dataclass(slots=True)
class Archive:
    """A micro-batch as Spark has it done, with a dead letter, and a loss of another event type."""

    last: int = 0

    def prepare(self, place: Place) -> None:  # noqa: ARG002 - it is the log that grows
        """The log has four more."""
        self.last += 4

    def step(self, place: Place) -> None:
        """Archive what the lake does not have."""
        table, last = find(place, NOTIFICATIONS), self.last
        if table is not None and archived_through(table, "mars") == last:
            return
        columns = Columns(MARKED)
        batches = [
            *columns.rows("mars", [record(last - 3), record(last - 2)], {}),
            *columns.rows("mars", [Unreadable(last - 1, 1, "", "bad"), record(last)], {}),
            columns.mark(Range("diss", last - 3, last), lost=True),
            columns.mark(Range("mars", last - 3, last), lost=False),
        ]
        writer = LakeWriter(place)
        writer.settle([writer.write(iter(batches))])

    def verify(self, place: Place, *, done: bool) -> None:
        """All or nothing, and the loss is noted once the mark says so."""
        tables = assert_whole(place)
        assert tables.mark in ((self.last,) if done else (self.last - 4, self.last))
        assert max([0, *tables.lost]) >= tables.mark


@dataclass(slots=True)
class Maintain:
    """Two files that become one."""

    last: int = 0

    def prepare(self, place: Place) -> None:
        """Files to be put together."""
        for _ in range(1 if self.last else 2):
            self.last += 2
            filled(place, [record(self.last - 1), record(self.last)])

    def step(self, place: Place) -> None:
        """Put all files together."""
        found = inventory(table_of(place))
        if len(found) == 1:
            return
        item = Rewrite("mars", found[0].day, found)
        answer = rewrite_files(place, Task(0, item))
        if answer.problem is not None:
            raise OSError(answer.problem)
        replace_files(place, found, answer.written, data_change=False)

    def verify(self, place: Place, *, done: bool) -> None:
        """All rows are there, in one file or still in two."""
        tables = assert_whole(place)
        assert tables.mark == self.last
        assert tables.files in ((1,) if done else (1, 2))


@pytest.fixture(params=[Archive, Maintain])
def job(request: pytest.FixtureRequest) -> Job:
    """Both of them."""
    made: Job = request.param()
    return made


@dataclass(frozen=True, slots=True)
class Fault:
    """What fails."""

    when: When
    away: bool = False
    """Also all that follows."""
    repeats: int = 0
    """Times that a client of an object store repeats what failed."""


def _try(job: Job, place: Place, *, healed: Place, heal: Callable[[], object]) -> None:
    with contextlib.suppress(AvisoError, OSError):
        job.step(place)
    heal()
    job.verify(healed, done=False)
    job.step(healed)
    job.verify(healed, done=True)


@dataclass(slots=True)
class Calls:
    """Calls into delta-rs, of which one may fail before or after it took effect."""

    number: int = 0
    fault: Fault = Fault("before")
    names: list[str] = field(default_factory=list)

    def plan(self, number: int, fault: Fault) -> list[str]:
        """Have a call fail, counted from now; those until now."""
        names, self.names, self.number, self.fault = self.names, [], number, fault
        return names

    def around(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """The call, with its fault."""

        def call(*given: Any, **named: Any) -> Any:
            self.names.append(name)
            ours = len(self.names) == self.number
            gone = self.fault.away and 0 < self.number < len(self.names)
            if gone or (ours and self.fault.when == "before"):
                raise OSError(f"the disk is away at {name}")
            answer = real(*given, **named)
            if ours:
                raise OSError(f"the disk went away in {name}")
            return answer

        return call


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What stands between us and delta-rs."""
    made = Calls()
    for name in ("create_write_transaction", "history", "get_add_actions"):
        monkeypatch.setattr(DeltaTable, name, made.around(name, getattr(DeltaTable, name)))
    monkeypatch.setattr(DeltaTable, "__init__", made.around("open", DeltaTable.__init__))
    for module in (deadletters, tombstones):
        monkeypatch.setattr(module, "write_deltalake", made.around("write", write_deltalake))
    return made


def test_on_a_disk(place: Place, calls: Calls, job: Job) -> None:
    """At each call into delta-rs."""
    for _ in range(2):
        job.prepare(place)
        calls.plan(0, Fault("before"))
        job.step(place)
    steps = calls.plan(0, Fault("before"))
    assert {"create_write_transaction", "open"} <= set(steps)
    for number in range(1, len(steps) + 1):
        for fault in (Fault(when, away) for when in ("before", "after") for away in (False, True)):
            job.prepare(place)
            calls.plan(number, fault)
            _try(job, place, healed=place, heal=lambda: calls.plan(0, Fault("before")))


def test_where_no_checkpoint_can_be_written(place: Place, job: Job) -> None:
    """The table's own, which Delta writes behind a commit: the step succeeds."""
    for _ in range(2):
        job.prepare(place)
        job.step(place)
    job.prepare(place)
    block_checkpoints(place)
    job.step(place)
    job.verify(place, done=True)


def test_in_an_object_store(job: Job) -> None:
    """At each request that changes something: each fault at commits, one in turn at others."""
    faults = (Fault("after", repeats=1), Fault("after", away=True), Fault("before"))
    kind = type(job)
    with far_lakes() as lakes:
        lake = next(lakes)
        job.prepare(lake.direct)
        job.step(lake.seen(repeats=0))
        requests = lake.proxy.heal()
        assert any("_delta_log" in line for line in requests)
        for number, line in enumerate(requests, 1):
            turn = number % len(faults)
            all_of_them = "_delta_log" in line and "00.json" not in line
            for fault in faults if all_of_them else faults[turn : turn + 1]:
                job, lake = kind(), next(lakes)
                job.prepare(lake.direct)
                lake.proxy.lose(number, fault.when, away=fault.away)
                far = lake.seen(repeats=fault.repeats)
                _try(job, far, healed=lake.direct, heal=lake.proxy.heal)
