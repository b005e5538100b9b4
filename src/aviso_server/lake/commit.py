"""Adding written files to the table exactly once, whichever job tries and however often.

Rules
- Each commit says, per event type, up to which sequence it considered the log (its *mark*), and
  carries that as an application transaction. Rows and marks become visible together.
- Only rows above the marks in the table are added. A batch that was committed before adds nothing;
  one that overlaps (a checkpoint was lost, a second job ran) is cut at the mark.
- Delta refuses a commit if anything was committed since the table was read. Then the table is read
  again, and the rules above applied again (outcome.py).

So the archive holds each sequence once even if Spark's checkpoint is lost altogether.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from aviso_server.lake.files import Written, trim
from aviso_server.lake.inventory import TableFile
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.marks import read_mark, transactions
from aviso_server.lake.outcome import OutcomeUnknown, Tag, after_commit, discard, settle
from aviso_server.lake.storage import LakeFailed


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit added."""

    version: int
    """Of the table afterwards."""
    rows: int
    """How many notifications were added; 0 when all of them were there already."""


def commit(place: Place, written: Sequence[Written], marks: Mapping[str, int]) -> Committed:
    """Add what is new of these files; ``marks`` say how far each event type was considered.

    LakeFailed, and then nothing was added, or OutcomeUnknown.
    """
    kept, spare = list(written), list[str]()

    def add(table: DeltaTable, tag: Tag) -> bool:
        nonlocal kept
        through = {name: archived_through(table, name) for name in marks}
        fresh = {name: upto for name, upto in marks.items() if upto > through[name]}
        known = {item.path for item in kept}
        kept = _above(place, kept, through) if fresh else []
        spare.extend(known - {item.path for item in kept})
        if fresh:
            commit_files(table, kept, tag=tag, marks=transactions(fresh, kept))
        return bool(fresh)

    try:
        version = settle(place, NOTIFICATIONS, add)
    except OutcomeUnknown:
        raise
    except LakeFailed:
        discard(place, [*spare, *(item.path for item in kept)])
        raise
    discard(place, spare)
    return Committed(version, sum(item.rows for item in kept))


def archived_through(table: DeltaTable, event_type: str) -> int:
    """The sequence up to which an event type is archived, 0 before its first commit."""
    return read_mark(table, event_type).through


def _above(place: Place, written: Sequence[Written], through: Mapping[str, int]) -> list[Written]:
    """The files without what the table has already."""
    kept: list[Written] = []
    for item in written:
        known = through.get(item.event_type, 0)
        if item.first > known:
            kept.append(item)
        elif item.last > known:
            kept += trim(place, item, known)
    return kept


def commit_files(
    table: DeltaTable,
    written: Sequence[Written],
    removed: Iterable[TableFile] = (),
    *,
    tag: Tag,
    marks: Mapping[str, int] | None = None,
    data_change: bool = True,
) -> None:
    """Add files to a version of a table and remove others; ``marks`` are transactions."""
    now_ms = time.time_ns() // 1_000_000
    partition = table.metadata().partition_columns

    def values(file: Written | TableFile) -> dict[str, str | None]:
        return {name: str(getattr(file, name)) for name in partition}

    actions: list[AddAction | RemoveAction] = [
        # delta-rs encodes the paths of removals itself, but not those of additions.
        RemoveAction(file.name, data_change, now_ms, file.size, values(file))
        for file in removed
    ]
    actions += [
        AddAction(
            path=item.path,
            size=item.size,
            partition_values=values(item),
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
        partition_by=partition,
        commit_properties=tag.properties(marks),
        post_commithook_properties=after_commit(table),
    )
