"""Working with the rows: search, sort, columns, export, keys, links."""

import csv
import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from support.browser import Tab
from support.console import WITHIN_MS, Console, notify

RING = [[50.0, 170.0], [50.0, 175.0], [60.0, 175.0], [50.0, 170.0]]
ITEM = {
    "id": "mars@7",
    "sequence": 7,
    "time": "2026-03-04T10:00:00.5Z",
    "data": {
        "identifier": {"class": "od", "step": "24", "a.b": "dotted"},
        "payload": {
            "location": "https://x.example/Über.grib2",
            "files": [{"size": 12}],
            "no": None,
        },
    },
}
SEARCH = """async ([item, searches]) => {
  const { searchOf } = await import("/static/console/results/search.js");
  return searches.map((text) => searchOf(text)?.(item) ?? null);
}"""


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("", None),
        ("  ", None),
        ("od", True),
        ("OD über", True),
        ("od nothing", False),
        ('"https://x"', True),
        ('"od 24"', False),
        ("step=24", True),
        ("step=024", False),
        ("step>=24", True),
        ("step>100", False),
        ("step<100", True),
        ("class!=od", False),
        ("class~D", True),
        ('class="od"', True),
        ("payload.location~GRIB2", True),
        ("payload.files.0.size>11", True),
        ("payload.files.0.size>12", False),
        ("payload.none=1", False),
        ("payload.no=null", False),
        ("a.b=dotted", True),
        ("sequence=7", True),
        ("time>2026-03-04", True),
        ("constructor~function", False),
        ("payload.constructor~function", False),
        ("step>", True),
        ("=24", False),
    ],
)
def test_what_a_search_finds(page: Tab, search: str, found: bool | None) -> None:
    """Words and conditions, all of which must hold; what is no condition is a word."""
    assert page.page.evaluate(SEARCH, [ITEM, [search]]) == [found]


@pytest.fixture
def held(console: Console) -> tuple[Console, list[int]]:
    """A replay of four notifications, and their sequences."""
    wanted = [
        notify(
            console.url,
            "area",
            {"date": f"2026110{day}", "polygon": RING},
            {"size": size, "where": {"location": f"https://data.example/{size}.grib2"}},
        )
        for day, size in [(3, 9), (1, 100), (2, 20), (3, 9)]
    ]
    console.open(f"replay/area?.from={wanted[0]}&.to={wanted[-1]}&.run=")
    console.counted(4)
    return console, wanted


def test_rows_are_searched_and_sorted_and_a_link_says_so(held: tuple[Console, list[int]]) -> None:
    """A search narrows, a head sorts by numbers as numbers, a reload shows the same."""
    console, wanted = held
    first, second, third, fourth = wanted
    search = console.field("Search in these notifications")
    console.page.keyboard.press("/")
    expect(search).to_be_focused()
    search.fill("payload.size>=9 date!=20261101")
    expect(console.view.get_by_text("3 of 4")).to_be_visible()
    console.shows(fourth, third, first)
    search.fill("")
    console.view.locator("summary", has_text="Columns").click()
    console.view.get_by_label("payload.size", exact=True).check()
    console.view.get_by_label("date", exact=True).last.uncheck()
    head = console.view.get_by_role("columnheader", name="payload.size")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    console.shows(fourth, first, third, second)
    head.get_by_role("button").click()
    console.shows(second, third, fourth, first)
    expect(console.page).to_have_url(re.compile(r"\.sort=-payload\.size"))
    console.page.reload()
    console.counted(4)
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(console.view.get_by_role("columnheader", name="date")).to_have_count(0)
    console.shows(second, third, fourth, first)
    head.get_by_role("button").click()
    console.shows(fourth, third, second, first)


def test_what_comes_while_one_searches_is_searched_too(console: Console) -> None:
    """New rows appear only if they are meant; sorted ones find their place."""
    console.open("live/searched?.search=region%3Dyes&.run=")
    console.state("Live")
    for region in ("no", "yes", "no", "yes"):
        notify(console.url, "searched", {"region": region})
    console.counted(4)
    expect(console.view.get_by_text("2 of 4")).to_be_visible()
    console.shows(4, 2)


def test_what_is_shown_can_be_taken_along(held: tuple[Console, list[int]], tmp_path: Path) -> None:
    """NDJSON has whole notifications, CSV the columns, GeoJSON places with longitude first."""
    console, wanted = held
    console.field("Search in these notifications").fill("date=20261102")
    expect(console.view.get_by_text("1 of 4")).to_be_visible()
    taken: dict[str, str] = {}
    for name in ("NDJSON", "CSV", "GeoJSON"):
        console.view.locator("summary", has_text="Export").click()
        with console.page.expect_download() as download:
            console.press(name)
        download.value.save_as(tmp_path / name)
        taken[name] = (tmp_path / name).read_text()
    (line,) = taken["NDJSON"].splitlines()
    event: dict[str, Any] = json.loads(line)
    assert (event["sequence"], event["specversion"]) == (wanted[2], "1.0")
    head, row = csv.reader(StringIO(taken["CSV"]))
    assert head == ["#", "stored (UTC)", "date", "payload"]
    assert row[:3] == [str(wanted[2]), event["time"], "20261102"]
    assert json.loads(row[3]) == event["data"]["payload"]
    (feature,) = json.loads(taken["GeoJSON"])["features"]
    assert feature["geometry"] == {
        "type": "Polygon",
        "coordinates": [[[lon, lat] for lat, lon in RING]],
    }
    assert feature["properties"]["payload"] == event["data"]["payload"]
    assert "polygon" not in feature["properties"]


def test_keys_move_and_addresses_are_links(held: tuple[Console, list[int]]) -> None:
    """j and k like the arrows; an https address in a payload leads there and tells nothing."""
    console, wanted = held
    console.view.get_by_role("grid").focus()
    for key in ("j", "j", "k", "Enter"):
        console.page.keyboard.press(key)
    link = console.view.locator(".details pre a")
    expect(console.view.locator(".details h2")).to_have_text(f"area@{wanted[3]}", timeout=WITHIN_MS)
    expect(link).to_have_text("https://data.example/9.grib2")
    assert link.get_attribute("rel") == "noopener noreferrer"
