"""Take the pictures of the console in docs/pictures again: a day of weather in every view.

``make pictures`` runs it, on the example configuration and in a real browser. It stops where a view
does not show what its picture is about.
"""

import math
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import yaml
from PIL import Image
from playwright.sync_api import Browser, expect
from support.browser import Tab, chromium, profile, tab
from support.console import WITHIN_MS, Console, notify_many
from support.process import server_process

EXAMPLE = Path(__file__).parents[1] / "examples" / "config.yaml"
HAZARDS = ("wind gusts above 30 m/s", "heavy rain", "heat wave", "thunderstorms", "heavy snow")
TRACKS = ((48.0, -12.0, 6.0), (58.0, 2.0, 5.0), (38.0, 12.0, 3.5), (33.0, -75.0, 3.0))
"""Where storms begin (latitude, longitude) and how fast they go east."""
STORMS = 8 * len(TRACKS)
ARCHIVED_MS = 120_000
PALETTE = 256
"""Colours in a picture."""


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
    chance = random.Random(2026)  # noqa: S311 - weather, not secrets
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


def reduced(screenshot: bytes) -> Image.Image:
    """A screenshot with a palette, which makes the file a third as large and looks the same."""
    # A page has few colours. This method keeps rare ones, such as the light of a state.
    taken = Image.open(BytesIO(screenshot)).convert("RGB")
    return taken.quantize(PALETTE, Image.Quantize.MAXCOVERAGE, kmeans=1)


@contextmanager
def picture(
    file: Path, browser: Browser, *, phone: bool = False, dark: bool = False
) -> Iterator[Tab]:
    """A page whose picture is taken when the block has ended well."""
    with profile(browser, phone=phone, dark=dark) as own, tab(own) as opened:
        yield opened
        reduced(opened.page.screenshot()).save(file, optimize=True)


def watch_storms(console: Console) -> None:
    console.open("live/test_polygon")
    console.field("date").fill("2026-03-04")
    console.field("from").select_option("first")
    console.press("Watch")
    console.counted(STORMS)
    console.press("Show everything")
    console.view.locator(".table-row").nth(2).hover()


def live(folder: Path, browser: Browser, url: str) -> None:
    """Storms on the map and in the table."""
    with picture(folder / "console-live.png", browser) as opened:
        console = Console(opened, url)
        watch_storms(console)
        console.shapes(f"{STORMS} areas on the map")


def dark(folder: Path, browser: Browser, url: str) -> None:
    """One of them opened."""
    with picture(folder / "console-dark.png", browser, dark=True) as opened:
        console = Console(opened, url)
        watch_storms(console)
        console.view.locator(".table").focus()
        console.page.keyboard.press("ArrowDown")
        console.page.keyboard.press("Enter")
        expect(console.view.locator(".details h2")).to_have_text(f"test_polygon@{STORMS}")


def overview(folder: Path, browser: Browser, url: str) -> None:
    """Counts of all event types, and a curve while something is published."""
    with picture(folder / "console-overview.png", browser) as opened:
        console = Console(opened, url)
        console.open("overview")
        mars = console.view.locator('.card[data-event="mars"]')
        expect(mars).to_contain_text("240", timeout=WITHIN_MS)
        expect(console.view.locator('.card[data-event="extreme_event"]')).to_contain_text("1 to 24")
        expect(console.view.get_by_text("up to date")).to_be_visible(timeout=ARCHIVED_MS)
        more = [item for item in weather() if item["event_type"] == "mars"]
        for times in range(2, 8):  # the curve has a point for each look at the server
            notify_many(url, more)
            expect(mars).to_contain_text(f"{times * len(more):,}", timeout=WITHIN_MS)


def replay(folder: Path, browser: Browser, url: str) -> None:
    """A day, half of it played back."""
    with picture(folder / "console-replay.png", browser) as opened:
        console = Console(opened, url)
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


def publish(folder: Path, browser: Browser, url: str) -> None:
    """An area drawn on the map, published, and told."""
    with picture(folder / "console-publish.png", browser) as opened:
        console = Console(opened, url)
        console.open("publish/test_polygon")
        console.field("date").fill("2026-03-05")
        console.field("time").fill("12:00")
        console.field("payload").fill('{"hazard": "heavy rain", "probability": 0.8}')
        console.press("Draw on the map")
        console.click_map((0.48, 0.2), (0.54, 0.17), (0.57, 0.26), (0.5, 0.3))
        console.page.keyboard.press("Enter")
        console.press("Publish")
        expect(console.view.locator(".done li")).to_contain_text("polygon.20260305.1200")


def phone(folder: Path, browser: Browser, url: str) -> None:
    """The same on a small screen: the form first, then what comes."""
    with picture(folder / "console-phone.png", browser, phone=True) as opened:
        console = Console(opened, url)
        watch_storms(console)
        console.view.locator(".results").scroll_into_view_if_needed()


def main(folder: Path) -> None:
    """All of them, with the archive job at work."""
    config = yaml.safe_load(EXAMPLE.read_text())
    with tempfile.TemporaryDirectory() as place:
        config["notification_backend"]["jetstream"]["store_dir"] = f"{place}/nats"
        config["lake"] = {"path": f"{place}/lake", "archive": "managed"}
        config["logging"] = {"level": "info"}
        with server_process(config, Path(place)) as busy, chromium() as browser:
            notify_many(busy.url, weather())
            for take in (live, dark, overview, replay, publish, phone):
                take(folder, browser, busy.url)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
