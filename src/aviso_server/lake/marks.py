"""The marks of the notifications table: how far each event type is archived, with the proof of it.

A mark consists of application transactions of the commit that reaches it, so it is visible together
with its rows or not at all, and outlives files and older commits. Their versions are whole numbers
of 64 bits: a sequence fits, and so does a time in nanoseconds.
"""

from collections.abc import Iterable, Mapping

from deltalake import DeltaTable

from aviso_server.core.mark import Mark
from aviso_server.lake.files import Written
from aviso_server.lake.layout import mark, mark_record, mark_time


def read_mark(table: DeltaTable | None, event_type: str) -> Mark:
    """The mark of an event type; all zero before its first commit."""
    if table is None:
        return Mark()
    return Mark(
        table.transaction_version(mark(event_type)) or 0,
        table.transaction_version(mark_record(event_type)) or 0,
        table.transaction_version(mark_time(event_type)) or 0,
    )


def transactions(marks: Mapping[str, int], written: Iterable[Written]) -> dict[str, int]:
    """The application transactions of a commit that reaches these marks with these files.

    If it has no notification of an event type, the proof of an earlier commit stays.
    """
    made = {mark(name): upto for name, upto in marks.items()}
    newest: dict[str, Written] = {}
    for file in written:
        known = newest.get(file.event_type)
        if known is None or file.last > known.last:
            newest[file.event_type] = file
    for name, file in newest.items():
        if name in marks:
            made[mark_record(name)] = file.last
            made[mark_time(name)] = file.last_ns
    return made
