"""Replacing files of the table: safe beside whoever else commits to it.

Rules
- A commit is made on exactly the version that was looked at. Delta refuses it if anything was
  committed since; then the table is looked at again.
- It is only tried again if every file to be removed is still part of the table. One that is not was
  replaced by somebody else, and adding our copy of its rows would double them.
- Appends of the archive job never remove anything, so they only make a commit be tried again; and
  its marks are in the table's log, which no removal touches.
"""

import time
from collections.abc import Iterable, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from aviso_server.core.errors import AvisoError
from aviso_server.lake.files import Written
from aviso_server.lake.layout import NOTIFICATIONS, PARTITION, Place
from aviso_server.lake.storage import LakeFailed
from aviso_server.pipeline.inventory import File

ATTEMPTS = 50
"""Times a commit is tried when others commit at the same moment."""


class Overtaken(AvisoError):
    """Somebody else has replaced one of the files; nothing was done."""


class Ledger:
    """The table's log, to be written to."""

    def __init__(self, place: Place, table: DeltaTable) -> None:
        self._place = place
        self._table = table
        self._active = _paths(table)

    def replace(
        self, removed: Iterable[File], written: Sequence[Written], *, data_change: bool
    ) -> None:
        """Put files in the place of others, in one commit; Overtaken if they are there no more."""
        gone = list(removed)
        for _ in range(ATTEMPTS):
            if not self._active.issuperset(file.path for file in gone):
                raise Overtaken("somebody else has replaced some of the files")
            try:
                self._commit(gone, written, data_change=data_change)
            except CommitFailedError:
                self._look()
                continue
            except (DeltaError, OSError) as error:
                raise LakeFailed(f"cannot commit to {self._address}: {error}") from error
            self._look()
            return
        raise LakeFailed(f"others commit to {self._address} all the time")

    @property
    def _address(self) -> str:
        return self._place.table(NOTIFICATIONS)

    def _look(self) -> None:
        try:
            self._table.update_incremental()
        except (DeltaError, OSError) as error:
            raise LakeFailed(f"cannot read {self._address}: {error}") from error
        self._active = _paths(self._table)

    def _commit(
        self, removed: Sequence[File], written: Sequence[Written], *, data_change: bool
    ) -> None:
        now_ms = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [
            # Of removals delta-rs spells the path itself, unlike that of additions.
            RemoveAction(
                file.name, data_change, now_ms, file.size, _values(file.event_type, file.day)
            )
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
        self._table.create_write_transaction(
            actions,
            mode="append",
            schema=self._table.schema(),
            partition_by=list(PARTITION),
            # Retrying inside delta-rs would not see that files were replaced.
            commit_properties=CommitProperties(max_commit_retries=0),
        )


def _paths(table: DeltaTable) -> set[str]:
    return set(pa.table(table.get_add_actions())["path"].to_pylist())


def _values(event_type: str, day: object) -> dict[str, str | None]:
    return {"event_type": event_type, "day": str(day)}
