"""The Delta tables of a lake: opened, created, and extended by the columns we write."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from aviso_server.lake.layout import (
    DEAD_LETTER_TABLE,
    DEAD_LETTERS,
    LOG_KEPT,
    NOTIFICATION_TABLE,
    NOTIFICATIONS,
    PARTITION,
    TOMBSTONE_TABLE,
    TOMBSTONES,
    Place,
)
from aviso_server.lake.storage import LakeFailed

TABLES: Mapping[str, tuple[pa.Schema, tuple[str, ...]]] = {
    NOTIFICATIONS: (NOTIFICATION_TABLE, PARTITION),
    DEAD_LETTERS: (DEAD_LETTER_TABLE, ()),
    TOMBSTONES: (TOMBSTONE_TABLE, ()),
}
"""Columns and partitioning of every table."""

STATISTICS = (
    "sequence",
    "time",
    "time_ns",
    "min_lat",
    "min_lon",
    "max_lat",
    "max_lon",
)
"""What files are pruned by; other columns have no useful order."""


UNUSABLE = frozenset("[]^|%")
"""delta-rs 1.6.6 makes the name of a host of a path when it writes rows, compacts or deletes, and
panics at these; it takes ``%20`` for a blank when it reads, and not when it writes."""

RETENTION = "delta.logRetentionDuration"
_KEPT = f"interval {LOG_KEPT.days} days"
_KEPT_BEFORE = "interval 30 days"
"""What tables were made with once; one that somebody chose is left alone."""


def find(place: Place, name: str) -> DeltaTable | None:
    """The current table, or None before anything was written to it."""
    if bad := sorted(UNUSABLE.intersection(place.path)):
        raise LakeFailed(
            f"the path of the lake must not have {' '.join(bad)} in it, with which delta-rs writes "
            f"some tables and not others: {place.path}. Rename the folder"
        )
    try:
        return DeltaTable(place.table(name), storage_options=dict(place.options))
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise LakeFailed(f"cannot open the table {place.table(name)}: {error}") from error


def ensure(place: Place, name: str, opened: DeltaTable | None = None) -> DeltaTable:
    """The table, made if it is not there; columns that are new since it was made are added.

    It is opened unless it is given.
    """
    schema, partition = TABLES[name]
    table = opened or find(place, name) or _make(place, name, schema, partition)
    known = {item.name: item.type for item in table.schema().fields}
    wanted = Schema.from_arrow(schema)
    for item in wanted.fields:
        if item.name in known and known[item.name] != item.type:
            raise LakeFailed(
                f"column '{item.name}' of {place.table(name)} is {known[item.name]}, "
                f"this version writes {item.type}; use another lake.path"
            )
    missing = [item for item in wanted.fields if item.name not in known]
    if missing:
        table = extend(place, name, table, missing)
    if table.metadata().configuration.get(RETENTION) == _KEPT_BEFORE:
        _shorten(table)
    return table


def _shorten(table: DeltaTable) -> None:
    """Have the log of a table of an earlier version kept as long as that of a new one."""
    # Refused because another writer was faster, it is left to the next one who comes.
    with contextlib.suppress(DeltaError, OSError):
        table.alter.set_table_properties({RETENTION: _KEPT})


def extend(place: Place, name: str, table: DeltaTable, missing: Sequence[Field]) -> DeltaTable:
    """The table with further columns; LakeFailed if they cannot be added."""
    cause: Exception | None = None
    try:
        # Existing rows have no value for them.
        table.alter.add_columns(
            [Field(f.name, f.type, nullable=True, metadata=f.metadata) for f in missing]
        )
    except (DeltaError, OSError) as error:
        cause = error  # or another writer was faster: the table decides
    fresh = find(place, name)
    there = set() if fresh is None else {item.name for item in fresh.schema().fields}
    if fresh is None or not there.issuperset(item.name for item in missing):
        raise LakeFailed(f"cannot add columns to {place.table(name)}: {cause}") from cause
    return fresh


def _make(place: Place, name: str, schema: pa.Schema, partition: tuple[str, ...]) -> DeltaTable:
    indexed = {"delta.dataSkippingStatsColumns": ",".join(STATISTICS)}
    about = About(f"aviso_{name}", configuration=indexed if name == NOTIFICATIONS else {})
    return create(place, name, Schema.from_arrow(schema), partition, about)


@dataclass(frozen=True, slots=True)
class About:
    """What a new table says of itself."""

    title: str
    description: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)


def create(
    place: Place, name: str, schema: Schema, partition: Sequence[str], about: About
) -> DeltaTable:
    """The table, made now unless another writer is faster; LakeFailed if it cannot be made."""
    kept = {RETENTION: _KEPT}
    cause: Exception | None = None
    try:
        DeltaTable.create(
            place.table(name),
            schema,
            mode="ignore",
            partition_by=list(partition),
            name=about.title,
            description=about.description,
            configuration={**kept, **about.configuration},
            storage_options=dict(place.options),
            # Otherwise delta-rs makes the table a second time, as its next version.
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except (DeltaError, OSError) as error:
        cause = error  # or another writer was faster, or it was done after all: the table decides
    table = find(place, name)
    if table is None:
        raise LakeFailed(f"cannot make the table {place.table(name)}: {cause}") from cause
    return table
