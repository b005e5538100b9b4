"""Streaming queries under supervision: when they are started again, and when not. No Spark."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from aviso_server.core.errors import AvisoError
from aviso_server.core.json import Json
from aviso_server.pipeline.source.failure import BadOption, Unreached
from aviso_server.pipeline.spark import query as supervision
from aviso_server.pipeline.spark.checkpoint import Checkpoint
from aviso_server.pipeline.spark.failure import Failure
from aviso_server.pipeline.spark.query import (
    ENDED,
    GONE,
    Progress,
    QuerySpec,
    StreamingJob,
    observed,
)


@dataclass(frozen=True)
class Batch:
    """The progress of a micro-batch, as Spark's class shows it."""

    timestamp: str
    json: str


@dataclass
class Run:
    """A streaming query of Spark's that is over at the first look, and its writer."""

    batches: Sequence[int] = ()
    error: Exception | None = None
    active: bool = False
    options: dict[str, object] = field(default_factory=dict)
    stopped: int = 0

    def outputMode(self, mode: str) -> "Run":  # noqa: N802 - Spark's names, here and below
        self.options["mode"] = mode
        return self

    def option(self, name: str, value: str) -> "Run":
        self.options[name] = value
        return self

    def trigger(self, **when: object) -> "Run":
        self.options |= when
        return self

    def start(self) -> "Run":
        return self

    def stop(self) -> None:
        self.stopped += 1

    def exception(self) -> Exception | None:
        return self.error

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self.active

    @property
    def recentProgress(self) -> list[Batch]:  # noqa: N802
        return [Batch(f"{n:03}", json.dumps({"batchId": n})) for n in self.batches]

    @property
    def lastProgress(self) -> Batch | None:  # noqa: N802
        return self.recentProgress[-1] if self.batches else None


class Job(StreamingJob):
    """Runs that were prepared, one after the other; the last one again and again."""

    hopeless = (BadOption,)

    def __init__(self, folder: Path, runs: Sequence[Run | BaseException], **changes: Any) -> None:
        super().__init__(**{"once": False, "interval_s": 2, "stop": None, **changes})
        self.checkpoint = Checkpoint(str(folder / "checkpoint"))
        self.runs = list(runs)
        self.starts = 0
        self.taken: list[int] = []
        self.shown: list[str | None] = []
        self.on_show: Callable[[], None] = lambda: None
        self.mends = False

    def queries(self) -> Iterator[QuerySpec]:
        run = self.runs[min(self.starts, len(self.runs) - 1)]
        self.starts += 1
        if isinstance(run, BaseException):
            raise run
        yield QuerySpec("q", run, self.checkpoint)  # type: ignore[arg-type]

    def take(self, name: str, progress: Progress) -> None:
        assert name == "q"
        self.taken.append(int(str(progress["batchId"])))

    def show(self, trouble: str | None = None) -> None:
        self.shown.append(trouble)
        self.on_show()

    def mend(self, failure: Failure) -> bool:
        mends, self.mends = self.mends and failure.kind is None, False
        return mends

    def end(self) -> None:
        """Tell the job to stop."""
        self._stop.set()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the pauses."""
    monkeypatch.setattr(supervision, "BACKOFF_S", (0.0,))
    monkeypatch.setattr(supervision, "POLL_S", 0.0)


def _spark(text: str) -> PySparkException:
    return PySparkException(message=text)


def _ours(error: AvisoError) -> PySparkException:
    kind = type(error)
    return _spark(f"Traceback (most recent call last):\n{kind.__module__}.{kind.__name__}: {error}")


def test_once_it_ends_when_its_query_does(tmp_path: Path) -> None:
    """Every micro-batch is taken once; a failure is not tried again, though it might help."""
    job = Job(tmp_path, [run := Run(batches=(1, 2, 3))], once=True)
    assert job.supervise() is None
    assert (job.taken, job.starts, run.stopped) == ([1, 2, 3], 1, 1)
    assert run.options == {
        "mode": "append",
        "checkpointLocation": str(tmp_path / "checkpoint"),
        "availableNow": True,
    }
    job = Job(tmp_path, [Run(error=_ours(Unreached("away")))], once=True)
    assert job.supervise() == Failure("away", Unreached)


def test_a_query_that_could_not_begin_in_time_is_tried_again(tmp_path: Path) -> None:
    """Even once: the machine was busy, and nothing is wrong with the checkpoint."""
    slow = Run(error=_spark("[X] Python worker failed to connect back."))
    job = Job(tmp_path, [slow, slow, Run(batches=(1,))], once=True)
    assert job.supervise() is None
    assert (job.starts, job.taken) == (3, [1])
    job = Job(tmp_path, [slow], once=True)
    job.mends = True
    assert job.supervise() == Failure("Python worker failed to connect back.")
    assert job.starts == job.attempts


def test_a_few_failures_in_a_row_are_enough(tmp_path: Path) -> None:
    """Each is shown; a micro-batch between them, even one, lets the count begin again."""
    job = Job(tmp_path, [Run(error=_spark("broken"))])
    assert job.supervise() == Failure("broken")
    assert job.starts == job.attempts
    assert job.shown == ["broken; trying again in 0 s"] * (job.attempts - 1)
    better = [Run((n,), error=_spark("broken")) for n in range(1, 20)]
    job = Job(tmp_path, [*better, Run(error=_spark("broken"))])
    assert job.supervise() == Failure("broken")
    assert (job.starts, job.taken) == (19 + job.attempts - 1, [*range(1, 20)])


def test_nats_is_waited_for_as_long_as_it_takes(tmp_path: Path) -> None:
    """It may fail in the query or while the query is prepared."""
    away: list[Run | BaseException] = [Run(error=_ours(Unreached("away"))), Unreached("away")]
    job = Job(tmp_path, [*away * 20, Run(error=_ours(BadOption("no such option")))])
    assert job.supervise() == Failure("no such option", BadOption)
    assert job.starts == 41


def test_a_query_that_somebody_ended_is_started_again(tmp_path: Path) -> None:
    """A job that runs for ever has not ended because its query has."""
    job = Job(tmp_path, [Run()])
    assert job.supervise() == ENDED
    assert job.starts == job.attempts


def test_the_last_resort_is_tried_before_giving_up(tmp_path: Path) -> None:
    """Then failures are counted from the beginning."""
    job = Job(tmp_path, [Run(error=_spark("broken"))])
    job.mends = True
    assert job.supervise() == Failure("broken")
    assert job.starts == 2 * job.attempts


def test_a_spark_that_is_gone_ends_the_job(tmp_path: Path) -> None:
    """Unless the job was told to stop: then the signal has reached Spark as well."""
    assert Job(tmp_path, [ConnectionRefusedError()]).supervise() is GONE
    stop = threading.Event()
    job = Job(tmp_path, [Run((1,), active=True), ConnectionRefusedError()], stop=stop)
    job.on_show = stop.set
    assert job.supervise() is None


def test_told_to_stop_it_stops_its_query(tmp_path: Path) -> None:
    """Without a word of failure."""
    job = Job(tmp_path, [run := Run((1,), active=True)])
    job.on_show = job.end
    assert job.supervise() is None
    assert (run.stopped, job.shown) == (1, [None])


def test_queries_may_be_started_again_in_time(tmp_path: Path) -> None:
    """That is no failure, and what was taken is not taken again."""
    job = Job(tmp_path, [Run((1,), active=True), Run((1,), active=True), Run((1, 2))])
    job.lifetime_s = -1.0
    job.attempts = 1  # type: ignore[misc]
    assert job.supervise() == ENDED
    assert (job.starts, job.taken) == (3, [1, 2])


def test_a_checkpoint_that_spark_would_refuse_is_set_aside(tmp_path: Path) -> None:
    """And the job says so."""
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.95e2195e.tmp").touch()
    job = Job(tmp_path, [Run()], once=True)
    assert job.supervise() is None
    assert "checkpoint.refused-1: it has no whole offset" in str(job.shown[0])


def test_counts_are_read_from_either_kind_of_spark() -> None:
    """Through Connect they come as a row; an idle look has none."""
    plain: Json = {"rows": 5, "late": None}
    connect: Json = {
        "values": [5, None],
        "schema": {"fields": [{"name": "rows"}, {"name": "late"}]},
    }
    for given in (plain, connect):
        assert observed({"observedMetrics": {"x": given}}, "x") == {"rows": 5, "late": 0}
    assert observed({"observedMetrics": {}}, "x") == observed({}, "x") == {}
