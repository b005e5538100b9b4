"""The tables of a lake as people ask for them: by name, and without what is deleted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from aviso_server.core.errors import AvisoError
from aviso_server.lake.layout import DEAD_LETTERS, NOTIFICATIONS, TOMBSTONES, Place
from aviso_server.lake.marks import read_mark
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.table import find
from aviso_server.lake.tombstones import Hidden, Tombstones
from aviso_server.lake.typed.columns import COMMENT
from aviso_server.lake.typed.table import event_type_of, table_names

SUFFIX = "_table"
"""Appended to the name of an event type that another table has already."""

FIXED: Mapping[str, str] = {
    NOTIFICATIONS: "every notification of every event type, identifiers as texts",
    DEAD_LETTERS: "stored messages that are not notifications, with the reason",
    TOMBSTONES: "what was deleted, wiped, or lost before it was archived",
}
"""Tables that every lake has, or may have."""


class QueryFailed(AvisoError):
    """A query cannot be answered; the message says why, and what there is to ask for."""


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column as it is listed."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True, slots=True)
class LakeView:
    """One table."""

    name: str
    """In SQL; compared ignoring case."""
    table: DeltaTable = field(repr=False, compare=False)
    about: str
    event_type: str | None = None
    """Of a typed table."""
    through: int = 0
    """Up to which sequence a typed table is complete."""
    behind: int = 0
    """How many sequences the lake has above that."""

    @property
    def rows(self) -> int:
        """How many there are, deleted ones included."""
        actions = pa.table(self.table.get_add_actions())
        return pc.sum(actions["num_records"]).as_py() or 0

    @property
    def columns(self) -> list[ShownColumn]:
        """In their order."""
        return [
            ShownColumn(item.name, _word(item.type), str(item.metadata.get(COMMENT, "")))
            for item in self.table.schema().fields
        ]


@dataclass(frozen=True, slots=True)
class LakeViews:
    """All tables of a lake, and what is hidden in them."""

    place: Place
    views: Mapping[str, LakeView]
    """By name in lower case."""
    hidden: Hidden

    def used(self, sql: str) -> Iterator[LakeView]:
        """The tables that a query may ask for: all whose names are in its text."""
        folded = sql.lower()
        # A name that has to be quoted may be spelt in more ways than one.
        for name, view in self.views.items():
            if name in folded or not name.isidentifier():
                yield view

    def hint(self, sql: str) -> str:
        """What there is to ask for; with columns of the tables that a query names."""
        names = ", ".join(quoted(view.name) for view in self.views.values())
        lines = [f"tables: {names}"]
        folded = sql.lower()
        for name, view in self.views.items():
            if name in folded:
                columns = ", ".join(column.name for column in view.columns)
                lines.append(f"columns of {quoted(view.name)}: {columns}")
        return "\n".join(lines)


def open_views(place: Place) -> LakeViews:
    """The tables as they are now; LakeFailed if there is no lake.

    Tombstones are read last: a deletion writes one before anything is removed.
    """
    whole = find(place, NOTIFICATIONS)
    if whole is None:
        raise LakeFailed(f"there is no lake at {place.path}: no table '{NOTIFICATIONS}' in it")
    views = {NOTIFICATIONS: LakeView(NOTIFICATIONS, whole, FIXED[NOTIFICATIONS])}
    for name in (DEAD_LETTERS, TOMBSTONES):
        if (table := find(place, name)) is not None:
            views[name] = LakeView(name, table, FIXED[name])
    for folder in table_names(place):
        if (table := find(place, folder)) is None:
            continue
        event_type = event_type_of(table)
        name = event_type
        while name.lower() in {*views, *FIXED}:
            name += SUFFIX
        through = read_mark(table, event_type).through
        behind = max(0, read_mark(whole, event_type).through - through)
        about = f"notifications of {event_type}, a column for each field"
        views[name.lower()] = LakeView(name, table, about, event_type, through, behind)
    typed = sorted(views, key=lambda name: (views[name].event_type is None, name))
    return LakeViews(place, {name: views[name] for name in typed}, Tombstones(place).look())


def quoted(name: str) -> str:
    """A name as SQL takes it, plain where it may be."""
    if name.isascii() and name.isidentifier():
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _word(kind: object) -> str:
    return str(getattr(kind, "type", kind))
