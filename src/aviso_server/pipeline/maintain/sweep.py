"""Removing files that no reader can still need, and keeping the small tables small.

A file is swept when no version of its table refers to it for longer than the horizon: replaced
files, and what killed tasks left behind. The horizon must be longer than the longest read or write.
"""

import re
from datetime import UTC, datetime, timedelta

import pyarrow.fs as pa_fs
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from aviso_server.lake.files import remove
from aviso_server.lake.layout import DEAD_LETTERS, NOTIFICATIONS, TOMBSTONES, Place
from aviso_server.lake.outcome import Tag, settle
from aviso_server.lake.storage import LakeFailed, files
from aviso_server.lake.table import find
from aviso_server.lake.typed.table import table_names
from aviso_server.pipeline.archive.deadletters import STAGED

KEEP = timedelta(days=7)
"""The usual horizon."""

KEPT = "delta.deletedFileRetentionDuration"
_DEFAULT_DAYS = 7
"""How long Delta remembers by default that a file was removed."""
_DAYS = re.compile(r"interval (\d+) days?")

MANY_FILES = 16
"""Files of a small table that are worth putting together."""

_HOUR = timedelta(hours=1)


def sweep(place: Place, keep: timedelta, *, dry_run: bool) -> list[str]:
    """Remove what nothing has referred to for ``keep``; the files, below the lake's folder."""
    hours = -(-keep // _HOUR)  # upwards: rather a little late
    swept: list[str] = []
    for name in (NOTIFICATIONS, DEAD_LETTERS, TOMBSTONES, *table_names(place)):
        table = find(place, name)
        if table is None:
            continue
        try:
            if not dry_run:
                _remember(table, keep)
            paths = table.vacuum(
                retention_hours=hours,
                dry_run=dry_run,
                enforce_retention_duration=False,
                # Also what no version ever knew: files of tasks that were killed.
                full=True,
            )
        except (DeltaError, OSError) as error:
            raise LakeFailed(f"cannot sweep {place.table(name)}: {error}") from error
        swept += sorted({f"{name}/{path}" for path in paths})
    return swept + _staged(place, keep, dry_run=dry_run)


def gather(place: Place) -> None:
    """Put the small files of the small tables together."""
    for name in (DEAD_LETTERS, TOMBSTONES):
        table = find(place, name)
        if table is None or len(table.file_uris()) < MANY_FILES:
            continue
        try:
            table.optimize.compact()
        except CommitFailedError:
            continue  # it was written to meanwhile: the next sweep compacts it
        except (DeltaError, OSError) as error:
            raise LakeFailed(f"cannot compact {place.table(name)}: {error}") from error


def expire_letters(place: Place, event_type: str, last: int) -> int:
    """Remove dead letters up to a sequence; how many."""
    if find(place, DEAD_LETTERS) is None:
        return 0
    named = event_type.replace("'", "''")
    count = 0

    def expire(table: DeltaTable, tag: Tag) -> bool:
        nonlocal count
        asked = f"event_type = '{named}' AND sequence <= {last}"
        done = table.delete(asked, commit_properties=tag.properties())
        count = int(done.get("num_deleted_rows") or 0)
        return count > 0

    settle(place, DEAD_LETTERS, expire)
    return count


def _remember(table: DeltaTable, keep: timedelta) -> None:
    """Have removals remembered as long as files are kept.

    A forgotten removal makes its file look like one that no version ever knew, whose age counts
    from when it was written: it would go too early.
    """
    told = _DAYS.fullmatch(table.metadata().configuration.get(KEPT, "") or "")
    known = int(told[1]) if told else _DEFAULT_DAYS
    days = -(-keep // timedelta(days=1))
    if days > known:
        table.alter.set_table_properties({KEPT: f"interval {days} days"})


def _staged(place: Place, keep: timedelta, *, dry_run: bool) -> list[str]:
    """Dead letters that a killed task staged and no commit took."""
    if find(place, DEAD_LETTERS) is None:
        return []
    folder = files(place, DEAD_LETTERS)
    found = folder.get_file_info(pa_fs.FileSelector(STAGED, allow_not_found=True))
    oldest = datetime.now(UTC) - keep
    old = [info.path for info in found if info.is_file and info.mtime < oldest]
    if not dry_run:
        remove(folder, old)
    return [f"{DEAD_LETTERS}/{path}" for path in sorted(old)]
