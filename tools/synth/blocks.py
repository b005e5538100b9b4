"""Blocks of a synthetic history: notifications that are announced together.

All notifications of a block share their identifier and place and follow each other within minutes:
the fields of one forecast step, the bulletins about one storm. A block costs some microseconds, a
row of it a small part of one, which is what makes a million of them quick.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aviso_server.core.geometry import Geometry
from aviso_server.lake import wkb
from aviso_server.lake.layout import BOX, TEXTS

Ints: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
Floats: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"

_SHARED = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("subject", pa.string()),
        pa.field("identifier", TEXTS),
        pa.field("prefix", pa.string()),
        pa.field("geometry", pa.binary()),
        *(pa.field(name, pa.float64()) for name in BOX),
    ]
)
"""What the rows of a block have in common; ``prefix`` is the beginning of their payload."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks of one event type."""

    start_ns: Ints
    """When the first notification is stored, since the epoch."""
    spread_ns: Ints
    """How long it takes until the last one is."""
    weight: Ints
    """Notifications of an ordinary day that belong to it."""
    shared: pa.Table

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, rows: Ints) -> "Blocks":
        """Some of the blocks, in the order asked for."""
        return Blocks(
            self.start_ns[rows],
            self.spread_ns[rows],
            self.weight[rows],
            self.shared.take(pa.array(rows)),
        )


def together(several: Sequence[Blocks]) -> Blocks:
    """All of them."""
    return Blocks(
        np.concatenate([blocks.start_ns for blocks in several]),
        np.concatenate([blocks.spread_ns for blocks in several]),
        np.concatenate([blocks.weight for blocks in several]),
        pa.concat_tables([blocks.shared for blocks in several]),
    )


def shared(
    fields: Mapping[str, pa.Array],
    *,
    topic: Sequence[str],
    prefix: pa.Array,
    places: Sequence[Geometry] | None = None,
) -> pa.Table:
    """What blocks share, from the texts of their fields; ``topic`` is its base and field names."""
    base, *order = topic
    tokens = [fields[name] for name in order]
    count = len(prefix)
    shown = pc.binary_join_element_wise(base, *tokens, ".")
    escaped = [pc.replace_substring(token, ".", "%2E") for token in tokens]
    wire = pc.binary_join_element_wise(base, *escaped, ".")
    subject = pc.if_else(pc.equal(shown, wire), pa.scalar(None, pa.string()), wire)
    where = [pa.nulls(count, pa.binary()), *(pa.nulls(count, pa.float64()) for _ in BOX)]
    if places is not None:
        boxes = [place.box for place in places]
        where = [pa.array([wkb.encode(place) for place in places], pa.binary())]
        where += [pa.array([getattr(box, name) for box in boxes], pa.float64()) for name in BOX]
    identifier = map_of({name: fields[name] for name in sorted(fields)})
    columns = [shown, subject, identifier, prefix, *where]
    return pa.Table.from_arrays(columns, schema=_SHARED)


def map_of(columns: Mapping[str, pa.Array]) -> pa.MapArray:
    """A map column whose rows all have the same keys, in the order given."""
    count, width = len(next(iter(columns.values()))), len(columns)
    keys = pa.array(list(columns) * count, pa.string())
    stacked = pa.concat_arrays(list(columns.values()))
    order = np.arange(width * count).reshape(width, count).T.ravel()
    offsets = pa.array(np.arange(0, width * count + 1, width, dtype=np.int32))
    return pa.MapArray.from_arrays(offsets, keys, stacked.take(pa.array(order)), type=TEXTS)


def pick(texts: Sequence[str], which: Ints) -> pa.Array:
    """Texts by number."""
    return pa.array(list(texts), pa.string()).take(pa.array(which))


def same(text: str, count: int) -> pa.Array:
    """One text many times."""
    return pa.array([text] * count, pa.string())
