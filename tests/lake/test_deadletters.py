"""Dead letters are written once and come back in their place."""

import pyarrow as pa
from deltalake import DeltaTable

from aviso_server.core.notification import Unreadable
from aviso_server.lake.deadletters import DeadLetterTable, append_dead_letters, unreadable
from aviso_server.lake.layout import DEAD_LETTER_TABLE, DEAD_LETTERS, Place


def letters(event_type: str, *sequences: int) -> pa.Table:
    """Rows as the archive job hands them over."""
    rows = [
        {"event_type": event_type, "sequence": n, "time_ns": n, "subject": "a.b", "problem": "why"}
        for n in sequences
    ]
    return pa.Table.from_pylist(rows, DEAD_LETTER_TABLE)


def test_letters_are_written_once(place: Place) -> None:
    """A batch that is tried again adds nothing; one that goes further adds what is new."""
    both = pa.concat_tables([letters("mars", 1, 4), letters("diss", 2)])
    assert append_dead_letters(place, both) == 3
    assert append_dead_letters(place, both) == 0
    assert append_dead_letters(place, letters("mars", 4, 5)) == 1
    assert append_dead_letters(place, letters("mars")) == 0
    rows = DeltaTable(place.table(DEAD_LETTERS)).to_pyarrow_table()
    assert sorted(zip(*(rows[n].to_pylist() for n in ("event_type", "sequence")), strict=True)) == [
        ("diss", 2),
        ("mars", 1),
        ("mars", 4),
        ("mars", 5),
    ]


def test_letters_are_found_by_range(place: Place) -> None:
    """Each look sees what was written before it."""
    seen = DeadLetterTable(place)
    assert seen.look().rows("mars", 1, 9) is None
    append_dead_letters(place, letters("mars", 1, 4, 7))
    append_dead_letters(place, letters("diss", 5))
    found = seen.look()
    assert found.rows("mars", 5, 6) is None
    assert unreadable(found.rows("mars", 2, 7)) == [
        Unreadable(4, 4, "a.b", "why"),
        Unreadable(7, 7, "a.b", "why"),
    ]
    append_dead_letters(place, letters("mars", 9))
    rows = seen.look().rows("mars", 1, 99)
    assert rows is not None
    assert rows["sequence"].to_pylist() == [1, 4, 7, 9]
