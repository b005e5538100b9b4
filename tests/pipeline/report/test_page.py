"""The page from figures that were never in a lake. No Spark."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser

import pyarrow as pa
import pytest

from aviso_server.pipeline.report.figures import (
    OTHERS,
    SCHEMAS,
    Figures,
    Period,
    empty_tables,
)
from aviso_server.pipeline.report.page import page
from aviso_server.pipeline.report.sections import buckets

START = datetime(2026, 1, 1, tzinfo=UTC)
MANY = 100


def _table(name: str, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    types = zip(columns, SCHEMAS[name], strict=True)
    return pa.table([pa.array(c, f.type) for c, f in types], schema=SCHEMAS[name])


def _figures(*, days: int = 3) -> Figures:
    """Many event types, most of them among the others."""
    names = [f"type-{n:03d}" for n in range(MANY)]
    told = [*names[:30], OTHERS]
    hour = timedelta(hours=1)
    tables = empty_tables() | {
        "sizes": _table("sizes", [(n, 10, 1000, 90, 100, 100, 120, START + hour) for n in names]),
        "volume": _table("volume", [(n, START + hour, 10, 1000) for n in told]),
        "size_classes": _table("size_classes", [(n, 6, 10) for n in told]),
        "delays": _table(
            "delays",
            [(n, None, 10, 1.0, 2.0, 3.0, 4.0, 5.0) for n in (*told, None)]
            + [(None, date(2026, 1, 1), 10, 1.0, 2.0, 3.0, 4.0, 5.0)],
        ),
        "areas": _table("areas", [(OTHERS, 88, 178, 3)]),
    }
    period = Period(START, START + timedelta(days=days))
    return Figures("lake", 7, START, period, hour, tables)


class _Elements(HTMLParser):
    """Checks that elements are closed in the order they were opened."""

    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        """Opened."""
        self.seen.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Closed."""
        assert self.open.pop() == tag


def test_the_page_is_well_formed_with_more_event_types_than_colours() -> None:
    """What has no colour of its own is still there, and added up."""
    text = page(_figures())
    elements = _Elements()
    elements.feed(text)
    assert elements.open == []
    assert elements.seen.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert OTHERS in text
    assert "type-059" in text
    assert 'class="f9' not in text
    assert "swatch f9" not in text
    assert "Nothing is expected yet" in text


def test_a_heat_map_stays_readable_whatever_the_history() -> None:
    """Years of cycles at every minute: the newest days and the worst cycles are drawn."""
    rows: list[tuple[object, ...]] = [
        ("mars", date(2024, 1, 1) + timedelta(days=day), f"{n // 60:02d}:{n % 60:02d}",
         5, int(n == 1439), 0, 0, 0, 60.0)
        for day in range(0, 700, 7)
        for n in (*range(0, 1440, 36), 1439)
    ]  # fmt: skip
    figures = _figures()
    text = page(replace(figures, tables={**figures.tables, "cycles": _table("cycles", rows)}))
    assert text.count('class="cell ') <= 24 * 92
    assert "23:59" in text
    assert 'width="-' not in text


def test_what_producers_wrote_stays_text() -> None:
    """In names, values and findings; characters that turn the line around are replaced."""
    nasty = "</title><script>alert('x')</script>&\x00\u202e"
    values: list[tuple[object, ...]] = [
        ("type-000", "step", 1, nasty, 9, 2),
        ("type-000", "step", 2, "", 1, 2),
    ]
    cycle = (nasty, date(2026, 1, 1), "00:00", 5, 1, 0, 0, 0, 60.0)
    finding = (nasty, date(2026, 1, 1), "00:00", f"name={nasty}", "late", 7200.0, 3600.0)
    figures = _figures()
    tables = {
        **figures.tables,
        "values": _table("values", values),
        "cycles": _table("cycles", [cycle]),
        "findings": _table("findings", [(*finding, 5400.0)]),
        "areas": _table("areas", [(nasty, 88, 178, 3)]),
    }
    text = page(replace(figures, lake=nasty, tables=tables))
    elements = _Elements()
    elements.feed(text)
    assert elements.open == []
    assert "script" not in elements.seen
    assert text.count("&lt;script&gt;") >= 6
    assert "\x00" not in text
    assert "\u202e" not in text


def test_a_page_about_nothing_says_so() -> None:
    """And draws nothing."""
    text = page(replace(_figures(), tables=empty_tables()))
    assert "Nothing was announced" in text
    assert "<svg" not in text


@pytest.mark.parametrize("days", [1, 3, 30, 92, 365, 3650, 36_500])
def test_bars_are_few_and_cover_the_period(days: int) -> None:
    """From an hour to a century."""
    figures = _figures(days=days)
    starts, each = buckets(figures)
    assert starts[0] <= figures.period.start
    assert starts[-1] < figures.period.end <= starts[-1] + each
    assert len(starts) <= 130
    assert page(figures)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (10, "of 10 known"),
        (20, "95 % within"),
        (9, "for all but 9 of 20"),
        (None, "nothing archived"),
    ],
)
def test_a_median_of_few_is_not_given_for_all(known: int | None, said: str) -> None:
    """The tile says of how many it speaks, and nothing where these are less than half."""
    figures = _figures()
    days = [] if known is None else [None, START.date()]
    rows = [(None, day, known, 1.0, 2.0, 3.0, 4.0, 5.0) for day in days]
    sizes = _table("sizes", [("ev", 20, 1000, 90, 100, 100, 120, START)])
    told = {"delays": _table("delays", rows) if rows else empty_tables()["delays"], "sizes": sizes}
    text = page(replace(figures, tables={**empty_tables(), **told}))
    assert said in text
    assert (">unknown<" in text) == (known == 9)
