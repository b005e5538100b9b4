"""The log of a table stays short by itself."""

import os
import time
from pathlib import Path

from support.lake import filled, record, sequences, table_of

from aviso_server.lake.layout import LOG_KEPT, NOTIFICATIONS, Place
from aviso_server.lake.storage import commit_file
from aviso_server.lake.table import RETENTION, ensure


def _age(place: Place) -> None:
    """Let the log be as old as a log may become."""
    old = time.time() - LOG_KEPT.total_seconds() - 86_400
    for path in Path(place.table(NOTIFICATIONS), "_delta_log").iterdir():
        os.utime(path, (old, old))


def test_old_commits_go_with_the_next_one(place: Place) -> None:
    """Those below a checkpoint that is old itself; rows and marks stay."""
    for n in range(1, 6):
        filled(place, [record(n)])
    table_of(place).create_checkpoint()
    _age(place)
    filled(place, [record(6)])
    log = {path.name for path in Path(place.table(NOTIFICATIONS), "_delta_log").glob("*.json")}
    assert log == {Path(commit_file(version)).name for version in (5, 6)}
    assert sequences(place) == [1, 2, 3, 4, 5, 6]
    assert filled(place, [record(3), record(6), record(7)]).rows == 1


def test_tables_of_earlier_versions_keep_their_log_shorter_from_now_on(place: Place) -> None:
    """Unless somebody chose how long."""
    filled(place, [record(1)])
    kept = table_of(place).metadata().configuration[RETENTION]
    for before, after in (("interval 30 days", kept), ("interval 90 days", "interval 90 days")):
        table_of(place).alter.set_table_properties({RETENTION: before})
        assert ensure(place, NOTIFICATIONS).metadata().configuration[RETENTION] == after
        filled(place, [record(table_of(place).version() + 1)])
        assert table_of(place).metadata().configuration[RETENTION] == after
