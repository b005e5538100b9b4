"""From a question to files and a range of the log: a real log, a real lake, no Spark."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from backends.contract import OPEN
from support.carried import archive
from support.lake import BEGIN_NS, filled, record
from support.nats import NatsServer, nats_server
from support.source import fill, read_batch

from aviso_server.core.moment import rfc3339
from aviso_server.lake.layout import Place
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.pipeline.history.plan import (
    LAKE_VARIABLE,
    LOG_VARIABLE,
    HistoryPlan,
    make_plan,
    question,
)
from aviso_server.pipeline.source.failure import BadOption, Unreached


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A log with twenty notifications of ``ev``."""
    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        fill(running.url, 20)
        yield running


@pytest.fixture(scope="module")
def lake(store: NatsServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake that has twelve of them."""
    place = Place(str(tmp_path_factory.mktemp("lake")))
    archive(place, store.url, "ev", last=6)
    archive(place, store.url, "ev", first=7, last=12)
    return place.path


def parts(plan: HistoryPlan) -> tuple[tuple[int, int], int, tuple[int, int] | None]:
    """What is asked of the lake, from how many files, and what is asked of the log."""
    source = plan.source
    log = (int(source["startingSequence"]), int(source["endingSequence"])) if source else None
    return (
        (plan.part.first, plan.part.last),
        0 if plan.files is None else len(plan.files.sizes),
        log,
    )


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, ((1, 12), 2, (13, 20))),
        (7, None, ((7, 12), 1, (13, 20))),
        (None, 12, ((1, 12), 2, None)),
        (13, 15, ((13, 12), 0, (13, 15))),
        (0, 1, ((1, 1), 1, None)),
        (99, None, ((99, 12), 0, None)),
        (None, 10**30, ((1, 12), 2, (13, 20))),
    ],
)
def test_the_mark_divides(
    store: NatsServer,
    lake: str,
    start: int | None,
    end: int | None,
    expected: tuple[tuple[int, int], int, tuple[int, int] | None],
) -> None:
    """The lake answers up to its mark, the log above it up to its end."""
    asked = question("ev", lake=lake, log=store.url, start=start, end=end)
    assert parts(make_plan(asked)) == expected


def test_times_become_sequences_in_either_tier(store: NatsServer, lake: str) -> None:
    """Inclusive at both ends, to the nanosecond in text."""
    times = read_batch(servers=store.url, eventType="ev")["time_ns"].to_pylist()

    def between(first: int, last: int) -> tuple[int, int]:
        points = {"start": rfc3339(times[first - 1]), "end": rfc3339(times[last - 1])}
        plan = make_plan(question("ev", lake=lake, log=store.url, **points))  # type: ignore[arg-type]
        return plan.first, plan.last

    assert [between(3, 5), between(3, 17), between(15, 17)] == [(3, 5), (3, 17), (15, 17)]
    early = make_plan(question("ev", lake=lake, log=store.url, end="2001-01-01 00:00:00"))
    late = make_plan(question("ev", lake=lake, log=store.url, start="2101-01-01 00:00:00"))
    assert not early.files
    assert early.source is None
    assert not late.files
    assert late.source is None


def test_times_of_a_lake_alone(place: Place) -> None:
    """Without a log, and past what is deleted."""
    filled(place, [record(n, ns=BEGIN_NS + n * 1000) for n in range(1, 10)])
    append_tombstones(place, [("mars", 4, 5)], kind="deleted")
    at = datetime.fromtimestamp(BEGIN_NS // 10**9, UTC)

    def between(first: int, last: int) -> tuple[int, int]:
        points = {
            "start": at + timedelta(microseconds=first),
            "end": (at + timedelta(microseconds=last)).replace(tzinfo=None),
        }
        plan = make_plan(question("mars", lake=place, **points))  # type: ignore[arg-type]
        return plan.first, plan.last

    assert between(2, 3) == (2, 3)
    assert between(4, 5) == (6, 3)
    assert between(5, 20) == (6, 9)
    assert make_plan(question("mars", lake=place, start=at + timedelta(days=1))).files is None


def test_the_schema_comes_from_the_stream(store: NatsServer, lake: str) -> None:
    """So a filter means what it means to the server; one given wins, and without any it is text."""
    plan = make_plan(question("ev", lake=lake, log=store.url, filter='{"region": "odd"}'))
    assert not plan.schema.generic
    assert plan.wanted is not None
    assert plan.wanted.exact == (("region", "odd"),)
    assert plan.source is not None
    assert json.loads(plan.source["filter"]) == {"region": "odd"}
    with pytest.raises(BadOption, match="Unknown field 'reg'"):
        make_plan(question("ev", lake=lake, log=store.url, filter={"reg": "odd"}))
    assert make_plan(question("ev", lake=lake, filter={"reg": 5})).wanted is not None
    with pytest.raises(BadOption, match="Unknown field 'reg'"):
        make_plan(question("ev", lake=lake, filter={"reg": 5}, schemas=OPEN.schemas))


def test_a_whole_request_is_a_filter_too(lake: str) -> None:
    """With its event type, which must be the one asked about; an empty one asks for everything."""
    asked = {"event_type": "ev", "identifier": {}}
    assert make_plan(question("ev", lake=lake, filter=asked)).wanted is None  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="the filter is for 'ev'"):
        make_plan(question("mars", lake=lake, filter=asked))  # type: ignore[arg-type]


def test_fewer_sequences_of_a_plan(store: NatsServer, lake: str) -> None:
    """A plan is cut without another look; pieces never reach beyond it."""
    plan = make_plan(question("ev", lake=lake, log=store.url, start=3, end=18))
    assert parts(plan.between(1, 10)) == ((3, 10), 2, None)
    assert parts(plan.between(11, 14)) == ((11, 12), 1, (13, 14))
    assert parts(plan.between(15, 99)) == ((15, 12), 0, (15, 18))


def test_where_to_look_may_come_from_the_environment(
    store: NatsServer, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables of the server; whoever says one of the two means only that."""
    monkeypatch.setenv(LAKE_VARIABLE, lake)
    monkeypatch.setenv(LOG_VARIABLE, store.url)
    assert parts(make_plan(question("ev"))) == ((1, 12), 2, (13, 20))
    assert parts(make_plan(question("ev", lake=lake))) == ((1, 12), 2, None)
    monkeypatch.delenv(LAKE_VARIABLE)
    monkeypatch.delenv(LOG_VARIABLE)
    with pytest.raises(BadOption, match="say where the notifications are"):
        question("ev")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"filter": "{"}, "filter: "),
        ({"filter": {"x": {"gt": 1}}}, "constraint object is not supported without schema"),
        ({"start": "yesterday"}, "start must be a valid datetime"),
        ({"end": 1.5}, "end is a sequence"),
    ],
)
def test_bad_questions(lake: str, wrong: dict[str, object], message: str) -> None:
    """One line says what is wrong."""
    with pytest.raises(BadOption, match=message):
        make_plan(question("ev", lake=lake, **wrong))  # type: ignore[arg-type]


def test_missing_lake_and_log_are_errors(lake: str, tmp_path: Path) -> None:
    """Not an empty answer."""
    with pytest.raises(LakeFailed):
        make_plan(question("ev", lake=str(tmp_path / "none")))
    with pytest.raises(Unreached):
        make_plan(question("ev", lake=lake, log="nats://127.0.0.1:1"))


@pytest.mark.parametrize("first", ["aviso_server.pipeline", "aviso_server.pipeline.history.plan"])
def test_the_public_name_is_the_function(first: str) -> None:
    """``pipeline.history`` is what docs call, whichever module of the folder was imported first."""
    code = (
        f"import {first}; from aviso_server import pipeline; pipeline.history; "
        "from aviso_server.pipeline import history; print(history.__module__, history.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "aviso_server.pipeline.history.frame history\n"
