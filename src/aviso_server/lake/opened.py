"""Tables that stay open between changes: bringing one up to date is cheaper than opening it.

A change decides by what it reads in a table and commits on exactly that version, so nobody else may
bring the table up to date meanwhile: it is taken away while it is used, and handed back afterwards.
Whoever finds none opens another one.
"""

import contextlib
import threading
from typing import NamedTuple

from cachetools import LRUCache
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from aviso_server.lake.layout import Place
from aviso_server.lake.storage import LakeFailed, Stamp, commit_file, stamps

TABLES = 8
"""Tables that a process keeps."""


class _Kept(NamedTuple):
    table: DeltaTable
    made: Stamp
    """The commit that made its version."""


_kept: LRUCache[str, _Kept] = LRUCache(TABLES)
_lock = threading.Lock()


def take_open(place: Place, name: str) -> DeltaTable | None:
    """The newest version of a table that was kept, for the caller alone; None if there is none, or
    if it is another table by now."""
    with _lock:
        kept = _kept.pop(_key(place, name), None)
    if kept is None:
        return None
    try:
        # A table that was removed or restored would still look unchanged.
        if _made(place, name, kept.table) != kept.made:
            return None
        kept.table.update_incremental()
    except (LakeFailed, DeltaError, OSError):
        return None  # opening it says what is wrong
    return kept.table


def keep_open(place: Place, name: str, table: DeltaTable) -> None:
    """Hand a table back; never fails, since what was done with the table is done."""
    made = None
    with contextlib.suppress(LakeFailed):
        made = _made(place, name, table)
    if made is not None:
        with _lock:
            _kept[_key(place, name)] = _Kept(table, made)


def _made(place: Place, name: str, table: DeltaTable) -> Stamp | None:
    return stamps(place, name, [commit_file(table.version())])[0]


def _key(place: Place, name: str) -> str:
    return repr((place.table(name), sorted(place.options.items())))
