"""The files of the notifications table in memory: which of them can hold what is asked for.

The index is a value of one version of the table. Making it costs a few arrays; looking something up
does not depend on how many files there are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from aviso_server.core.mark import Mark
from aviso_server.lake.layout import BOX
from aviso_server.lake.marks import read_mark
from aviso_server.lake.ranges import EVERYWHERE, MOST, Floats, Ints, Ranges

UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Files:
    """The files of one event type, sorted by first sequence."""

    paths: pa.StringArray
    """Below the table's folder, as URLs."""
    sizes: Ints
    """In bytes."""
    days: pa.Date32Array
    rows: Ints
    """UNKNOWN of a file whose writer did not count them."""
    ranges: Ranges

    def path(self, number: int) -> str:
        """The path of a file."""
        return unquote(self.paths[number].as_py())

    def size(self, number: int) -> int:
        """The size of a file, in bytes."""
        return int(self.sizes[number])


class FileIndex:
    """The files of a version of the table."""

    def __init__(self, table: DeltaTable | None) -> None:
        self.version = -1 if table is None else table.version()
        self._table = table
        self._files: Mapping[str, Files] = {} if table is None else _files(table)
        self._marks: dict[str, Mark] = {}

    @property
    def event_types(self) -> list[str]:
        """Event types with files."""
        return sorted(self._files)

    def files(self, event_type: str) -> Files | None:
        """The files of an event type; None where there are none."""
        return self._files.get(event_type)

    def mark(self, event_type: str) -> Mark:
        """How far an event type is archived; to be asked before the table moves on."""
        known = self._marks.get(event_type)
        if known is None:
            known = self._marks[event_type] = read_mark(self._table, event_type)
        return known


def _files(table: DeltaTable) -> dict[str, Files]:
    actions = pa.table(table.get_add_actions(flatten=True))
    if actions.num_rows == 0:
        return {}
    actions = actions.combine_chunks()
    names = actions["partition.event_type"].combine_chunks().dictionary_encode()
    codes = np.asarray(names.indices)
    first = _ints(actions, "min.sequence", 0)
    order = np.lexsort((first, codes))
    begins = np.searchsorted(codes[order], np.arange(len(names.dictionary) + 1))
    return {
        name: _of(actions, order[begins[code] : begins[code + 1]])
        for code, name in enumerate(names.dictionary.to_pylist())
    }


def _of(actions: pa.Table, rows: Ints) -> Files:
    ours = actions.take(pa.array(rows))
    return Files(
        ours["path"].combine_chunks(),
        _ints(ours, "size_bytes", 0),
        ours["partition.day"].cast(pa.date32()).combine_chunks(),
        _ints(ours, "num_records", UNKNOWN),
        Ranges(
            _ints(ours, "min.sequence", 0),
            _ints(ours, "max.sequence", MOST),
            _ints(ours, "min.time_ns", -MOST),
            _ints(ours, "max.time_ns", MOST),
            _boxes(ours),
        ),
    )


def _ints(actions: pa.Table, name: str, unknown: int) -> Ints:
    """A column of statistics; a file without them can hold anything."""
    if name not in actions.column_names:
        return np.full(actions.num_rows, unknown, np.int64)
    return np.asarray(pc.fill_null(actions[name].cast(pa.int64()), unknown), np.int64)


def _boxes(actions: pa.Table) -> Floats:
    boxes: Floats = np.empty((actions.num_rows, len(BOX)), np.float64)
    for place, name in enumerate(BOX):
        column = f"{name[:3]}.{name}"
        unknown = EVERYWHERE[place]
        if column not in actions.column_names:
            boxes[:, place] = unknown
            continue
        told = np.asarray(pc.fill_null(actions[column], unknown), np.float64)
        # No lowest latitude in as many nulls as there are rows: no places, rather than unknown.
        nulls = _ints(actions, f"null_count.{name}", 0)
        nowhere = (nulls > 0) & (nulls == _ints(actions, "num_records", UNKNOWN))
        boxes[:, place] = np.where(nowhere, np.nan, told)
    return boxes
