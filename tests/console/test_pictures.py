"""A day of weather in the console: every view with what it is made for, and its picture.

``make pictures`` keeps the pictures for the documentation; here they only show that each view
holds what it should.
"""

import math
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, expect
from support.browser import tab
from support.console import WITHIN_MS, Console, notify_many
from support.process import ServerProcess, server_process

EXAMPLE = Path(__file__).parents[2] / "examples" / "config.yaml"
HAZARDS = ("wind gusts above 30 m/s", "heavy rain", "heat wave", "thunderstorms", "heavy snow")
TRACKS = ((48.0, -12.0, 6.0), (58.0, 2.0, 5.0), (38.0, 12.0, 3.5), (33.0, -75.0, 3.0))
"""Where storms begin (latitude, longitude) and how fast they go east."""
STORMS = 8 * len(TRACKS)
TAKEN = "AVISO_PICTURES" in os.environ
"""Somebody wants the pictures: then the archive job runs too, for which the tests need not wait."""
ARCHIVED_MS = 120_000


def storm(chance: random.Random, lat: float, lon: float, size: float) -> list[list[float]]:
    """A ring around a place."""
    corners = chance.randint(7, 10)
    ring = []
    for corner in range(corners):
        turn = 2 * math.pi * corner / corners
        reach = size * chance.uniform(0.75, 1.1)
        ring.append([lat + reach * math.sin(turn), lon + 1.4 * reach * math.cos(turn)])
    ring = [[round(a, 2), round(b, 2)] for a, b in ring]
    return [*ring, ring[0]]


def weather() -> list[dict[str, Any]]:
    """Storms that wander, and the fields and products of four cycles; the same every time."""
    chance = random.Random(2026)
    items: list[dict[str, Any]] = []
    for hour in range(24):
        facts = {"date": "20260304", "time": f"{hour:02}00"}
        for lat, lon, speed in TRACKS if hour % 3 == 0 else ():
            ring = storm(chance, lat + 0.3 * hour, lon + speed * hour / 5, 1.5 + hour / 8)
            hazard = {"hazard": chance.choice(HAZARDS), "probability": chance.randint(40, 99) / 100}
            place = {**facts, "polygon": ring}
            items.append({"event_type": "test_polygon", "identifier": place, "payload": hazard})
        for step in range(0, 60, 6):
            field = {"class": "od", "expver": "0001", "domain": "g", "stream": "oper"}
            field |= {**facts, "time": f"{hour // 6 * 6:02}00", "step": str(step)}
            where = {"location": f"s3://archive/oper/{hour:02}/{step:03}.grib"}
            items.append({"event_type": "mars", "identifier": field, "payload": where})
        warned = {"region": chance.choice(["north", "south", "east", "west"])}
        warned |= {"run_time": facts["time"], "severity": str(chance.randint(1, 7))}
        warned["anomaly"] = str(chance.randint(0, 1500) / 10)
        items.append({"event_type": "extreme_event", "identifier": warned})
    return items


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The example configuration, with a history."""
    folder = tmp_path_factory.mktemp("pictures")
    config = yaml.safe_load(EXAMPLE.read_text())
    config["notification_backend"]["jetstream"]["store_dir"] = str(folder / "nats")
    config["lake"] = {"path": str(folder / "lake"), "archive": "managed" if TAKEN else "off"}
    config["logging"] = {"level": "info"}
    with server_process(config, folder) as running:
        notify_many(running.url, weather())
        yield running


def watch_storms(console: Console) -> None:
    console.open("live/test_polygon")
    console.field("date").fill("2026-03-04")
    console.field("from").select_option("first")
    console.press("Watch")
    console.counted(STORMS)
    console.press("Show everything")
    console.view.locator(".table-row").nth(2).hover()


def test_the_live_view(browser: Browser, busy: ServerProcess) -> None:
    """Storms on the map and in the table."""
    with tab(browser) as opened:
        console = Console(opened, busy.url)
        watch_storms(console)
        console.shapes(f"{STORMS} areas on the map")
        opened.shoot("console-live")


def test_the_live_view_in_the_dark_with_details(browser: Browser, busy: ServerProcess) -> None:
    """One of them looked at."""
    with tab(browser, dark=True) as opened:
        console = Console(opened, busy.url)
        watch_storms(console)
        console.view.locator(".table").focus()
        console.page.keyboard.press("ArrowDown")
        console.page.keyboard.press("Enter")
        expect(console.view.locator(".details h2")).to_have_text(f"test_polygon@{STORMS}")
        opened.shoot("console-dark")


def test_the_overview(browser: Browser, busy: ServerProcess) -> None:
    """Counts of all event types, and a curve while something is published."""
    with tab(browser) as opened:
        console = Console(opened, busy.url)
        console.open("overview")
        mars = console.view.locator('.card[data-event="mars"]')
        expect(mars).to_contain_text("240", timeout=WITHIN_MS)
        expect(console.view.locator('.card[data-event="extreme_event"]')).to_contain_text("1 to 24")
        if TAKEN:
            up_to_date = console.view.get_by_text("up to date")
            expect(up_to_date).to_be_visible(timeout=ARCHIVED_MS)
            for _ in range(12):
                notify_many(busy.url, [item for item in weather() if item["event_type"] == "mars"])
                console.page.wait_for_timeout(1500)
        opened.shoot("console-overview")


def test_the_replay(browser: Browser, busy: ServerProcess) -> None:
    """A day, half of it played back."""
    with tab(browser) as opened:
        console = Console(opened, busy.url)
        console.open("replay/test_polygon")
        console.field("date").fill("2026-03-04")
        console.press("Replay")
        console.state("Complete")
        console.counted(STORMS)
        console.press("Show everything")
        slider = console.field("Moment of history")
        slider.focus()
        console.page.keyboard.press("PageDown")
        console.page.keyboard.press("PageDown")
        expect(console.view.locator(".counters dd").first).not_to_have_text(str(STORMS))
        opened.shoot("console-replay")


def test_publishing(browser: Browser, busy: ServerProcess) -> None:
    """An area drawn on the map, published, and told."""
    with tab(browser) as opened:
        console = Console(opened, busy.url)
        console.open("publish/test_polygon")
        console.field("date").fill("2026-03-05")
        console.field("time").fill("12:00")
        console.field("payload").fill('{"hazard": "heavy rain", "probability": 0.8}')
        console.press("Draw on the map")
        console.click_map((0.48, 0.2), (0.54, 0.17), (0.57, 0.26), (0.5, 0.3))
        console.page.keyboard.press("Enter")
        console.press("Publish")
        expect(console.view.locator(".done li")).to_contain_text("polygon.20260305.1200")
        opened.shoot("console-publish")


def test_on_a_phone(browser: Browser, busy: ServerProcess) -> None:
    """The same on a small screen: the form first, then what comes."""
    with tab(browser, phone=True) as opened:
        console = Console(opened, busy.url)
        watch_storms(console)
        console.view.locator(".results").scroll_into_view_if_needed()
        opened.shoot("console-phone")
