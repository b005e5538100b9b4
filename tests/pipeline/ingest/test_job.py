"""The job that takes legacy histories in, through Spark."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from support.archived import archived
from support.command import invoke
from support.config import document, settings
from support.lake import filled, record, table_of
from support.nats import _free_ports, nats_server
from support.process import server_process
from support.source import on_backend

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.core.cloudevent import Renderer
from aviso_server.core.declaration import declaration
from aviso_server.core.notification import Notification, Record
from aviso_server.lake.commit import archived_through
from aviso_server.lake.layout import DEAD_LETTERS, TOMBSTONES, Place
from aviso_server.pipeline.delivery.delivery import TooManyRejected
from aviso_server.pipeline.ingest.files import files
from aviso_server.pipeline.ingest.job import (
    IngestFailed,
    IngestOptions,
    IngestOutcome,
    earlier_outcome,
    run,
)
from aviso_server.pipeline.ingest.staging import FromFiles, FromLake, FromLog
from aviso_server.pipeline.ingest.store import HistoryRefused
from aviso_server.pipeline.ingest.table import read_mapping
from aviso_server.pipeline.sink.options import parse_options
from aviso_server.pipeline.source.batch import BatchReader
from aviso_server.pipeline.source.columns import SPARK
from aviso_server.pipeline.source.options import read_options

CATALOGUE = settings().catalogue
EXAMPLE = Path(__file__).parents[3] / "examples" / "config.yaml"


def line(payload: int, second: int, region: str = "n") -> str:
    """A line of a history."""
    return json.dumps(
        {
            "event_type": "ev",
            "identifier": {"region": region},
            "payload": payload,
            "time": f"2026-01-01T00:00:{second:02}Z",
        }
    )


def stored(sequences: Sequence[int], **more: str) -> list[Record]:
    """Records of ``ev`` as a server would have stored them."""
    made = []
    for n in sequences:
        item = record(n, "ev", identifier={"region": more.get("region", "n")})
        tokens = ("ev", *item.notification.identifier.values())
        kept = Notification("ev", tokens, item.notification.identifier, None, b"%d" % n)
        made.append(Record(n, item.stored_at_ns, kept))
    return made


def payloads(url: str) -> list[Any]:
    """What a server has, in order."""
    reader = BatchReader(read_options({"url": url, "eventType": "ev"}), SPARK)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [msgspec.json.decode(text) for b in batches for text in b["payload"].to_pylist()]


def test_files_are_published_in_the_order_of_time(tmp_path: Path, spark: SparkSession) -> None:
    """Over files and pieces, and once; what is rejected says source, line and field."""
    one, two = tmp_path / "one.ndjson", tmp_path / "two.ndjson"
    even, odd = range(0, 40, 2), range(1, 40, 2)
    one.write_text("\n".join([*(line(n, n) for n in reversed(even)), '{"event_type":"ev"}', "x"]))
    two.write_text("\n".join(line(n, n) for n in odd) + "\n" + line(7, 1, "").replace('""', "{}"))
    with server_process(document(), tmp_path) as server:
        options = IngestOptions(
            source=FromFiles(tuple(files([str(one), str(two)])), "ndjson", piece_bytes=1300),
            catalogue=CATALOGUE,
            state=tmp_path / "state",
            server=parse_options({"url": server.url, "onReject": "fail"}),
        )
        outcome = run(options, spark)
        assert (outcome.read, outcome.added, outcome.repeated, outcome.rejected) == (43, 40, 0, 3)
        assert payloads(server.url) == list(range(40))
        again = run(options, spark)
        assert again == replace(outcome, added=0, repeated=40)
        assert again == earlier_outcome(options)  # which needs no Spark
        assert payloads(server.url) == list(range(40))
        with pytest.raises(TooManyRejected, match="3 of 43 rows are rejected, 2 may be"):
            earlier_outcome(replace(options, max_rejected=2))
    assert outcome.dead_letters == str(tmp_path / "state" / "rejected")
    letters = DeltaTable(outcome.dead_letters).to_pyarrow_table().to_pylist()
    where = sorted(
        (Path(item["source"]).name, item["line"], item["field"] or "-") for item in letters
    )
    assert where == [
        ("one.ndjson", 21, "identifier"),
        ("one.ndjson", 22, "-"),
        ("two.ndjson", 21, "region"),
    ]


def test_a_run_that_was_ended_goes_on(tmp_path: Path, spark: SparkSession) -> None:
    """The server was away: what is staged is published later; then only what is new is."""
    source = tmp_path / "one.csv"
    source.write_text("region,payload\n" + "".join(f"n,{n}\n" for n in range(5)))
    (port,) = _free_ports(1)
    mapping = read_mapping(None, event_type="ev", fields=["region"])
    url = f"http://127.0.0.1:{port}"
    options = IngestOptions(
        source=FromFiles(tuple(files([str(source)])), "csv", mapping),
        catalogue=CATALOGUE,
        state=tmp_path / "state",
        server=parse_options({"url": url, "onReject": "fail", "retries": "0"}),
    )
    with pytest.raises(IngestFailed, match=url):
        run(options, spark)
    with server_process(document(), tmp_path, "--port", str(port)):
        first = run(options, spark)
        assert (first.read, first.added, first.repeated) == (5, 5, 0)
        with source.open("a") as file:
            file.write("n,5\n")
        grown = replace(options, source=FromFiles(tuple(files([str(source)])), "csv", mapping))
        second = run(grown, spark)
        assert (second.read, second.added, second.repeated) == (6, 1, 5)
        assert payloads(url) == list(range(6))


def test_too_many_rejected_rows_end_it_before_anything_is_published(
    tmp_path: Path, spark: SparkSession
) -> None:
    """The error says how many and why, and where they are; the file can be mended and taken in."""
    source = tmp_path / "x.ndjson"
    with server_process(document(), tmp_path) as server:

        def ingest() -> IngestOutcome:
            options = IngestOptions(
                source=FromFiles(tuple(files([str(source)])), "ndjson"),
                catalogue=CATALOGUE,
                state=tmp_path / "state",
                server=parse_options({"url": server.url, "onReject": "fail"}),
                max_rejected=1,
            )
            assert earlier_outcome(options) is None
            return run(options, spark)

        source.write_text("x\ny\n" + line(1, 1))
        why = r"2 of 3 rows are rejected, 1 may be.*JSON parsing"
        with pytest.raises(TooManyRejected, match=why):
            ingest()
        assert payloads(server.url) == []
        source.write_text(line(1, 1) + "\n" + line(2, 2))
        assert ingest().added == 2
        assert payloads(server.url) == [1, 2]


def test_a_lake_into_a_lake(tmp_path: Path, spark: SparkSession) -> None:
    """Sequences, times and gaps are kept; again adds nothing; a contradiction is refused."""
    old, new = Place(str(tmp_path / "old")), Place(str(tmp_path / "new"))
    filled(old, stored([3, 4, 5, 8, 9]))

    def ingest(place: Place) -> IngestOutcome:
        source = FromLake(place, ("ev",))
        state = tmp_path / "state"
        return run(IngestOptions(source=source, catalogue=CATALOGUE, state=state, lake=new), spark)

    outcome = ingest(old)
    assert (outcome.added, outcome.repeated, outcome.missing) == (5, 0, 2)
    assert archived(new, "ev") == stored([3, 4, 5, 8, 9])
    (grave,) = table_of(new, TOMBSTONES).to_pyarrow_table().to_pylist()
    assert (grave["first"], grave["last"]) == (6, 7)
    filled(old, stored([10, 11]))
    outcome = ingest(old)
    assert (outcome.added, outcome.repeated) == (2, 5)
    assert archived(new, "ev") == stored([3, 4, 5, 8, 9, 10, 11])
    other, later = Place(str(tmp_path / "other")), Place(str(tmp_path / "later"))
    filled(other, stored([9, 10, 12], region="s"))
    with pytest.raises(HistoryRefused, match="what it has at 9 is not what the history says"):
        ingest(other)
    filled(later, stored([20]))
    with pytest.raises(HistoryRefused, match="8 are missing between them"):
        ingest(later)
    assert archived(new, "ev") == stored([3, 4, 5, 8, 9, 10, 11])
    assert list((tmp_path / "state").iterdir()) == []


def test_exports_into_a_lake(place: Place, tmp_path: Path, spark: SparkSession) -> None:
    """CloudEvents keep sequence and time; rejected ones become dead letters of the lake."""
    renderer = Renderer("http://x")
    texts = [renderer.render(item) for item in stored([1, 2, 3, 4])]
    texts[2] = texts[2].replace(b'"region"', b'"religion"')
    path = tmp_path / "export.ndjson"
    path.write_bytes(b"\n".join([*texts, line(1, 1).encode()]))
    options = IngestOptions(
        source=FromFiles(tuple(files([str(path)])), "ndjson"),
        catalogue=CATALOGUE,
        state=tmp_path / "state",
        lake=place,
        dead_letters=Place(str(tmp_path / "dead")),
    )
    for added in (3, 0):
        outcome = run(options, spark)
        assert (outcome.read, outcome.added, outcome.rejected) == (5, added, 2)
        assert {reason.code for reason in outcome.reasons} == {"INVALID_REQUEST", "NO_SEQUENCE"}
    assert archived(place, "ev") == stored([1, 2, 4])
    assert archived_through(table_of(place), "ev") == 4
    (letter,) = table_of(place, DEAD_LETTERS).to_pyarrow_table().to_pylist()
    assert (letter["sequence"], letter["time_ns"]) == (3, stored([3])[0].stored_at_ns)
    kept = DeltaTable(tmp_path / "dead").to_pyarrow_table()
    assert sorted(kept["line"].to_pylist()) == [3, 5]


def test_streams_of_another_server(tmp_path: Path, spark: SparkSession) -> None:
    """A log in JetStream is written to the lake under its own sequences and times."""

    async def fill(backend: JetStreamBackend) -> list[Record]:
        for item in stored([1, 2, 3]):
            await backend.append(item.notification, key=f"k{item.sequence}")
        found = (await backend.read("ev", 1, 9, limit=9)).entries
        return [item for item in found if isinstance(item, Record)]

    with nats_server(tmp_path / "nats") as store:
        expected = on_backend(store.url, fill)
        rules = [declaration(schema) for schema in CATALOGUE.schemas.values()]
        place = Place(str(tmp_path / "lake"))
        given = {"servers": store.url, "eventType": "ev", "schemas": json.dumps(rules)}
        options = IngestOptions(
            source=FromLog(given), catalogue=CATALOGUE, state=tmp_path / "state", lake=place
        )
        assert run(options, spark).added == 3
        assert run(options, spark).repeated == 3
    assert len(expected) == 3
    assert archived(place, "ev") == expected


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["no.ndjson"], 1, "aviso-server pipeline ingest: there is no file no.ndjson"),
        (["x"], 2, "say what the source is"),
        ([], 2, "say what the source is"),
        (["--format", "jetstream"], 2, "say which NATS to read"),
        (["config.csv", "--map", "color=x"], 1, "maps nothing"),
        (["config.ndjson", "--map", "time=x"], 2, "say themselves what is what"),
        (
            ["config.ndjson", "--to", "lake", "--lake", "x", "--storage-option", "y"],
            2,
            "NAME=VALUE",
        ),
        (["config.ndjson", "--url", "ftp://x"], 2, "http://HOST:PORT"),
        (["config.ndjson", "--remote", "sc://x", "--master", "local"], 2, "go without it"),
    ],
)
def test_errors_on_the_command_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    """They come before Spark is started, in one line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.ndjson").write_text("{}")
    (tmp_path / "config.csv").write_text("a\n")
    done = invoke("pipeline", "ingest", *arguments, "--config", str(EXAMPLE))
    assert done.exit_code == code
    assert words in done.stderr
    assert "Traceback" not in done.output
