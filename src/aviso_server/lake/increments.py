"""Following a small table as it grows: only its new files are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from aviso_server.lake.follow import Advanced, Commit, Follower, Opened
from aviso_server.lake.layout import Place
from aviso_server.lake.storage import LakeFailed, opener
from aviso_server.lake.table import TABLES


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
        self._follower = Follower(place, name)
        self._table: DeltaTable | None = None
        self._count = 0

    @property
    def table(self) -> DeltaTable | None:
        """The table as last opened: of this version, if there are too many rows to keep."""
        return self._table

    def look(self) -> Increment | None:
        """New rows; None where nothing changed."""
        try:
            match self._follower.look():
                case Opened(DeltaTable() as table):
                    return self._all(table)
                case Advanced(commits):
                    return self._more(commits)
                case _:
                    return None
        except BaseException:
            self._follower.forget()  # what was not taken must not count as seen
            raise

    def nothing(self) -> pa.Table:
        """A table without rows."""
        return self._schema.empty_table()

    def _all(self, table: DeltaTable) -> Increment:
        self._table = table
        actions = pa.table(table.get_add_actions())
        self._count = pc.sum(actions["num_records"]).as_py() or 0
        if self._over:
            return Increment(self.nothing(), anew=True, over=True)
        paths, sizes = actions["path"].to_pylist(), actions["size_bytes"].to_pylist()
        return Increment(self._read(dict(zip(paths, sizes, strict=True))), anew=True)

    def _more(self, commits: Sequence[Commit]) -> Increment | None:
        added = {file.path: file.size for commit in commits for file in commit.added}
        gone = any(commit.removed for commit in commits)
        if not gone and not self._over:
            rows = self._read(added)
            self._count += rows.num_rows
            if not self._over:
                return Increment(rows, anew=False)
        self._follower.forget()
        return self.look()

    @property
    def _over(self) -> bool:
        return self._most is not None and self._count > self._most

    def _read(self, sizes: Mapping[str, int]) -> pa.Table:
        source = opener(self._place, self._name)
        names = self._schema.names
        try:
            tables = [
                pq.read_table(source(unquote(path), size), columns=names, partitioning=None)
                for path, size in sorted(sizes.items())
            ]
        except (OSError, ValueError) as error:
            table = self._place.table(self._name)
            raise LakeFailed(f"cannot read a file of {table}: {error}") from error
        return pa.concat_tables([table.cast(self._schema) for table in tables] or [self.nothing()])
