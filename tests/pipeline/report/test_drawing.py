"""Numbers as people read them, markup that stays text, cells of the globe. No Spark."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from shapely import Point, Polygon, box, to_wkb

from aviso_server.pipeline.report.areas import CELL, COLUMNS, tally
from aviso_server.pipeline.report.globe import world
from aviso_server.pipeline.report.lateness import describe_products, group_findings
from aviso_server.pipeline.report.markup import tag
from aviso_server.pipeline.report.scale import (
    count,
    duration,
    percent,
    shades,
    size,
    ticks,
    time_ticks,
)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (count(0), "0"),
        (count(999), "999"),
        (count(1234), "1.23 k"),
        (count(45_600_000), "45.6 M"),
        (size(0), "0 B"),
        (size(999.7), "1 kB"),
        (size(123_456), "123 kB"),
        (duration(0.012), "12 ms"),
        (duration(59), "59 s"),
        (duration(3599), "59 min 59 s"),
        (duration(5400), "1 h 30 min"),
        (duration(200_000), "2 d 8 h"),
        (percent(1, 100_000), "< 0.1 %"),
        (percent(0, 5), "0 %"),
        (percent(1, 3), "33 %"),
    ],
)
def test_numbers_are_reported_in_units_that_fit(shown: str, text: str) -> None:
    """Two or three digits are enough."""
    assert shown == text


@given(st.floats(0, 1e15))
def test_an_axis_reaches_its_largest_value_in_few_steps(most: float) -> None:
    """From 0, evenly."""
    lines = ticks(most)
    assert lines[0] == 0
    assert lines[-1] >= most * (1 - 1e-8)
    assert 2 <= len(lines) <= 6
    assert lines == sorted(set(lines))


@given(st.floats(0, 1e7))
def test_an_axis_of_time_has_steps_of_clocks(most: float) -> None:
    """Quarters of an hour rather than thousands of seconds."""
    lines = time_ticks(most)
    assert lines[0] == 0
    assert lines[-1] >= most * (1 - 1e-8)
    assert 2 <= len(lines) <= 7
    assert time_ticks(4000) == [0, 900, 1800, 2700, 3600, 4500]


@given(st.lists(st.integers(0, 10**9)))
def test_a_shade_grows_with_its_value(values: list[int]) -> None:
    """Only nothing has none."""
    made = shades(values, steps=7)
    pairs = sorted(zip(values, made, strict=True))
    assert [shade for _, shade in pairs] == sorted(made)
    assert all((value == 0) == (shade == 0) and shade <= 7 for value, shade in pairs)


@given(st.text())
def test_text_never_becomes_markup(text: str) -> None:
    """Neither within an element nor in an attribute."""
    made = tag("p", text, title=text)
    assert isinstance(made, Markup)
    assert made.count("<") == 2
    assert made.count('"') == 2
    assert "\x00" not in made


def test_a_place_counts_in_the_cells_that_it_touches() -> None:
    """A point in one, a bow-tie in those of its wings, the whole globe in all."""
    point = to_wkb(Point(10.5, 47.5))
    totals = tally([point, point], np.array([3, 4]))
    (cell,) = np.flatnonzero(totals).tolist()
    assert totals[cell] == 7
    assert (cell // COLUMNS * CELL - 90, cell % COLUMNS * CELL - 180) == (46, 10)
    bow = Polygon([(0, 0), (10, 10), (10, 0), (0, 10), (0, 0)])
    assert tally([to_wkb(bow)], np.array([1])).sum() < 5 * 5
    assert tally([to_wkb(bow)], np.array([1])).sum() > 10
    assert (tally([to_wkb(box(-180, -90, 180, 90))], np.array([2])) == 2).all()
    assert tally([], np.array([], np.int64)).sum() == 0


def test_the_map_shows_what_lies_beyond_its_usual_edge() -> None:
    """Antarctica is cut off unless it is announced."""
    assert 'viewBox="0 60 3600 1480"' in world({(0, 0): 5, (0, 2): 5}, side=2)
    assert 'viewBox="0 60 3600 1740"' in world({(-90, 0): 5}, side=2)
    assert world({(0, 0): 5, (0, 2): 5}, side=2).count("M1800 880h40v20h-40z") == 1


def test_findings_are_reported_by_cycle_with_what_they_have_in_common() -> None:
    """Sixty steps of one stream are one line."""
    rows = [
        {
            "event_type": "mars",
            "day": date(2026, 1, 2),
            "time": "06:00",
            "kind": "late",
            "product": f"class=od, step={step}, stream=enfo",
            "delay_s": 7200.0 + step,
            "usual_s": 3600.0,
        }
        for step in range(60)
    ]
    missed = {**rows[0], "kind": "missing", "delay_s": None, "product": ""}
    late, missing = group_findings([missed, *rows])
    assert (late.count, late.worst_s, missing.count) == (60, 3659.0, 1)
    different = {"class": 1, "step": 85, "stream": 2}
    assert describe_products(late.fields, different) == "step 0 to 59 (60); stream enfo"
    assert describe_products(missing.fields, different) == "of every kind"
    assert describe_products({"x": {"b", "a", "10", "c"}}, {"x": 9}) == "4 values of x"
