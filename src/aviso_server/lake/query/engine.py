"""SQL over the tables of a lake by DuckDB, in this process: read-only, bounded, locked.

Theory of operation
DuckDB is given Arrow datasets of the Delta tables, and views over them that leave out what is
deleted. It asks them for the columns and rows that a query needs, and files and row groups that
cannot match are not opened. It cannot do anything else: files, network, extensions and Python's
variables are switched off, the configuration is locked, and only one statement that reads is run.
Credentials of an object store never reach it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from aviso_server.lake.layout import NOTIFICATIONS
from aviso_server.lake.query.views import LakeView, LakeViews, QueryFailed, quoted
from aviso_server.lake.tombstones import Intervals
from aviso_server.process import scratch_folder

FEW = 16
"""Hidden ranges that are compared one by one, which Arrow does while it reads; more are joined."""

BATCH_ROWS = 10_000

_LOCKS = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET TimeZone = 'UTC'",
    "SET enable_external_access = false",
)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What a query may use."""

    memory_bytes: int = 1 << 30
    """DuckDB's own; more of a sort or a join goes to disk, in a temporary folder."""
    threads: int = 2


@contextmanager
def connected(
    views: LakeViews, sql: str, options: EngineOptions
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that has the tables which a query names, and nothing else."""
    with scratch_folder("query") as folder, duckdb.connect(":memory:") as connection:
        connection.execute(f"SET memory_limit = '{options.memory_bytes}B'")
        connection.execute(f"SET threads = {options.threads}")
        connection.execute("SET temp_directory = $folder", {"folder": str(folder)})
        for number, view in enumerate(views.used(sql)):
            _add(connection, f"__{number}", view, views.hidden.hidden)
        for lock in _LOCKS:
            connection.execute(lock)
        connection.execute("SET lock_configuration = true")
        yield connection


@contextmanager
def ask(views: LakeViews, sql: str, options: EngineOptions) -> Iterator[pa.RecordBatchReader]:
    """The answer to a query, as it is worked out; QueryFailed, also while it is read."""
    with _explained(views, sql), connected(views, sql, options) as connection:
        _check(connection, sql)
        yield connection.sql(sql).to_arrow_reader(BATCH_ROWS)


def plan(views: LakeViews, sql: str, options: EngineOptions) -> str:
    """How a query would be answered."""
    with _explained(views, sql), connected(views, sql, options) as connection:
        _check(connection, sql)
        rows = connection.execute(f"EXPLAIN {sql}").fetchall()
        return "\n".join(str(row[1]) for row in rows)


def _check(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise QueryFailed(f"one query at a time, not {len(statements)}")
    if statements[0].type != duckdb.StatementType.SELECT:
        word = statements[0].type.name
        raise QueryFailed(f"the lake is read, never written: SELECT ..., not {word}")


def _add(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    view: LakeView,
    hidden: Mapping[str, Intervals],
) -> None:
    connection.register(name, view.table.to_pyarrow_dataset())
    rows = f"SELECT t.* FROM {name} t"  # noqa: S608 - a name of our own
    ranges = _ranges(view, hidden)
    if 0 < len(ranges) <= FEW:
        rows += f" WHERE {' AND '.join(_outside(view, *item) for item in ranges)}"
    elif ranges:
        kinds = pa.schema([("n", pa.string()), ("a", pa.int64()), ("z", pa.int64())])
        table = pa.table(list(zip(*ranges, strict=True)), names=kinds.names).cast(kinds)
        connection.register(f"{name}_hidden", table)
        same = "" if view.event_type is not None else "t.event_type = h.n AND "
        # Ranges do not overlap: only the last one that begins before a row can hold it.
        rows += (
            f" ASOF LEFT JOIN {name}_hidden h ON {same}t.sequence >= h.a"
            " WHERE h.z IS NULL OR t.sequence > h.z"
        )
    connection.execute(f"CREATE VIEW {quoted(view.name)} AS {rows}")


def _ranges(view: LakeView, hidden: Mapping[str, Intervals]) -> list[tuple[str, int, int]]:
    """What is hidden in a table, by event type."""
    if view.event_type is not None:
        ours = hidden.get(view.event_type, Intervals())
        return [(view.event_type, *pair) for pair in ours.pairs()]
    if view.name != NOTIFICATIONS:
        return []
    return [(name, *pair) for name, ranges in hidden.items() for pair in ranges.pairs()]


def _outside(view: LakeView, event_type: str, first: int, last: int) -> str:
    inside = f"t.sequence BETWEEN {first} AND {last}"
    if view.event_type is None:
        text = event_type.replace("'", "''")
        inside = f"t.event_type = '{text}' AND {inside}"
    return f"NOT ({inside})"


@contextmanager
def _explained(views: LakeViews, sql: str) -> Iterator[None]:
    """Errors of the engine in our words, with what the user may have meant."""
    try:
        yield
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        # The engine would suggest tables of its own catalogue.
        lines = [line for line in str(error).splitlines() if not line.startswith("Did you mean")]
        raise QueryFailed(f"{_joined(lines)}\n{views.hint(sql)}") from error
    except duckdb.PermissionException as error:
        raise QueryFailed(
            f"only tables of the lake can be read, no files\n{views.hint(sql)}"
        ) from error
    except duckdb.OutOfMemoryException as error:
        raise QueryFailed(f"the query needs more memory; --memory allows it: {error}") from error
    except duckdb.Error as error:
        raise QueryFailed(_joined(str(error).splitlines())) from error


def _joined(lines: list[str]) -> str:
    return "\n".join(line for line in lines if line.strip())
