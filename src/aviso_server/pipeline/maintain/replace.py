"""Replacing files of the table: safe beside others that commit to it.

Rules
- A commit is made on exactly the version that was read. Delta refuses it if anything was committed
  since; then the table is read again (lake/outcome.py).
- It is only tried again if every file to be removed is still part of the table. One that is not was
  replaced by another job, and adding our copy of its rows would duplicate them.
- Appends of the archive job never remove anything, so they only make a commit be tried again; and
  its marks are in the table's log, which no removal touches.
"""

import time
from collections.abc import Iterable, Sequence

from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from aviso_server.core.errors import AvisoError
from aviso_server.lake.files import Written
from aviso_server.lake.inventory import TableFile
from aviso_server.lake.layout import NOTIFICATION_TABLE, NOTIFICATIONS, PARTITION, Place
from aviso_server.lake.outcome import OutcomeUnknown, Tag, active, after_commit, discard, settle
from aviso_server.lake.storage import LakeFailed


class Overtaken(AvisoError):
    """Another job has replaced one of the files; nothing was done."""


def replace_files(
    place: Place, removed: Iterable[TableFile], written: Sequence[Written], *, data_change: bool
) -> None:
    """Put files in the place of others, in one commit; Overtaken if these are gone.

    New files that surely were not taken are removed.
    """
    gone = list(removed)

    def swap(table: DeltaTable, tag: Tag) -> bool:
        if not active(table).issuperset(file.path for file in gone):
            raise Overtaken("another job has replaced some of the files")
        _commit(table, gone, written, data_change=data_change, tag=tag)
        return True

    try:
        settle(place, NOTIFICATIONS, swap)
    except OutcomeUnknown:
        raise
    except (Overtaken, LakeFailed):
        discard(place, [item.path for item in written])
        raise


def foreign_columns(table: DeltaTable) -> list[str]:
    """Columns that this version does not write: writing files again would lose them."""
    known = set(NOTIFICATION_TABLE.names)
    return sorted(item.name for item in table.schema().fields if item.name not in known)


def _commit(
    table: DeltaTable,
    removed: Sequence[TableFile],
    written: Sequence[Written],
    *,
    data_change: bool,
    tag: Tag,
) -> None:
    now_ms = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [
        # delta-rs encodes the paths of removals itself, but not those of additions.
        RemoveAction(file.name, data_change, now_ms, file.size, _values(file.event_type, file.day))
        for file in removed
    ]
    actions += [
        AddAction(
            path=item.path,
            size=item.size,
            partition_values=_values(item.event_type, item.day),
            modification_time=now_ms,
            data_change=data_change,
            stats=item.statistics,
        )
        for item in written
    ]
    table.create_write_transaction(
        actions,
        mode="append",
        schema=table.schema(),
        partition_by=list(PARTITION),
        commit_properties=tag.properties(),
        post_commithook_properties=after_commit(table),
    )


def _values(event_type: str, day: object) -> dict[str, str | None]:
    return {"event_type": event_type, "day": str(day)}
