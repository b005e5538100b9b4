"""A lake in an object store whose answers can be lost, and what must hold whatever fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake import DeltaTable
from support.lossy import Lossy, lossy_proxy
from support.s3 import object_store

from aviso_server.lake.commit import archived_through
from aviso_server.lake.layout import DEAD_LETTERS, NOTIFICATIONS, TOMBSTONES, Place
from aviso_server.lake.storage import files
from aviso_server.lake.table import find


@dataclass(frozen=True, slots=True)
class FarLake:
    """A lake as it is in its store, and as it is seen through a proxy that can lose things."""

    direct: Place
    proxy: Lossy

    def seen(self, *, repeats: int) -> Place:
        """The lake behind the proxy, for a client that repeats what fails so many times."""
        return Place(
            self.direct.path,
            {
                **self.direct.options,
                "AWS_ENDPOINT_URL": self.proxy.url,
                "max_retries": str(repeats),
                "backoff_config.init_backoff": "1ms",
                "backoff_config.max_backoff": "2ms",
            },
        )


@contextmanager
def far_lakes() -> Iterator[Iterator[FarLake]]:
    """Empty lakes, as many as are asked for, in one object store behind one proxy."""
    with object_store() as place, lossy_proxy(place.options["AWS_ENDPOINT_URL"]) as proxy:
        yield (FarLake(Place(f"{place.path}{n}", place.options), proxy) for n in count())


@dataclass(frozen=True, slots=True)
class Tables:
    """What a lake has."""

    mark: int
    files: int
    """Of notifications."""
    lost: tuple[int, ...]
    """Last sequences of lost ranges."""


def assert_whole(place: Place, event_type: str = "mars") -> Tables:
    """Every file that a table refers to is there, and each sequence up to the mark, once.

    The log is taken to have no holes.
    """
    notifications, letters, graves = (
        find(place, name) for name in (NOTIFICATIONS, DEAD_LETTERS, TOMBSTONES)
    )
    mark = 0 if notifications is None else archived_through(notifications, event_type)
    archived = _column(place, NOTIFICATIONS, notifications, "sequence")
    dead = _column(place, DEAD_LETTERS, letters, "sequence")
    # Letters are committed first: some may be above the mark, until it is tried again.
    assert max([0, *archived]) <= mark
    assert sorted([*archived, *(n for n in dead if n <= mark)]) == list(range(1, mark + 1))
    assert len(dead) == len(set(dead))
    return Tables(
        mark,
        0 if notifications is None else len(notifications.file_uris()),
        tuple(_column(place, TOMBSTONES, graves, "last")),
    )


def _column(place: Place, name: str, table: DeltaTable | None, column: str) -> list[int]:
    if table is None:
        return []
    paths = [unquote(path) for path in pa.table(table.get_add_actions())["path"].to_pylist()]
    found = files(place, name).get_file_info(paths)
    missing = [info.path for info in found if info.type is not pa_fs.FileType.File]
    assert not missing, f"{name} refers to files that are not there: {missing}"
    return list(table.to_pyarrow_table(columns=[column])[column].to_pylist())


def block_checkpoints(place: Place) -> None:
    """Have a checkpoint written behind every commit from now on, which always fails."""
    table = find(place, NOTIFICATIONS)
    assert table is not None
    table.alter.set_table_properties({"delta.checkpointInterval": "1"})
    for number in range(table.version() + 1, table.version() + 101):
        path = Path(place.table(NOTIFICATIONS), "_delta_log", f"{number:020d}.checkpoint.parquet")
        path.mkdir(exist_ok=True)
