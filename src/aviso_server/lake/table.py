"""The Delta tables of a lake: opened, created, and extended by the columns we write."""

from collections.abc import Mapping

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


def find(place: Place, name: str) -> DeltaTable | None:
    """The current table, or None before anything was written to it."""
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
    table = opened or find(place, name) or _create(place, name, schema, partition)
    known = {field.name: field.type for field in table.schema().fields}
    wanted = Schema.from_arrow(schema)
    for field in wanted.fields:
        if field.name in known and known[field.name] != field.type:
            raise LakeFailed(
                f"column '{field.name}' of {place.table(name)} is {known[field.name]}, "
                f"this version writes {field.type}; use another lake.path"
            )
    missing = [field for field in wanted.fields if field.name not in known]
    return _extend(place, name, table, missing) if missing else table


def _extend(place: Place, name: str, table: DeltaTable, missing: list[Field]) -> DeltaTable:
    cause: Exception | None = None
    try:
        # Existing rows have no value for them.
        table.alter.add_columns([Field(f.name, f.type, nullable=True) for f in missing])
    except (DeltaError, OSError) as error:
        cause = error  # or another writer was faster: the table decides
    fresh = find(place, name)
    there = set() if fresh is None else {field.name for field in fresh.schema().fields}
    if fresh is None or not there.issuperset(field.name for field in missing):
        raise LakeFailed(f"cannot add columns to {place.table(name)}: {cause}") from cause
    return fresh


def _create(place: Place, name: str, schema: pa.Schema, partition: tuple[str, ...]) -> DeltaTable:
    configuration = {"delta.logRetentionDuration": f"interval {LOG_KEPT.days} days"}
    if name == NOTIFICATIONS:
        configuration["delta.dataSkippingStatsColumns"] = ",".join(STATISTICS)
    cause: Exception | None = None
    try:
        DeltaTable.create(
            place.table(name),
            schema,
            mode="ignore",
            partition_by=list(partition),
            name=f"aviso_{name}",
            configuration=configuration,
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
