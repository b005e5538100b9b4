"""How smooth the console is: a real Chromium, headless, on a real server.

Frames are counted in the page, by the callbacks of ``requestAnimationFrame``. Every figure is of
one run. A page that shows other rows than were published is an error, not a figure.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from bench.figures import Skipped, Value
from bench.page import Frames, Page, shown
from bench.served import Conditions, served
from bench.spread import Producer, Sent, areas, clouds
from playwright.sync_api import Browser
from support.browser import chromium, executable

RATE = 1000
"""Notifications a second of the burst."""
BATCH = 50
STORED = 5000
"""In a request, when history is made."""
HELD = 10_000
"""Rows that the console's table keeps."""
DRAWN = 1000
"""Shapes that its map draws."""
CLOUDS = 25
POINTS = 4000
"""In each cloud: about as many as the server takes with one decimal."""
MOVING_MS = 3000
PULLS = 150
"""Steps of the slider, in one direction."""

Progress = Callable[[str], None]


def smoothness(
    burst_s: int, stored: int, conditions: Conditions, progress: Progress
) -> Iterator[Value | Skipped]:
    """What a reader would notice, from an idle page to a flood."""
    if executable() is None:
        yield Skipped("console", "no Chromium; install it, or set CHROMIUM to its path")
        return
    yield Value("load average at the start", "", (os.getloadavg()[0],))
    burst = burst_s * RATE
    stored = max(stored, burst)
    with served(conditions, "console") as server, chromium() as browser:
        producer, url = Producer(server.port), f"http://127.0.0.1:{server.port}"
        yield from _live(browser, url, producer, burst, progress)
        progress(f"console: a replay of {burst:,}")
        with shown(browser, url, "replay/test_polygon") as page:
            page.replay_all(burst)
            for way, back in (("back", True), ("forth", False)):
                yield from _smooth(f"slider over {burst:,}, {way}", page.pull(PULLS, back=back))
        progress(f"console: a history of {stored:,}")
        producer.send(list(areas(stored - burst, seed=2)), batch=STORED)
        with shown(browser, url, "live/test_polygon") as page:
            yield from _history(page, stored)


def _live(
    browser: Browser, url: str, producer: Producer, burst: int, progress: Progress
) -> Iterator[Value]:
    with shown(browser, url, "live/test_polygon") as page:
        progress("console: an idle page")
        idle = "idle page", page.still(MOVING_MS)
        yield from _smooth(*idle)
        empty = "map without shapes", page.roam(MOVING_MS)
        yield from _smooth(*empty, idle)
        progress(f"console: {burst:,} notifications, {RATE:,} a second")
        yield from _burst(page, producer, burst, idle)
        progress("console: scrolling, and moving the map")
        yield from _scroll(page, burst, idle)
        polygons = page.roam(MOVING_MS)
        yield from _smooth(f"map with {min(burst, DRAWN):,} polygons", polygons, empty)
    producer.send(list(clouds(CLOUDS, POINTS)), batch=CLOUDS)
    with shown(browser, url, "live/observations") as page:
        progress("console: clouds of points")
        page.watch_all(CLOUDS)
        points = page.roam(MOVING_MS)
        yield from _smooth(f"map with {CLOUDS} clouds of {POINTS:,} points", points, empty)


def _burst(
    page: Page, producer: Producer, number: int, idle: tuple[str, Frames]
) -> Iterator[Value]:
    """Publish while the page watches: does it keep up, and at what cost?"""
    items = list(areas(number))
    page.watch()
    before = page.heap_mib()
    frames = page.meanwhile(lambda: producer.send(items, batch=BATCH, every_s=BATCH / RATE), number)
    name = f"burst of {RATE:,}/s"
    yield from _smooth(name, frames, idle)
    tasks = frames.tasks_ms
    yield Value(f"{name}: long tasks", "tasks", (len(tasks),))
    yield Value(f"{name}: long tasks, together", "ms", (sum(tasks),))
    yield Value(f"{name}: long tasks, longest", "ms", (max(tasks, default=0),))
    delays = tuple(_delays(producer.sent, frames.counted["seen"]))
    yield Value(f"{name}: sent", "/s", (_rate(producer.sent),))
    yield Value(f"{name}: from publish to screen, median", "ms", (median(delays),))
    yield Value(f"{name}: from publish to screen, longest", "ms", (max(delays),))
    yield Value(f"{name}: heap before", "MiB", (before,))
    yield Value(f"{name}: heap after", "MiB", (page.heap_mib(),))


def _scroll(page: Page, number: int, idle: tuple[str, Frames]) -> Iterator[Value]:
    """Every row that the table keeps must be there, and once."""
    frames = page.scroll()
    rows = min(number, HELD)
    if frames.counted["rows"] != list(range(number, number - rows, -1)):
        raise SystemExit("the table does not show what was published, each once")
    yield from _smooth(f"scrolling {rows:,} rows", frames, idle)


def _history(page: Page, number: int) -> Iterator[Value]:
    """As fast as the server sends."""
    frames = page.watch_all(number)
    name = f"watch from the beginning, {number:,}"
    yield from _smooth(name, frames)
    yield Value(f"{name}: all shown after", "s", (frames.seconds,))


def _smooth(
    name: str, frames: Frames, against: tuple[str, Frames] | None = None
) -> Iterator[Value]:
    yield Value(f"{name}: frames", "/s", (frames.rate,))
    if against is not None:
        other, base = against
        yield Value(f"{name}: frames v. {other}", "%", (100 * frames.rate / base.rate,))
    yield Value(f"{name}: longest gap", "ms", (max(frames.gaps_ms),))
    yield Value(f"{name}: main thread busy", "%", (100 * frames.busy_s / frames.seconds,))


def _rate(sent: Sequence[Sent]) -> float:
    return 1000 * (sent[-1].last - sent[0].last) / (sent[-1].at_ms - sent[0].at_ms)


def _delays(sent: Sequence[Sent], seen: Sequence[Sequence[float]]) -> Iterator[float]:
    """From sending each request to the frame that counted the last notification in it."""
    frames = iter(seen)
    shown_at, _, last = next(frames)
    for one in sent:
        while last < one.last:
            shown_at, _, last = next(frames)
        yield shown_at - one.at_ms
