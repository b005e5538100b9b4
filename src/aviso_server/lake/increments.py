"""Following a small table as it grows: only its new files are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from aviso_server.lake.layout import Place
from aviso_server.lake.storage import LakeFailed, opener
from aviso_server.lake.table import TABLES, find


def renew(place: Place, name: str, table: DeltaTable | None) -> DeltaTable | None:
    """The current table, or None if there is none yet."""
    if table is None:
        return find(place, name)
    try:
        table.update_incremental()
    except (DeltaError, OSError):
        # Its log may have been cleaned up past what we knew of it.
        return find(place, name)
    return table


@dataclass(frozen=True, slots=True)
class Increment:
    """The result of a refresh."""

    rows: pa.Table
    anew: bool
    """These are all rows, not only those since the look before."""
    over: bool = False
    """There are too many to keep, and ``rows`` has none of them."""


class Increments:
    """The rows of an append-only table, to be kept in memory."""

    def __init__(
        self, place: Place, name: str, columns: Sequence[str], *, most: int | None = None
    ) -> None:
        self._place = place
        self._most = most
        self._name = name
        self._schema = pa.schema([TABLES[name][0].field(column) for column in columns])
        self._table: DeltaTable | None = None
        self._version = -1
        self._known: frozenset[str] = frozenset()

    @property
    def table(self) -> DeltaTable | None:
        """The table as last seen."""
        return self._table

    def look(self) -> Increment | None:
        """New rows; None where nothing changed."""
        self._table = renew(self._place, self._name, self._table)
        if self._table is None or self._table.version() == self._version:
            return None
        actions = pa.table(self._table.get_add_actions())
        sizes = dict(
            zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
        )
        paths = frozenset(sizes)
        over = self._most is not None and (pc.sum(actions["num_records"]).as_py() or 0) > self._most
        anew = over or not self._known <= paths
        if over:
            rows, paths = self.nothing(), frozenset(("",))  # another look reads everything
        else:
            new = paths if anew else paths - self._known
            rows = self._read({path: sizes[path] for path in sorted(new)})
        self._version, self._known = self._table.version(), paths
        return Increment(rows, anew, over)

    def nothing(self) -> pa.Table:
        """A table without rows."""
        return self._schema.empty_table()

    def _read(self, sizes: Mapping[str, int]) -> pa.Table:
        source = opener(self._place, self._name)
        names = self._schema.names
        try:
            tables = [
                pq.read_table(source(unquote(path), size), columns=names, partitioning=None)
                for path, size in sizes.items()
            ]
        except (OSError, ValueError) as error:
            table = self._place.table(self._name)
            raise LakeFailed(f"cannot read a file of {table}: {error}") from error
        return pa.concat_tables([table.cast(self._schema) for table in tables] or [self.nothing()])
