"""Commits that are reported as failed: nothing that may be committed is ever removed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.farlake import FarLake, assert_whole, block_checkpoints, far_lakes
from support.lake import filled, record

from aviso_server.lake.commit import commit
from aviso_server.lake.files import FileWriter
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.outcome import OutcomeUnknown, discard
from aviso_server.lake.record import records_to_batch


@pytest.fixture(scope="module")
def lakes() -> Iterator[Iterator[FarLake]]:
    """Lakes in an object store of this module's own."""
    with far_lakes() as made:
        yield made


@pytest.fixture
def lake(lakes: Iterator[FarLake]) -> Iterator[FarLake]:
    """A lake with one notification."""
    lake = next(lakes)
    filled(lake.direct, [record(1)])
    lake.proxy.heal()
    yield lake
    lake.proxy.heal()


def _parquet(place: Place) -> int:
    return sum(1 for _ in Path(place.table(NOTIFICATIONS)).rglob("*.parquet"))


def _commit(lake: FarLake) -> str:
    """How a request begins that commits to the table."""
    path = lake.direct.path.removeprefix("s3:/")
    return f"PUT {path}/{NOTIFICATIONS}/_delta_log/"


@pytest.mark.parametrize("repeats", [0, 2])
def test_a_commit_whose_answer_is_lost_is_known_by_its_tag(lake: FarLake, repeats: int) -> None:
    """Whether the client gives up, or repeats it and is told that the version is taken."""
    lake.proxy.lose(_commit(lake), "after")
    assert filled(lake.seen(repeats=repeats), [record(2), record(3)]).rows == 2
    assert assert_whole(lake.direct).mark == 3


def test_a_commit_that_never_arrives_may_still_be_on_its_way(lake: FarLake) -> None:
    """Nobody can know; the files stay, and another try commits each sequence once."""
    far = lake.seen(repeats=0)
    lake.proxy.lose(_commit(lake), "before")
    writer = FileWriter(far)
    writer.write(records_to_batch([record(2)]))
    (file,) = writer.close()
    with pytest.raises(OutcomeUnknown, match="it is unknown whether a commit to s3://"):
        commit(far, [file], {"mars": 2})
    assert assert_whole(lake.direct).mark == 1
    # The request arrives after all: as if it were sent now.
    assert commit(lake.direct, [file], {"mars": 2}).rows == 1
    assert filled(far, [record(2), record(3)]).rows == 1
    assert assert_whole(lake.direct).mark == 3


def test_a_store_that_goes_away_after_the_commit_takes_nothing_with_it(lake: FarLake) -> None:
    """Nothing can be seen, so nothing is removed; when it is back, the commit is there."""
    lake.proxy.lose(_commit(lake), "after", away=True)
    with pytest.raises(OutcomeUnknown):
        filled(lake.seen(repeats=0), [record(2)])
    assert assert_whole(lake.direct).mark == 2


def test_a_checkpoint_that_cannot_be_written_undoes_no_commit(place: Place) -> None:
    """Delta writes one behind every hundredth commit; on a full disk that fails by itself."""
    filled(place, [record(1)])
    block_checkpoints(place)
    assert filled(place, [record(2)]).rows == 1
    assert assert_whole(place).mark == 2


def test_a_file_that_the_table_refers_to_is_not_discarded(place: Place) -> None:
    """Whoever asks for it; one that it does not refer to is."""
    writer = FileWriter(place)
    writer.write(records_to_batch([record(1)]))
    (file,) = writer.close()
    other = FileWriter(place)
    other.write(records_to_batch([record(2)]))
    (spare,) = other.close()
    commit(place, [file], {"mars": 1})
    discard(place, [file.path, spare.path])
    assert assert_whole(place).mark == 1
    assert _parquet(place) == 1
    assert commit(place, [file], {"mars": 1}).rows == 0
    assert assert_whole(place).mark == 1
