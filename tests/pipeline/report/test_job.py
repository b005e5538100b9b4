"""The report job on Spark: its tables, its page, and what it does when it cannot be made."""

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from support.command import invoke
from support.lake import BEGIN_NS, filled, record, table_of

from aviso_server.core.fields.moment import DateField, TimeField
from aviso_server.core.geometry import Area
from aviso_server.core.notification import Record
from aviso_server.core.schema import Schema
from aviso_server.lake.layout import DELETED, NOTIFICATIONS, Place
from aviso_server.lake.table import ensure
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.pipeline.report.figures import SCHEMAS
from aviso_server.pipeline.report.job import ReportFailed, ReportOptions, check, run

# Two cores that others use too: the first query of a session can take a minute.
pytestmark = pytest.mark.timeout(400)

SECOND = 1_000_000_000
HOUR_NS = 3600 * SECOND
DAY_NS = 24 * HOUR_NS
DAYS = 14
NASTY = "</title><script>alert('x')</script>&\x00\u202e"

LATE_DAY, MISSED_DAY = 10, 11


def _mars() -> list[Record]:
    """Two steps a day at 06 and 12; one late cycle, one step missing; both told by their base."""
    made: list[tuple[int, dict[str, str]]] = []
    for day in range(DAYS):
        for hour in (6, 12):
            for step in (0, 24):
                if (day, hour, step) == (MISSED_DAY, 12, 24):
                    continue
                after = 5 * HOUR_NS if (day, hour) == (LATE_DAY, 6) else 2 * HOUR_NS
                date_text = (date(2026, 1, 1) + timedelta(days=day)).strftime("%Y%m%d")
                fields = {"date": date_text, "step": str(step), "time": f"{hour:02d}00"}
                made.append((BEGIN_NS + day * DAY_NS + hour * HOUR_NS + after + step, fields))
    made.sort(key=lambda item: item[0])
    return [record(n + 1, ns=ns, identifier=fields) for n, (ns, fields) in enumerate(made)]


def _storms() -> list[Record]:
    """An area each day, with a name that is full of markup."""
    area = Area.of(((40.5, 10.5), (40.5, 13.5), (43.5, 13.5), (43.5, 10.5), (40.5, 10.5)))
    return [
        record(
            n,
            "storms",
            ns=BEGIN_NS + (n - 1) * DAY_NS + 7,
            identifier={"name": NASTY.replace("\x00", "") if n % 2 else "mild", NASTY[:8]: "x"},
            geometry=area,
        )
        for n in range(1, DAYS + 1)
    ]


@pytest.fixture
def options(tmp_path: Path) -> ReportOptions:
    """A lake of two event types, one notification of it deleted."""
    place = Place(str(tmp_path / "lake"))
    filled(place, [*_mars(), *_storms()])
    append_tombstones(place, [("storms", DAYS, DAYS)], kind=DELETED)
    return ReportOptions(
        place,
        tmp_path / "report.html",
        tables=Place(str(tmp_path / "tables")),
        start=datetime(2026, 1, 9, tzinfo=UTC),
        end=datetime(2026, 1, DAYS + 1, tzinfo=UTC),
    )


def _rows(options: ReportOptions, name: str) -> list[dict[str, object]]:
    assert options.tables is not None
    found: list[dict[str, object]] = (
        DeltaTable(options.tables.table(name)).to_pyarrow_table().select(SCHEMAS[name].names)
    ).to_pylist()
    return found


def test_the_tables_say_what_is_in_the_lake(spark: SparkSession, options: ReportOptions) -> None:
    """Counts, cycles, findings, values and areas, by hand; the page shows them and runs nothing."""
    outcome = run(spark, options)
    reported = DAYS - 8
    assert (outcome.notifications, outcome.event_types) == (4 * reported - 1 + reported - 1, 2)
    assert (outcome.late, outcome.missing) == (2, 1)

    totals = {row["event_type"]: row for row in _rows(options, "sizes")}
    assert totals["mars"]["notifications"] == 4 * reported - 1
    assert totals["storms"]["notifications"] == reported - 1
    assert totals["mars"]["largest"] == len('{"n":55}')
    assert sum(_int(row["notifications"]) for row in _rows(options, "volume")) == (
        outcome.notifications
    )
    assert sum(_int(row["notifications"]) for row in _rows(options, "size_classes")) == (
        outcome.notifications
    )
    _check_findings(options)
    assert {
        (row["field"], row["value"]): (row["notifications"], row["different"])
        for row in _rows(options, "values")
        if row["event_type"] == "mars" and row["field"] in ("step", "time")
    } == {
        ("step", "0"): (2 * reported, 2),
        ("step", "24"): (2 * reported - 1, 2),
        ("time", "0600"): (2 * reported, 2),
        ("time", "1200"): (2 * reported - 1, 2),
    }
    cells = {(row["lat"], row["lon"]): row["notifications"] for row in _rows(options, "areas")}
    assert cells == {(lat, lon): reported - 1 for lat in (40, 42) for lon in (10, 12)}
    assert _rows(options, "delays") == []  # it is long ago: an import
    _check_page(options.output.read_text())


def _check_findings(options: ReportOptions) -> None:
    late_day, missed_day = (date(2026, 1, 1 + day) for day in (LATE_DAY, MISSED_DAY))
    assert [
        (row["day"], row["time"], row["product"], row["kind"], row["usual_s"])
        for row in _rows(options, "findings")
    ] == [
        (missed_day, "12:00", "step=24", "missing", pytest.approx(7200)),
        (late_day, "06:00", "step=0", "late", pytest.approx(7200)),
        (late_day, "06:00", "step=24", "late", pytest.approx(7200)),
    ]
    (cycle,) = [
        row for row in _rows(options, "cycles") if (row["day"], row["time"]) == (late_day, "06:00")
    ]
    assert (cycle["on_time"], cycle["late"], cycle["worst_s"]) == (0, 2, pytest.approx(10_800))


def _check_page(text: str) -> None:
    assert "<script" not in text
    assert "alert(&#39;x&#39;)" in text
    assert "\u202e" not in text
    assert text.count("<title>Notifications,") == 1
    # Nothing is fetched: there is no address in it at all.
    assert not re.search(r"(src|href|url|@import)\s*[=(]", text)
    assert "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in text


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def test_delays_are_from_storage_to_commit(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    """By the commits that archived them, whatever maintenance did to the files later.

    A schema tells which fields are a base time.
    """
    now_ns = int(datetime.now(UTC).timestamp()) * SECOND
    ages = [3600, 1800, 1200, 600, 60]
    for n, age in enumerate(ages, 1):
        filled(place, [record(n, ns=now_ns - age * SECOND, identifier={"day": "2026-01-01"})])
    table_of(place).optimize.compact()
    fields = (DateField(name="day", required=False), TimeField(name="at", required=False))
    schema = Schema(event_type="mars", base="mars", fields=fields)
    options = ReportOptions(
        place,
        tmp_path / "report.html",
        tables=Place(str(tmp_path / "tables")),
        event_types=("mars",),
        days=1,
        schemas={"mars": schema},
    )
    outcome = run(spark, options)
    assert outcome.period.length == timedelta(days=1)
    (every,) = [r for r in _rows(options, "delays") if r["event_type"] is None and not r["day"]]
    assert every["notifications"] == len(ages)
    assert every["p50_s"] == pytest.approx(1200, abs=110)
    assert every["longest_s"] == pytest.approx(3600, abs=110)
    assert "95 % within" in options.output.read_text()
    # A file has up to a day: what came more than one later was imported.
    midnight_ns = now_ns - now_ns % (86_400 * SECOND)
    filled(place, [record(n, ns=midnight_ns - s * SECOND) for n, s in ((6, 86_000), (7, 1))])
    run(spark, options)
    for row in _rows(options, "delays"):
        names = ("p50_s", "p90_s", "p95_s", "p99_s", "longest_s")
        shares = [float(str(row[name])) for name in names]
        assert shares == sorted(shares)
        assert shares[-1] <= timedelta(days=1).total_seconds()
    # Seen once, nothing is learned: told as such.
    assert [row["new"] for row in _rows(options, "cycles")] in ([1], [])
    assert "Nothing is expected yet" in options.output.read_text()


def test_a_lake_without_notifications_gives_a_page_that_says_so(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    """Also where it has notifications, but none in the period."""
    ensure(place, NOTIFICATIONS)
    options = ReportOptions(place, tmp_path / "report.html")
    assert run(spark, options).notifications == 0
    assert "Nothing was announced" in options.output.read_text()
    filled(place, _storms())
    far = datetime(2030, 1, 1, tzinfo=UTC)
    assert run(spark, ReportOptions(place, options.output, end=far)).notifications == 0
    assert "Nothing was announced" in options.output.read_text()


def test_a_report_that_fails_leaves_the_last_one(
    spark: SparkSession, options: ReportOptions
) -> None:
    """A file of the lake is broken: no page, no tables, and one line that says why."""
    options.output.write_text("the last one")
    table = table_of(options.place)
    for uri in table.file_uris():
        path = Path(uri.removeprefix("file://"))
        path.write_bytes(b"PAR1" + b"\0" * 64)
    with pytest.raises(ReportFailed) as caught:
        run(spark, options)
    assert "\n" not in str(caught.value)
    assert "is not a Parquet file" in str(caught.value)
    assert options.output.read_text() == "the last one"
    assert options.tables is not None
    assert not Path(options.tables.path).exists()
    assert {path.name for path in options.output.parent.iterdir()} == {"lake", "report.html"}


def test_a_report_that_cannot_be_made_is_refused_at_once(options: ReportOptions) -> None:
    """Bad paths, unknown event types, periods that end before they begin."""
    output = options.output
    for wrong, words in (
        (ReportOptions(Place("/nowhere"), output), "no lake"),
        (ReportOptions(options.place, output.parent / "no" / "x.html"), "no folder"),
        (ReportOptions(options.place, output.parent), "is a folder"),
        (ReportOptions(options.place, output, event_types=("x",)), "no event type x; it has: mars"),
        (ReportOptions(options.place, output, start=options.end, end=options.start), "before it"),
    ):
        with pytest.raises(Exception, match=words):
            check(wrong)
    check(options)


def test_the_command_distinguishes_wrong_usage_from_failure(options: ReportOptions) -> None:
    """2 and 1, with one line and no page."""
    lake, output = ["--lake", options.place.path], ["--output", str(options.output)]
    for arguments, code, words in (
        (output, 2, "--lake"),
        (lake, 2, "--output"),
        ([*lake, *output, "--from", "yesterday"], 2, "--from"),
        ([*lake, *output, "--from", "2026-01-01", "--days", "3"], 2, "--days"),
        ([*lake, *output, "--event-type", "x"], 1, "has no event type x"),
        (["--lake", "/nowhere", *output], 1, "there is no lake at /nowhere"),
    ):
        result = invoke("pipeline", "report", *arguments)
        assert result.exit_code == code, result.output
        assert words in result.output
    assert not options.output.exists()
