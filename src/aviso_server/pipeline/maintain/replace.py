"""Replacing files of the table: safe beside others that commit to it.

Rules
- A commit is made on exactly the version that was read. Delta refuses it if anything was committed
  since; then the table is read again (lake/outcome.py).
- It is only tried again if every file to be removed is still part of the table. One that is not was
  replaced by another job, and adding our copy of its rows would duplicate them.
- Appends of the archive job never remove anything, so they only make a commit be tried again; and
  its marks are in the table's log, which no removal touches.
"""

from collections.abc import Sequence

from deltalake import DeltaTable

from aviso_server.core.errors import AvisoError
from aviso_server.lake.commit import commit_files
from aviso_server.lake.files import Written
from aviso_server.lake.inventory import Inventory
from aviso_server.lake.layout import NOTIFICATION_TABLE, NOTIFICATIONS, Place
from aviso_server.lake.outcome import OutcomeUnknown, Tag, all_active, discard, settle
from aviso_server.lake.storage import LakeFailed


class Overtaken(AvisoError):
    """Another job has replaced one of the files; nothing was done."""


def replace_files(
    place: Place, removed: Inventory, written: Sequence[Written], *, data_change: bool
) -> None:
    """Put files in the place of others, in one commit; Overtaken if these are gone.

    New files that surely were not taken are removed.
    """

    def swap(table: DeltaTable, tag: Tag) -> bool:
        if not all_active(table, removed.columns["path"]):
            raise Overtaken("another job has replaced some of the files")
        commit_files(table, written, removed, tag=tag, data_change=data_change)
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
