"""Changing the files of a typed table exactly once.

Rules, as for the notifications (docs/decisions/0009-exactly-once-by-marks.md)
- A commit that adds rows carries the mark that they reach, and is made on the mark that they begin
  after. If another writer has moved it, nothing is added.
- A commit that replaces files is made only while all of them are part of the table.
- Files that surely were not committed are removed; an unknown outcome removes nothing.
"""

from collections.abc import Callable, Mapping, Sequence

from deltalake import DeltaTable

from aviso_server.lake.commit import commit_files
from aviso_server.lake.files import Written
from aviso_server.lake.inventory import TableFile
from aviso_server.lake.layout import Place
from aviso_server.lake.marks import read_mark, transactions
from aviso_server.lake.outcome import OutcomeUnknown, Tag, all_active, discard, settle
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.table import find
from aviso_server.lake.typed.table import table_name


def append(
    place: Place, event_type: str, written: Sequence[Written], after: int, through: int
) -> bool:
    """Add rows of the sequences after one mark up to another; False if another writer did."""
    marks = transactions({event_type: through}, written)

    def add(table: DeltaTable, tag: Tag) -> bool:
        if read_mark(table, event_type).through != after:
            return False
        commit_files(table, written, tag=tag, marks=marks)
        return True

    return _settle(place, event_type, written, add)


def replace_files(
    place: Place,
    event_type: str,
    removed: Sequence[TableFile],
    written: Sequence[Written],
    *,
    marks: Mapping[str, int],
    data_change: bool,
) -> bool:
    """Put files in the place of others; False if one of these is not there any more."""

    def swap(table: DeltaTable, tag: Tag) -> bool:
        if not all_active(table, [file.path for file in removed]):
            return False
        commit_files(table, written, removed, tag=tag, marks=marks, data_change=data_change)
        return True

    return _settle(place, event_type, written, swap)


def _settle(
    place: Place,
    event_type: str,
    written: Sequence[Written],
    change: Callable[[DeltaTable, Tag], bool],
) -> bool:
    name, done = table_name(event_type), False

    def opened() -> DeltaTable:
        table = find(place, name)
        if table is None:
            raise LakeFailed(f"the table {place.table(name)} is gone")
        return table

    def decided(table: DeltaTable, tag: Tag) -> bool:
        nonlocal done
        done = True  # unless decided otherwise, on this version of the table
        done = change(table, tag)
        return done

    try:
        settle(place, name, decided, made=opened)
    except OutcomeUnknown:
        raise
    except LakeFailed:
        done = False
        raise
    finally:
        if not done:
            discard(place, [item.path for item in written], name)
    return done
