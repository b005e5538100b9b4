"""All typed tables of a lake are followed, beside other work, and each fault stays alone."""

import threading
from pathlib import Path

from support.lake import filled, record, table_of
from support.typed import evolved

from aviso_server.core.fields.number import IntField
from aviso_server.core.fields.text import StringField
from aviso_server.core.schema import Schema
from aviso_server.lake.layout import Place
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.lake.typed.follow import TypedTables, following
from aviso_server.lake.typed.table import table_name

STEP = IntField(name="step", required=False)
MARS, OTHER = (Schema(name, (STEP,), base=name) for name in ("mars", "other"))


def test_what_needs_nothing_is_not_opened_again(place: Place) -> None:
    """Until rows, tombstones or the schema are new; event types without schema have no table."""
    filled(place, [record(1), record(1, "other"), record(1, "unknown")])
    tables = TypedTables(place)
    schemas = [MARS, OTHER, Schema("unknown", base="unknown", generic=True)]
    assert [item.updated.rows for item in tables.follow(schemas)] == [1, 1]
    assert [item.changed for item in tables.follow(schemas)] == [False, False]
    assert list(tables.follow(schemas)) == []
    filled(place, [record(2)])
    assert [item.updated.event_type for item in tables.follow(schemas)] == ["mars"]
    append_tombstones(place, [("other", 1, 1)], kind="deleted")
    assert [item.tidied.removed for item in tables.follow(schemas)] == [0, 1]
    list(tables.follow(schemas))
    assert list(tables.follow(schemas)) == []
    noted = evolved(OTHER, STEP, StringField(name="note", required=False))
    assert [item.updated.event_type for item in tables.follow([MARS, noted])] == ["other"]


def test_it_stops_between_two_steps(place: Place) -> None:
    """What was committed stays; the rest is done in the next pass."""
    filled(place, [record(1), record(1, "other")])
    tables = TypedTables(place)
    assert list(tables.follow([MARS, OTHER], stop=lambda: True)) == []
    assert [item.updated.rows for item in tables.follow([MARS, OTHER])] == [0, 1]


def test_beside_other_work(place: Place) -> None:
    """New rows arrive in the tables by themselves; what fails is said, and fails alone."""
    told = threading.Event()
    words: list[str] = []

    def tell(line: str) -> None:
        words.append(line)
        told.set()

    with following(place, [MARS, OTHER], tell=tell, pause_s=0.01):
        assert told.wait()  # there is no lake yet
        assert words[0].startswith("typed tables: there is no lake at")
        broken = Path(place.table(table_name("other"))) / "_delta_log"
        broken.mkdir(parents=True)
        (broken / "00000000000000000000.json").write_text("{not json")
        filled(place, [record(1), record(1, "other")])
        while not any(line.startswith("typed table of other: cannot open") for line in words):
            assert told.wait()
            told.clear()
    assert table_of(place, table_name("mars")).to_pyarrow_table()["sequence"].to_pylist() == [1]
