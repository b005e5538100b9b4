"""The typed table of an event type: where it is, made, and evolved with the schema.

Rules (docs/jobs/tables.md#how-tables-follow-the-schema)
- A new field is a new column; older rows have no value in it.
- A field that is gone keeps its column, which has no values from then on.
- A field of another type gets a column of its own beside the old one. Nothing is written again.
- Descriptions are comments of columns, and follow the schema.
"""

import hashlib
import re
from collections.abc import Sequence

import pyarrow.fs as pa_fs
from deltalake import DeltaTable, Schema
from deltalake import Field as DeltaField
from deltalake.exceptions import DeltaError

from aviso_server.core.schema import NAME
from aviso_server.core.schema import Schema as EventTypeSchema
from aviso_server.lake.layout import Place
from aviso_server.lake.storage import LakeFailed, files
from aviso_server.lake.table import About, create, extend, find
from aviso_server.lake.typed.columns import COMMENT, DAY, TypedColumn, columns_of, fit

FOLDER = "tables"
"""Where they are in the lake."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def table_name(event_type: str) -> str:
    """The folder of an event type's table, below the lake; safe for any name."""
    if NAME.fullmatch(event_type):
        return f"{FOLDER}/{event_type}"
    digest = hashlib.sha256(event_type.encode()).hexdigest()[:12]
    return f"{FOLDER}/{_UNSAFE.sub('_', event_type)}.{digest}"


def ensure_table(place: Place, schema: EventTypeSchema) -> tuple[DeltaTable, list[TypedColumn]]:
    """The table as the schema wants it, and the columns that the schema's fields have in it."""
    name, wanted = table_name(schema.event_type), columns_of(schema)
    table = find(place, name)
    if table is None:
        table = create(
            place,
            name,
            Schema([column.delta() for column in wanted]),
            (DAY,),
            About(
                schema.event_type,
                f"Notifications of {schema.event_type}, one column for each field",
                {"delta.dataSkippingNumIndexedCols": "-1"},  # statistics on all of them
            ),
        )
    columns = fit(wanted, table.schema().fields)
    there = {item.name for item in table.schema().fields}
    if missing := [item.delta() for item in columns if item.name not in there]:
        table = extend(place, name, table, missing)
    return _describe(place, name, table, columns), columns


def table_names(place: Place) -> list[str]:
    """The folders of the typed tables that are there, below the lake."""
    selector = pa_fs.FileSelector(FOLDER, allow_not_found=True)
    found = files(place, "").get_file_info(selector)
    folders = (info for info in found if info.type is pa_fs.FileType.Directory)
    return sorted(f"{FOLDER}/{info.base_name}" for info in folders)


def event_type_of(table: DeltaTable) -> str:
    """The event type whose table it is."""
    return table.metadata().name or ""


def _describe(
    place: Place, name: str, table: DeltaTable, columns: Sequence[TypedColumn]
) -> DeltaTable:
    """Comments as the schema has them now."""
    known: dict[str, DeltaField] = {item.name: item for item in table.schema().fields}
    stale = [c for c in columns if known[c.name].metadata.get(COMMENT, "") != c.comment]
    if not stale:
        return table
    try:
        for column in stale:
            table.alter.set_column_metadata(column.name, {COMMENT: column.comment})
    except (DeltaError, OSError) as error:
        raise LakeFailed(f"cannot describe {place.table(name)}: {error}") from error
    return find(place, name) or table
