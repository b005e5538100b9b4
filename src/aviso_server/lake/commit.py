"""Adding written files to the table: exactly once, whoever tries, however often.

Rules
- Each commit says, per event type, up to which sequence it considered the log (its *mark*), and
  carries that as an application transaction. Rows and marks become visible together.
- Only what lies above the marks in the table is added. A batch that was committed before adds
  nothing; one that overlaps (a checkpoint was lost, a second job ran) is cut at the mark.
- Delta refuses a commit if a transaction of the same name was committed since the table was
  looked at. Then the table is looked at again, and the rules above decide anew.

So the archive holds each sequence once even if Spark's checkpoint is lost altogether.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from aviso_server.lake.files import Written, remove, trimmed
from aviso_server.lake.layout import NOTIFICATIONS, PARTITION, Place
from aviso_server.lake.marks import read_mark, transactions
from aviso_server.lake.storage import LakeFailed, files
from aviso_server.lake.table import ensure

ATTEMPTS = 10
"""Times a commit is tried when others commit at the same moment."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit added."""

    version: int
    """Of the table afterwards."""
    rows: int
    """How many notifications were added; 0 when all of them were there already."""


def commit(place: Place, written: Sequence[Written], marks: Mapping[str, int]) -> Committed:
    """Add what is new of these files; ``marks`` tell how far each event type was considered."""
    table = ensure(place, NOTIFICATIONS)
    for _ in range(ATTEMPTS):
        through = {name: archived_through(table, name) for name in marks}
        fresh = {name: upto for name, upto in marks.items() if upto > through[name]}
        written = _above(place, written, through)
        if not fresh:
            return Committed(table.version(), 0)
        try:
            _add(table, written, fresh)
        except CommitFailedError:
            table.update_incremental()
            continue
        except (DeltaError, OSError) as error:
            raise LakeFailed(f"cannot commit to {place.table(NOTIFICATIONS)}: {error}") from error
        table.update_incremental()
        return Committed(table.version(), sum(item.rows for item in written))
    raise LakeFailed(
        f"others commit to {place.table(NOTIFICATIONS)} all the time; is a second "
        "archive job running?"
    )


def archived_through(table: DeltaTable, event_type: str) -> int:
    """The sequence up to which an event type is archived, 0 before its first commit."""
    return read_mark(table, event_type).through


def _above(place: Place, written: Sequence[Written], through: Mapping[str, int]) -> list[Written]:
    """The files without what the table has already; those left out are removed."""
    kept: list[Written] = []
    for item in written:
        known = through.get(item.event_type, 0)
        if item.last <= known:
            remove(files(place, NOTIFICATIONS), [item.path])
        elif item.first <= known:
            kept += trimmed(place, item, known)
        else:
            kept.append(item)
    return kept


def _add(table: DeltaTable, written: Sequence[Written], marks: Mapping[str, int]) -> None:
    now_ms = time.time_ns() // 1_000_000
    table.create_write_transaction(
        [
            AddAction(
                path=item.path,
                size=item.size,
                partition_values={"event_type": item.event_type, "day": item.day.isoformat()},
                modification_time=now_ms,
                data_change=True,
                stats=item.statistics,
            )
            for item in written
        ],
        mode="append",
        schema=table.schema(),
        partition_by=list(PARTITION),
        commit_properties=CommitProperties(
            # Retrying inside delta-rs would not look at the marks again.
            max_commit_retries=0,
            app_transactions=[Transaction(*item) for item in transactions(marks, written).items()],
        ),
    )
