"""Following the lake's tables: what is known after any commits is what opening them would show."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fuzz import examples
from support.lake import filled, record, table_of

from aviso_server.lake.commit import commit
from aviso_server.lake.follow import Advanced, Follower, Opened, Outdated
from aviso_server.lake.index import FileIndex, Files
from aviso_server.lake.inventory import inventory
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.marks import marks_of
from aviso_server.lake.storage import commit_file
from aviso_server.pipeline.maintain.replace import replace_files

NAMES = ("mars", "diss", "été/../x y%")


def _append(place: Place, chance: random.Random) -> None:
    """What the archive job does."""
    name = chance.choice(NAMES)
    begin = marks_of(place, [name])[name].through + 1
    filled(place, [record(n, name) for n in range(begin, begin + chance.randint(1, 5))])


def _considered(place: Place, chance: random.Random) -> None:
    """A commit without rows."""
    name = chance.choice(NAMES)
    commit(place, [], {name: marks_of(place, [name])[name].through + 1})


def _removed(place: Place, chance: random.Random) -> None:
    """What retention does."""
    if found := inventory(table_of(place)):
        number = chance.randrange(len(found))
        replace_files(place, found[number : number + 1], (), data_change=True)


def _compacted(place: Place, _: random.Random) -> None:
    """What another tool may do."""
    DeltaTable(place.table(NOTIFICATIONS)).optimize.compact()


def _altered(place: Place, chance: random.Random) -> None:
    """Which is not followed."""
    table = DeltaTable(place.table(NOTIFICATIONS))
    table.alter.set_table_properties({"delta.checkpointInterval": str(chance.randint(5, 50))})


def _cleaned(place: Place, _: random.Random) -> None:
    """The log begins with a checkpoint."""
    table = DeltaTable(place.table(NOTIFICATIONS))
    table.create_checkpoint()
    for version in range(table.version()):
        Path(place.table(NOTIFICATIONS), commit_file(version)).unlink(missing_ok=True)


STEPS: tuple[Callable[[Place, random.Random], None], ...] = (
    *(_append, _append, _append, _considered, _removed, _compacted, _altered, _cleaned),
)


def _listed(index: FileIndex) -> list[tuple[str, int, int, int, int, tuple[str, ...]]]:
    """Everything an index has."""

    def each(files: Files) -> list[tuple[str, int, int, int, int, tuple[str, ...]]]:
        ranges = files.ranges
        return [
            (
                *(files.path(n), files.size(n), int(files.rows[n])),
                *(int(ranges.first[n]), int(ranges.last[n])),
                tuple(
                    map(str, [ranges.since[n], ranges.until[n], *ranges.boxes[n], files.days[n]])
                ),
            )
            for n in range(len(ranges))
        ]

    found = [files for name in index.event_types if (files := index.files(name)) is not None]
    return sorted(row for files in found for row in each(files))


@settings(max_examples=examples(6))
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(STEPS), max_size=12))
def test_what_is_followed_is_what_is_there(
    tmp_path_factory: pytest.TempPathFactory,
    chance: random.Random,
    steps: list[Callable[[Place, random.Random], None]],
) -> None:
    """Whatever was committed between two looks, and by whom."""
    place = Place(str(tmp_path_factory.mktemp("lake")))
    follower, index = Follower(place, NOTIFICATIONS), FileIndex(None)
    _append(place, chance)
    for step in [*steps, _append]:
        step(place, chance)
        if chance.random() < 0.3:
            continue
        news = follower.look()
        if isinstance(news, Opened):
            index = FileIndex(news.table)
        elif isinstance(news, Advanced):
            index = index.advanced(news.commits)
        assert follower.look() is None
        fresh = FileIndex(table_of(place))
        assert index.version == fresh.version
        assert _listed(index) == _listed(fresh)
        # Of event types that nobody asked for either.
        chosen = [name for name in NAMES if chance.random() < 0.7]
        assert [index.mark(name) for name in chosen] == [fresh.mark(name) for name in chosen]


def test_an_ordinary_commit_is_followed_without_opening_the_table(place: Place) -> None:
    """Neither appends nor replacements of ours need more than the commit itself."""
    filled(place, [record(1)])
    follower = Follower(place, NOTIFICATIONS)
    assert isinstance(follower.look(), Opened)
    filled(place, [record(2)])
    replace_files(place, inventory(table_of(place))[:1], (), data_change=True)
    news = follower.look()
    assert isinstance(news, Advanced)
    assert [len(item.added) for item in news.commits] == [1, 0]
    assert [len(item.removed) for item in news.commits] == [0, 1]


def test_a_table_in_the_place_of_another_is_noticed(place: Place, tmp_path: Path) -> None:
    """Restored to an older state, or made again up to the same version."""
    folder = Path(place.table(NOTIFICATIONS))
    filled(place, [record(1)])
    shutil.copytree(folder, tmp_path / "saved")
    filled(place, [record(2)])
    assert marks_of(place, ["mars"])["mars"].through == 2
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "saved", folder)
    assert marks_of(place, ["mars"])["mars"].through == 1
    shutil.rmtree(folder)
    assert marks_of(place, ["mars"])["mars"].through == 0
    filled(place, [record(n) for n in range(1, 10)])
    assert marks_of(place, ["mars"])["mars"].through == 9


def test_a_removal_of_what_is_not_known_is_not_guessed_at(place: Place) -> None:
    """Then the table is opened again."""
    filled(place, [record(1)])
    follower = Follower(place, NOTIFICATIONS)
    follower.look()
    filled(place, [record(2)])
    replace_files(place, inventory(table_of(place))[:1], (), data_change=True)
    news = follower.look()
    assert isinstance(news, Advanced)
    index = FileIndex(None).advanced(news.commits)
    with pytest.raises(Outdated):
        index.files("mars")


async def test_a_mark_asked_for_late_is_found(place: Place) -> None:
    """Though the log that had it when the table was opened is gone."""
    filled(place, [record(1, "diss"), record(2, "diss")])
    lake = Lake(place, refresh_s=0)
    assert (await lake.bounds("mars")).through == 0
    for n in range(3):
        filled(place, [record(n + 1)])
    _cleaned(place, random.Random())
    filled(place, [record(4)])
    assert (await lake.bounds("mars")).through == 4
    assert (await lake.bounds("diss")).through == 2
    await lake.close()
