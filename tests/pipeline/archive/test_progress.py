"""What the archive job reports, from what Spark reports of its micro-batches."""

import json
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from aviso_server.pipeline.archive.metrics import ArchiveMetrics
from aviso_server.pipeline.archive.progress import (
    ArchiveSnapshot,
    ArchiveTally,
    Known,
    Reach,
    as_json,
)


def _progress(
    start: dict[str, int],
    end: dict[str, int],
    latest: dict[str, int],
    *,
    text: bool = False,
    **counts: Any,
) -> dict[str, Any]:
    """A micro-batch as Spark reports it; through Connect offsets are texts and counts a row."""

    def offset(value: dict[str, int]) -> Any:
        return json.dumps(value) if text else value

    source = {
        "startOffset": offset(start),
        "endOffset": offset(end),
        "latestOffset": offset(latest),
    }
    row = {"values": [*counts.values()], "schema": {"fields": [{"name": name} for name in counts]}}
    observed = {"archive": row if text else counts} if counts else {}
    return {"batchId": 0, "sources": [source], "observedMetrics": observed}


def test_micro_batches_add_up() -> None:
    """Counts are summed, positions are the newest, offsets come as JSON or as text."""
    tally = ArchiveTally()
    tally.started(100.0)
    tally.add(
        _progress({"a": 1}, {"a": 11}, {"a": 31}, rows=9, letters=1, newest=95_000_000), 105.0
    )
    tally.add(
        _progress(
            {"a": 11},
            {"a": 21, "b": 5},
            {"a": 31, "b": 5},
            text=True,
            rows=14,
            letters=0,
            newest=99_000_000,
        ),
        110.0,
    )
    now = tally.snapshot("running", 110.0)
    assert (now.archived, now.letters, now.batches, now.lag) == (23, 1, 2, 10)
    assert now.event_types == {"a": Reach(20, 30), "b": Reach(4, 4)}
    assert now.rate == 2.3
    assert now.lag_s == 11.0
    assert now.committed_at == 110.0


def test_looks_that_found_nothing_are_no_commits() -> None:
    """Spark reports them too; they refresh how far the log is."""
    tally = ArchiveTally(Known({"a": Reach(10, 12)}, 50.0))
    assert tally.snapshot("starting", 60.0).lag_s == 10.0
    tally.add(_progress({"a": 11}, {"a": 11}, {"a": 11}), 61.0)
    now = tally.snapshot("running", 70.0)
    assert (now.batches, now.committed_at, now.lag, now.lag_s) == (0, None, 0, 0.0)


def test_lag_in_seconds_begins_when_there_was_none() -> None:
    """After an idle night the first notification is not a night late."""
    tally = ArchiveTally()
    tally.add(_progress({}, {"a": 5}, {"a": 5}, rows=4, letters=0, newest=10_000_000), 12.0)
    tally.look(Known({"a": Reach(4, 4)}), 1000.0)
    tally.add(
        _progress({"a": 5}, {"a": 6}, {"a": 9}, rows=1, letters=0, newest=1001_000_000), 1003.0
    )
    assert tally.snapshot("running", 1004.0).lag_s == 3.0


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    """It falls to zero when nothing comes."""
    tally = ArchiveTally()
    tally.started(0.0)
    tally.add(_progress({}, {"a": 301}, {"a": 301}, rows=300, letters=0), 100.0)
    assert tally.snapshot("running", 101.0).rate == 10.0
    assert tally.snapshot("running", 131.0).rate == 0.0


def test_json_lines_have_a_fixed_shape() -> None:
    """Programs read them; an error is there only if there is one."""
    line = as_json(ArchiveSnapshot("running", archived=3, event_types={"a": Reach(1, 4)}))
    assert line == {
        "state": "running",
        "archived": 3,
        "rate": 0.0,
        "lag": 3,
        "lag_seconds": 0.0,
        "dead_letters": 0,
        "event_types": {"a": {"through": 1, "last": 4}},
    }
    assert as_json(ArchiveSnapshot("failed", error="why"))["error"] == "why"


def test_prometheus_sees_the_last_snapshot() -> None:
    """Every series is there from the start."""
    metrics, registry = ArchiveMetrics(), CollectorRegistry()
    registry.register(metrics)
    assert b"aviso_archive_notifications_total 0.0" in generate_latest(registry)
    metrics.show(
        ArchiveSnapshot(
            "running",
            archived=7,
            letters=1,
            batches=2,
            rate=1.5,
            lag_s=2.0,
            event_types={"a": Reach(1, 4)},
            committed_at=12.0,
            unexpected={("a", "every"): 4},
        )
    )
    text = generate_latest(registry).decode()
    for line in (
        "aviso_archive_notifications_total 7.0",
        "aviso_archive_dead_letters_total 1.0",
        'aviso_archive_unexpected_notifications_total{event_type="a",expectation="every"} 4.0',
        "aviso_archive_batches_total 2.0",
        "aviso_archive_rate 1.5",
        'aviso_archive_lag_notifications{event_type="a"} 3.0',
        "aviso_archive_lag_seconds 2.0",
        "aviso_archive_last_commit_timestamp_seconds 12.0",
    ):
        assert line in text.splitlines()


def test_a_look_says_the_lag_while_a_micro_batch_takes_its_time() -> None:
    """What is announced meanwhile shows, with the age of the oldest that is not archived."""
    tally = ArchiveTally(Known({"a": Reach(4, 4)}))
    tally.look(Known({"a": Reach(4, 9), "b": Reach(0, 1)}, oldest=100.0), 130.0)
    seen = tally.snapshot("running", 130.0)
    assert (seen.lag, seen.lag_s) == (6, 30.0)
