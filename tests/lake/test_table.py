"""The log of a table stays short by itself."""

import os
import time
from pathlib import Path

import pytest
from support.lake import filled, record, sequences, table_of

from aviso_server.lake import outcome
from aviso_server.lake.layout import LOG_KEPT, NOTIFICATIONS, TOMBSTONES, Place
from aviso_server.lake.storage import LakeFailed, commit_file
from aviso_server.lake.table import RETENTION, UNUSABLE, ensure
from aviso_server.lake.tombstones import append_tombstones


def _age(place: Place) -> None:
    """Let the log be as old as a log may become."""
    old = time.time() - LOG_KEPT.total_seconds() - 86_400
    for path in Path(place.table(NOTIFICATIONS), "_delta_log").iterdir():
        os.utime(path, (old, old))


def _log(place: Place) -> set[str]:
    return {path.name for path in Path(place.table(NOTIFICATIONS), "_delta_log").glob("*.json")}


def test_old_commits_go_from_time_to_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those below a checkpoint that is old itself; rows and marks stay."""
    monkeypatch.setattr(outcome, "CLEANED", 7)
    for n in range(1, 6):
        filled(place, [record(n)])
    table_of(place).create_checkpoint()
    _age(place)
    filled(place, [record(6)])
    assert len(_log(place)) == 7
    filled(place, [record(7)])
    assert _log(place) == {Path(commit_file(version)).name for version in (5, 6, 7)}
    assert sequences(place) == [1, 2, 3, 4, 5, 6, 7]
    assert filled(place, [record(3), record(6), record(8)]).rows == 1


def test_tables_of_earlier_versions_keep_their_log_shorter_from_now_on(place: Place) -> None:
    """Unless somebody chose how long."""
    filled(place, [record(1)])
    kept = table_of(place).metadata().configuration[RETENTION]
    for before, after in (("interval 30 days", kept), ("interval 90 days", "interval 90 days")):
        table_of(place).alter.set_table_properties({RETENTION: before})
        assert ensure(place, NOTIFICATIONS).metadata().configuration[RETENTION] == after
        filled(place, [record(table_of(place).version() + 1)])
        assert table_of(place).metadata().configuration[RETENTION] == after


@pytest.mark.parametrize("character", sorted(UNUSABLE))
def test_paths_that_delta_rs_cannot_use_are_refused(tmp_path: Path, character: str) -> None:
    """Before anything is written: it would archive, and panic at the first deletion."""
    with pytest.raises(LakeFailed, match="the path of the lake must not have") as failure:
        ensure(Place(str(tmp_path / f"a{character}20")), NOTIFICATIONS)
    assert character in failure.value.message


def test_other_paths_can_be_used(tmp_path: Path) -> None:
    """Rows, tombstones and their compaction."""
    place = Place(str(tmp_path / 'a b{1}*?#"é~<`'))
    filled(place, [record(1), record(2)])
    append_tombstones(place, [("mars", 1, 1)], kind="deleted")
    ensure(place, TOMBSTONES).optimize.compact()
    assert sequences(place) == [1, 2]
