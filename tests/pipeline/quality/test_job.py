"""The quality job on Spark: what is checked, what is not as expected, and who is told."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from support.command import invoke
from support.config import document, settings
from support.lake import BEGIN_NS, filled, record, table_of
from support.server import connected

from aviso_server.core.geometry import Area
from aviso_server.core.json import Json
from aviso_server.core.notification import Notification, Record
from aviso_server.lake.layout import DELETED, Place
from aviso_server.lake.record import records_to_batch
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.pipeline.archive.expected import RowCounts
from aviso_server.pipeline.live import alert
from aviso_server.pipeline.quality.job import QualityFailed, QualityOptions, check, run
from aviso_server.pipeline.quality.verdict import TABLE_NAME, QualityVerdict

# Two cores that others use too: the first query of a session can take a minute.
pytestmark = pytest.mark.timeout(400)

HOUR_NS = 3_600_000_000_000
NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)

FIELD: dict[str, Json] = {"type": "StringHandler", "required": False}
SCHEMAS: dict[str, Json] = {
    "mars": {
        "topic": {"base": "mars", "key_order": ["date", "time"]},
        "identifier": {
            "date": {"type": "DateHandler", "required": False},
            "time": {"type": "TimeHandler", "required": False},
            "stream": FIELD,
            "step": {"type": "IntHandler", "required": False},
        },
        "expectations": {
            "values": {"step": {"between": [0, 240]}, "stream": ["oper", "enfo"], "time": "0000"},
            "present": ["stream", "payload", "payload.url.host"],
            "every": "6h",
            "per_cycle": 2,
        },
    },
    "area": {
        "topic": {"base": "area", "key_order": ["polygon"]},
        "identifier": {"polygon": {"type": "PolygonHandler", "required": False}},
        "expectations": {"present": ["polygon"], "every": "2d"},
    },
    "quiet": {"identifier": {"a": FIELD}, "expectations": {"every": "1h"}},
    "ev": {"topic": {"base": "ev", "key_order": ["region"]}, "identifier": {"region": FIELD}},
    **yaml.safe_load(alert.SCHEMA),
}

CATALOGUE = settings(schemas=SCHEMAS).catalogue
RING = Area.of(((40.0, 10.0), (40.0, 13.0), (43.0, 13.0), (40.0, 10.0)))


def announced(sequence: int, hour: int, payload: bytes, **identifier: str) -> Record:
    """A notification of mars, stored at an hour of the first of January or later."""
    notification = Notification("mars", ("mars",), identifier, None, payload)
    return Record(sequence, BEGIN_NS + hour * HOUR_NS, notification)


URL = b'{"url":{"host":"a"}}'
ROWS: Sequence[Record] = [
    announced(1, 1, b"null", step="999", stream="x"),  # before the period
    announced(2, 13, URL, date="20260101", time="0000", stream="oper", step="0"),
    announced(3, 14, URL, date="20260101", time="0000", stream="oper", step="241"),
    announced(4, 15, URL, date="20260101", time="0000", stream="oper", step="241"),
    announced(5, 16, b'{"url":{"host":null}}', date="20260102", time="0000", stream="wave"),
    announced(6, 17, b"null", date="20260102", time="0600", step="odd"),
    announced(7, 18, URL, date="20260103", time="0000", stream="hidden", step="-1"),
    announced(8, 20, URL, date="20260103", time="0000", stream="enfo", step="240"),
]
AREAS = [
    record(1, "area", ns=BEGIN_NS + 20 * HOUR_NS, geometry=RING),
    record(2, "area", ns=BEGIN_NS + 21 * HOUR_NS),
]


@pytest.fixture
def lake(tmp_path: Path) -> Place:
    """A lake in which some is as expected, some is not, and some is deleted."""
    place = Place(str(tmp_path / "lake"))
    filled(place, [*AREAS, *ROWS])
    append_tombstones(place, [("mars", 7, 7)], kind=DELETED)
    return place


def options(place: Place, **more: object) -> QualityOptions:
    """Checks of everything that is expected, at noon of the second of January."""
    wanted = {n: s for n, s in CATALOGUE.schemas.items() if s.expectations}
    return QualityOptions(place=place, schemas=wanted, now=NOW, **more)  # type: ignore[arg-type]


def test_what_is_not_as_expected(lake: Place, spark: SparkSession) -> None:
    """Only of the period, without what is deleted; fields that are not there are not checked."""
    verdicts = run(spark, options(lake))
    assert [
        (v.event_type, v.expectation, v.checked, v.unexpected, v.example) for v in verdicts
    ] == [
        ("mars", "values.step", 5, 3, "mars@3"),
        ("mars", "values.stream", 5, 1, "mars@5"),
        ("mars", "values.time", 6, 1, "mars@6"),
        ("mars", "present.stream", 6, 1, "mars@6"),
        ("mars", "present.payload", 6, 1, "mars@6"),
        ("mars", "present.payload.url.host", 6, 2, "mars@5"),
        ("mars", "every", 1, 1, "the newest notification: 2026-01-01T20:00:00Z"),
        ("mars", "per_cycle", 3, 2, "cycle 20260102 0000: 1"),
        ("area", "present.polygon", 2, 1, "area@2"),
        ("area", "every", 1, 0, None),
        ("quiet", "every", 1, 1, "the newest notification: never"),
    ]
    # The archive counts the same, as it writes.
    counts = RowCounts({name: s.expectations for name, s in options(lake).schemas.items()})
    for rows in (AREAS, [*ROWS[1:6], ROWS[7]]):
        counts.add(records_to_batch(rows))
    assert dict(zip(counts.names, counts.found, strict=True)) == {
        (v.event_type, v.expectation): v.unexpected
        for v in verdicts
        if v.expectation.startswith(("values.", "present."))
    }
    kept = table_of(lake, TABLE_NAME).to_pyarrow_table().to_pylist()
    assert [(row["event_type"], row["expectation"], row["unexpected"]) for row in kept] == [
        (v.event_type, v.expectation, v.unexpected) for v in verdicts
    ]
    assert {row["checked_at"] for row in kept} == {NOW}


def test_alerts(lake: Place, spark: SparkSession) -> None:
    """One for each expectation that is not met, with what was found."""

    async def told() -> tuple[list[QualityVerdict], list[tuple[str, str, int]]]:
        async with connected(settings(schemas=SCHEMAS)) as client:
            asked = options(lake, url=client.running.url)
            verdicts = await asyncio.to_thread(run, spark, asked)
            async with client.replay(alert.EVENT_TYPE, {"kind": alert.QUALITY}, from_id="1") as s:
                data = [e.data["data"] for e in await s.rest() if e.kind == "replay"]
            return verdicts, [
                (d["identifier"]["event_type"], d["identifier"]["key"], d["payload"]["unexpected"])
                for d in data
            ]

    verdicts, published = asyncio.run(told())
    bad = [(v.event_type, v.expectation, v.unexpected) for v in verdicts if v.unexpected]
    assert sorted(published) == sorted(bad)


def test_what_cannot_be_checked(tmp_path: Path) -> None:
    """No lake, nothing expected, or nobody to tell: said before Spark is started."""
    with pytest.raises(LakeFailed, match="there is no lake"):
        check(options(Place(str(tmp_path / "none"))))
    with pytest.raises(QualityFailed, match="nothing is expected"):
        check(QualityOptions(place=Place("x"), schemas={}))


def test_the_command(lake: Place, tmp_path: Path) -> None:
    """Which event types there are is known before anything else."""
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(document(schemas=SCHEMAS)))
    command = ("pipeline", "quality", "--config", str(path), "--lake", lake.path, "--event-type")
    assert "no event type 'mers'" in invoke(*command, "mers").output
    result = invoke(*command, "ev")
    assert result.exit_code == 1
    assert "nothing is expected" in result.stderr
