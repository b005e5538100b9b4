"""Lakes filled without Spark."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from deltalake import DeltaTable

from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Geometry
from aviso_server.core.notification import Entry, Notification, Record
from aviso_server.lake.commit import Committed, commit
from aviso_server.lake.files import FileWriter
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.record import records_to_batch
from aviso_server.lake.table import find

BEGIN_NS = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z."""


def record(
    sequence: int,
    event_type: str = "mars",
    *,
    ns: int | None = None,
    identifier: Mapping[str, str] | None = None,
    geometry: Geometry | None = None,
) -> Record:
    """A record whose time follows from its sequence unless it is given."""
    at = BEGIN_NS + sequence * 1_000_000_007 if ns is None else ns
    made = Notification(
        event_type, (event_type,), identifier or {}, geometry, b'{"n":%d}' % sequence
    )
    return Record(sequence, at, made)


def filled(
    place: Place, records: Sequence[Record], *, marks: Mapping[str, int] | None = None
) -> Committed:
    """Commit records, which ascend within each event type, as the archive job would."""
    writer = FileWriter(place)
    reached: dict[str, int] = {}
    if records:
        writer.write(records_to_batch(records))
    for item in records:
        reached[item.notification.event_type] = item.sequence
    return commit(place, writer.close(), {**reached, **(marks or {})})


def table_of(place: Place, name: str = NOTIFICATIONS) -> DeltaTable:
    """A table of the lake, which is there."""
    table = find(place, name)
    assert table is not None
    return table


def sequences(place: Place, event_type: str = "mars") -> list[int]:
    """Those that the lake has of an event type, hidden ones too, ascending."""
    rows = table_of(place).to_pyarrow_table(filters=[("event_type", "=", event_type)])
    return sorted(rows["sequence"].to_pylist())


async def everything(
    lake: Lake,
    event_type: str,
    *,
    span: tuple[int, int] = (1, 2**62),
    limit: int = 1000,
    wanted: Filter | None = None,
) -> list[Entry]:
    """All pieces of a range, one after the other."""
    found: list[Entry] = []
    first, last = span
    last = min(last, (await lake.bounds(event_type)).through)
    while first <= last:
        piece = await lake.read(event_type, first, last, limit=limit, wanted=wanted)
        assert piece.following > first
        assert all(first <= entry.sequence < piece.following for entry in piece.entries)
        found += piece.entries
        first = piece.following
    return found


def at_once(*works: Callable[[], object]) -> None:
    """Do them in threads that begin together; what fails in one of them is raised."""
    begin = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        begin.wait()
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        list(pool.map(run, works))
