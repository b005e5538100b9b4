"""The audit job on Spark, with planted faults."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from pyspark.sql import SparkSession
from support.lake import filled, record, table_of
from support.nats import NatsServer
from support.source import SAMPLES, append, fill, on_backend, read_batch

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.core.notification import Record
from aviso_server.lake.files import FileWriter
from aviso_server.lake.inventory import Inventory, inventory
from aviso_server.lake.layout import DELETED, LOST, NOTIFICATIONS, Place
from aviso_server.lake.record import batch_to_records, records_to_batch
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.pipeline.archive.sink import LakeWriter
from aviso_server.pipeline.audit.evidence import Finding
from aviso_server.pipeline.audit.job import (
    Audited,
    AuditFailed,
    AuditOptions,
    AuditReport,
    check,
    run,
    settle,
)
from aviso_server.pipeline.maintain.replace import replace_files
from aviso_server.pipeline.source.columns import MARKED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def _replace(place: Place, old: Inventory, records: Sequence[Record]) -> None:
    """Meddle with the table."""
    writer = FileWriter(place)
    writer.write(records_to_batch(records))
    replace_files(place, old, writer.close(), data_change=True)


def _files(place: Place, event_type: str) -> Inventory:
    return inventory(table_of(place), (event_type,))


def _found(report: AuditReport, event_type: str) -> list[tuple[str, int, int, int]]:
    (item,) = [item for item in report.event_types if item.event_type == event_type]
    return sorted((f.kind, f.first, f.last, f.count) for f in item.findings)


def test_planted_faults_are_named(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    """Holes, duplicates, a corrupted and a missing file; a sound event type is complete."""
    for begin in range(1, 2_500_000, 500_000):  # over three blocks, thinly
        filled(place, [record(n, "sound") for n in range(begin, begin + 5)])
    append_tombstones(
        place,
        [("sound", n + 5, n + 499_999) for n in range(1, 2_000_000, 500_000)],
        kind=DELETED,
    )
    for begin in range(1, 101, 20):
        skipped = {33, 34}
        filled(place, [record(n) for n in range(begin, begin + 20) if n not in skipped])
    append_tombstones(place, [("mars", 71, 72)], kind=DELETED)
    append_tombstones(place, [("mars", 33, 33)], kind=LOST)
    _replace(place, Inventory.of([]), [record(n) for n in (5, 6, 7)])
    _replace(place, Inventory.of([]), [record(200)])
    files = {(file.first, file.rows): file for file in _files(place, "mars")}
    folder = tmp_path / "lake" / NOTIFICATIONS
    broken = files[41, 20]
    data = bytearray((folder / broken.name).read_bytes())
    data[len(data) // 3] ^= 4
    (folder / broken.name).write_bytes(data)
    (folder / files[81, 20].name).unlink()

    report = run(spark, AuditOptions(place))
    assert not report.complete
    assert _found(report, "mars") == [
        ("duplicate", 5, 7, 3),
        ("file", 41, 60, 20),
        ("file", 81, 100, 20),
        ("hole", 34, 34, 1),
        ("lost", 33, 33, 1),
        ("unexpected", 200, 200, 1),
    ]
    (mars, sound) = report.event_types
    assert any(broken.name in item.text for item in mars.findings)
    tally = mars.tally
    assert (tally.expected, tally.present, tally.deleted) == (100, 56, 2)
    assert (tally.lost, tally.holes, tally.unread, tally.hidden_rows) == (1, 1, 40, 2)
    assert sound.findings == []
    assert (sound.first, sound.through) == (1, 2_000_005)
    assert (sound.tally.present, sound.tally.deleted) == (25, 1_999_980)
    assert json.loads(json.dumps(report.as_json()))["complete"] is False


def test_log_and_lake_are_compared(spark: SparkSession, store: NatsServer, place: Place) -> None:
    """Every kind of notification has the same content in both; what is not the same is named."""

    async def stored(backend: JetStreamBackend) -> None:
        for event_type, sample in SAMPLES.items():
            await append(backend, event_type, [sample] * 5)
        await backend.delete("ev", 2)  # before it is archived

    on_backend(store.url, stored)
    fill(store.url, 20)
    rows = read_batch(MARKED, servers=store.url, eventType="*")
    writer = LakeWriter(place)
    writer.settle([writer.write(iter(rows.to_batches()))])
    fill(store.url, 5)  # not archived yet
    append_tombstones(place, [("ev", 9, 9)], kind=DELETED)
    on_backend(store.url, lambda backend: backend.delete("ev", 9))

    options = AuditOptions(place, source={"servers": store.url})
    report = run(spark, options)
    assert report.complete
    (ev,) = [item for item in report.event_types if item.event_type == "ev"]
    assert (ev.first, ev.through, ev.log) == (1, 25, (1, 25))
    assert (ev.tally.present, ev.tally.absent, ev.tally.deleted) == (23, 1, 1)
    assert sum(item.tally.compared for item in report.event_types) == 23 + 5 * 4

    (ours,) = rows.filter(rows["time"].is_valid()).combine_chunks().to_batches()
    records = [item for item in batch_to_records(ours) if item.notification.event_type == "ev"]
    changed = [
        structs.replace(item, notification=structs.replace(item.notification, payload=b"0"))
        if item.sequence == 4
        else item
        for item in records
        if item.sequence not in (20, 21, 22)
    ]
    _replace(place, _files(place, "ev"), changed)
    append_tombstones(place, [("ev", 15, 15)], kind=DELETED)
    append_tombstones(place, [("ev", 22, 22)], kind=LOST)
    on_backend(store.url, lambda backend: backend.delete("ev", 12))
    report = run(spark, replace(options, event_types=("ev",)))
    assert [item.event_type for item in report.event_types] == ["ev"]
    assert _found(report, "ev") == [
        ("differs", 4, 4, 1),
        ("kept", 12, 12, 1),
        ("missing", 20, 22, 3),
        ("undeleted", 15, 15, 1),
    ]


def test_what_cannot_be_audited_is_refused(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    """No lake, and an event type that is not in it."""
    nowhere = Place(str(tmp_path / "nowhere"))
    with pytest.raises(AuditFailed, match="there is no lake"):
        check(AuditOptions(nowhere))
    filled(place, [record(1)])
    with pytest.raises(AuditFailed, match="the lake has nothing of nope"):
        run(spark, AuditOptions(place, event_types=("mars", "nope")))


def test_an_audit_from_the_command_line(connect: str, tmp_path: Path) -> None:
    """A hole gives exit code 3 and a report that names it."""
    lake, report = tmp_path / "lake", tmp_path / "audit.json"
    filled(Place(str(lake)), [record(n) for n in (1, 2, 5)])
    done = subprocess.run(
        [
            *(sys.executable, "-m", "aviso_server", "pipeline", "audit"),
            *("--lake", str(lake), "--report", str(report), "--remote", connect),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, "")
    assert "mars  hole        3 to 4" in done.stdout
    found = json.loads(report.read_text())
    assert found["complete"] is False
    assert [item["first"] for item in found["event_types"][0]["findings"]] == [3]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_known_losses_may_be_accepted(tmp_path: Path) -> None:
    """They are findings unless the operator says that he knows of them."""
    options = AuditOptions(Place(str(tmp_path)))
    lost, hole = Finding("lost", 3, 5, 3), Finding("hole", 7, 7, 1)
    item = Audited("mars", 1, 9, findings=[lost, hole])
    settle(item, options)
    assert item.findings == [lost, hole]
    settle(item, replace(options, accept_lost=True))
    assert item.findings == [hole]


def test_what_is_deleted_during_the_audit_is_no_finding(tmp_path: Path) -> None:
    """Its tombstone was written before the log forgot it, and after the audit looked."""
    options = AuditOptions(Place(str(tmp_path)))
    item = Audited("mars", 1, 9, findings=[Finding("kept", 3, 5, 3), Finding("kept", 8, 8, 1)])
    append_tombstones(options.place, [("mars", 4, 4), ("mars", 8, 8)], kind=DELETED)
    settle(item, options)
    assert item.findings == [Finding("kept", 3, 3, 1), Finding("kept", 5, 5, 1)]
