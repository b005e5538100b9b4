"""A replay into files: complete, in order, and all at once."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from backends.contract import OPEN
from deltalake import DeltaTable
from pyarrow.fs import FileSelector
from pyspark.sql import SparkSession
from support.carried import archive
from support.config import document, on_jetstream, settings
from support.farlake import far_lakes
from support.lake import filled, record
from support.nats import NatsServer
from support.server import connected
from support.source import RING

from aviso_server.lake.layout import NOTIFICATION_TABLE, Place
from aviso_server.pipeline.history.plan import question
from aviso_server.pipeline.replay.job import run
from aviso_server.pipeline.replay.options import (
    Format,
    Progress,
    ReplayFailed,
    ReplayFiles,
    ReplayOptions,
)
from aviso_server.pipeline.replay.parts import Folder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A lake with a hundred notifications, in two files."""
    place = Place(str(tmp_path_factory.mktemp("lake")))
    for begin in (1, 51):
        filled(place, [record(n, identifier={"n": str(n)}) for n in range(begin, begin + 50)])
    return place


def options(place: Place, output: Path, kind: Format, **rest: object) -> ReplayOptions:
    """A replay of the lake in small pieces."""
    target = ReplayFiles(path=str(output), format=kind, rows=15, **rest)  # type: ignore[arg-type]
    return ReplayOptions(
        question=question("mars", lake=place, start=3, end=97), target=target, chunk=40
    )


def interrupt(progress: Progress) -> None:
    """Ctrl-C, as soon as something is written."""
    if progress.rows:
        raise KeyboardInterrupt


def test_events_are_those_of_the_server(
    spark: SparkSession, store: NatsServer, tmp_path: Path
) -> None:
    """Byte for byte what /replay sends, polygons and odd payloads included, from lake and log."""
    place = Place(str(tmp_path / "lake"))

    async def served() -> list[bytes]:
        chosen = settings(document({**on_jetstream(store.url)}))
        async with connected(chosen) as client:
            for n in range(6):
                await client.notify(
                    "test_polygon",
                    {"date": "20260101", "time": "1200", "polygon": RING},
                    payload={"é": [n, 1.0, "\u2028"]},
                )
            body = {"event_type": "test_polygon", "identifier": {"polygon": RING}, "from_id": "1"}
            url = f"{client.running.url}/api/v1/replay"
            async with client.session.post(url, json=body) as response:
                text = await response.read()
        frames = [part.split(b"\n") for part in text.split(b"\n\n")]
        return [f[1].removeprefix(b"data: ") for f in frames if f[0] == b"event: replay"]

    events = asyncio.run(served())
    archive(place, store.url, "test_polygon", last=4)
    asked = question("test_polygon", lake=place, log=store.url, filter={"polygon": RING})
    target = ReplayFiles(path=str(tmp_path / "out"), format="ndjson", rows=3)
    outcome = run(spark, ReplayOptions(question=asked, target=target))
    files = sorted((tmp_path / "out").glob("*.ndjson"))
    assert b"".join(file.read_bytes() for file in files) == b"\n".join([*events, b""])
    assert (outcome.rows, outcome.files, len(files), len(events)) == (6, 2, 2, 6)
    assert (tmp_path / "out" / "_SUCCESS").exists()


def test_parquet_is_in_order(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    """By file name and within files; progress only grows, and ends with everything."""
    reported: list[Progress] = []
    outcome = run(spark, options(place, tmp_path / "out", "parquet"), report=reported.append)
    files = sorted((tmp_path / "out").glob("*.parquet"))
    tables = [pq.read_table(file) for file in files]
    assert [n for table in tables for n in table["sequence"].to_pylist()] == list(range(3, 98))
    assert tables[0].column_names == NOTIFICATION_TABLE.names
    assert [(p.done, p.all, p.rows) for p in reported] == [
        (0, 95, 0),
        (40, 95, 40),
        (80, 95, 80),
        (95, 95, 95),
    ]
    assert (outcome.rows, outcome.first, outcome.last, outcome.files) == (95, 3, 97, len(files))
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_a_delta_table_has_statistics(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    """One commit with everything; readers skip files by sequence. Fields can be columns."""
    run(spark, options(place, tmp_path / "out", "delta"))
    table = DeltaTable(str(tmp_path / "out"))
    assert table.version() == 0
    assert sorted(table.to_pyarrow_table()["sequence"].to_pylist()) == list(range(3, 98))
    actions = table.get_add_actions(flatten=True)
    assert min(actions["min.sequence"].to_pylist()) == 3
    asked = question("extreme", lake=place, schemas=OPEN.schemas)
    target = ReplayFiles(path=str(tmp_path / "typed"), format="delta", typed=True)
    assert run(spark, ReplayOptions(question=asked, target=target)).rows == 0
    empty = DeltaTable(str(tmp_path / "typed")).to_pyarrow_table()
    assert (empty.num_rows, str(empty.schema.field("severity").type)) == (0, "int64")


def test_failure_leaves_nothing(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    """Neither a refused output nor one that broke half-way is touched or visible."""
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "file").touch()
    with pytest.raises(ReplayFailed, match="exists already"):
        run(spark, options(place, taken, "parquet"))
    assert [path.name for path in taken.iterdir()] == ["file"]
    with pytest.raises(KeyboardInterrupt):
        run(spark, options(place, tmp_path / "out", "delta"), report=interrupt)
    broken = Place(str(tmp_path / "broken"))
    filled(broken, [record(n) for n in range(1, 10)])
    next(tmp_path.glob("broken/notifications/**/*.parquet")).write_bytes(b"no")
    with pytest.raises(ReplayFailed, match="parquet"):
        run(spark, options(broken, tmp_path / "out", "parquet"))
    assert {path.name for path in tmp_path.iterdir()} == {"taken", "broken"}


def test_an_object_store(spark: SparkSession, place: Place) -> None:
    """Nothing can be renamed there: a commit or ``_SUCCESS`` comes last, and failures clean up."""
    with far_lakes() as lakes:
        lake = next(lakes)
        far = lake.seen(repeats=0)
        storage = dict(far.options)

        def to(name: str, kind: Format) -> ReplayOptions:
            asked = options(place, Path("unused"), kind, storage=storage)
            assert isinstance(asked.target, ReplayFiles)
            return replace(asked, target=replace(asked.target, path=f"{far.path}/{name}"))

        run(spark, to("table", "delta"))
        table = DeltaTable(f"{far.path}/table", storage_options=storage)
        assert sorted(table.to_pyarrow_table()["sequence"].to_pylist()) == list(range(3, 98))
        with pytest.raises(ReplayFailed, match="exists already"):
            run(spark, to("table", "delta"))
        with pytest.raises(KeyboardInterrupt):
            run(spark, to("events", "ndjson"), report=interrupt)
        run(spark, to("events", "ndjson"))
        folder = Folder(f"{far.path}/events", storage).open()
        names = [item.base_name for item in folder.get_file_info(FileSelector(""))]
        assert "_SUCCESS" in names
        lines = b"".join(
            folder.open_input_stream(name).read() for name in sorted(names) if name != "_SUCCESS"
        )
        assert [json.loads(line)["sequence"] for line in lines.splitlines()] == list(range(3, 98))
        lake.proxy.lose("PUT /lake/deep/lake0/again/_delta_log", "after")
        run(spark, to("again", "delta"))
        table = DeltaTable(f"{far.path}/again", storage_options=storage)
        assert sorted(table.to_pyarrow_table()["sequence"].to_pylist()) == list(range(3, 98))
        lake.proxy.lose("/later/_SUCCESS", "after", away=True)
        with pytest.raises(ReplayFailed, match="is complete if _SUCCESS exists"):
            run(spark, to("later", "ndjson"))
        lake.proxy.heal()
        later = Folder(f"{far.path}/later", storage).open().get_file_info(FileSelector(""))
        assert {item.base_name for item in later} - {"_SUCCESS"}


@pytest.mark.parametrize(
    ("path", "remote"), [("/out", False), ("file:///out", False), ("s3://bucket/out", True)]
)
def test_folders(path: str, remote: bool) -> None:
    """An object store is recognised by its URL."""
    assert Folder(path).remote is remote
