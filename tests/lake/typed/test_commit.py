"""Typed tables in an object store whose answers are lost: each row once, no committed file gone."""

from collections.abc import Iterator

import pyarrow.fs as pa_fs
import pytest
from support.farlake import FarLake, far_lakes
from support.lake import filled, record, table_of
from support.typed import updated

from aviso_server.core.fields.number import IntField
from aviso_server.core.schema import Schema
from aviso_server.lake.outcome import OutcomeUnknown
from aviso_server.lake.storage import files
from aviso_server.lake.typed.table import table_name, table_names

MARS = Schema("mars", (IntField(name="step", required=False),), base="mars")
NAME = table_name("mars")


@pytest.fixture(scope="module")
def lakes() -> Iterator[Iterator[FarLake]]:
    """Lakes in an object store of this module's own."""
    with far_lakes() as made:
        yield made


@pytest.fixture
def lake(lakes: Iterator[FarLake]) -> Iterator[FarLake]:
    """A lake with a typed table of one row, and a second notification."""
    lake = next(lakes)
    filled(lake.direct, [record(1, identifier={"step": "1"})])
    updated(lake.direct, MARS)
    filled(lake.direct, [record(2, identifier={"step": "2"})])
    yield lake
    lake.proxy.heal()


def _check(lake: FarLake) -> None:
    """Each row once, and every file of the table is there and no other."""
    table = table_of(lake.direct, NAME)
    assert sorted(table.to_pyarrow_table()["step"].to_pylist()) == [1, 2]
    found = files(lake.direct, NAME).get_file_info(pa_fs.FileSelector("", recursive=True))
    there = [info for info in found if info.path.endswith(".parquet")]
    assert len([info for info in there if "_delta_log" not in info.path]) == 2
    assert table_names(lake.direct) == [NAME]


def _commits(lake: FarLake) -> str:
    return f"PUT {lake.direct.path.removeprefix('s3:/')}/{NAME}/_delta_log/"


def test_a_commit_whose_answer_is_lost_is_done(lake: FarLake) -> None:
    """It is known by its tag; another pass has nothing to add."""
    lake.proxy.lose(_commits(lake), "after")
    assert updated(lake.seen(repeats=0), MARS).rows == 1
    assert updated(lake.direct, MARS).rows == 0
    _check(lake)


def test_a_store_that_goes_away_after_the_commit_takes_nothing_with_it(lake: FarLake) -> None:
    """Nothing can be known, so nothing is removed; when it is back, the rows are there."""
    lake.proxy.lose(_commits(lake), "after", away=True)
    with pytest.raises(OutcomeUnknown):
        updated(lake.seen(repeats=0), MARS)
    assert updated(lake.direct, MARS).rows == 0
    _check(lake)
