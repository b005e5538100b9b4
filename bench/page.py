"""A view of the console in a real Chromium, and what a reader does there, counted by the page."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession
from support.browser import profile, tab
from support.console import Console

SCRIPT = Path(__file__).with_name("console.js")
GLOW_MS = 2000
"""New areas glow for less than this."""
WITHIN_MS = 120_000


@dataclass(frozen=True, slots=True)
class Frames:
    """How a page did over some seconds."""

    gaps_ms: tuple[float, ...]
    """From one frame to the next."""
    tasks_ms: tuple[float, ...]
    """Of everything that kept the main thread for more than 50 ms."""
    busy_s: float
    """Time of the main thread."""
    counted: dict[str, Any]
    """What else the page noted: see ``console.js``."""

    @property
    def seconds(self) -> float:
        """How long it was counted."""
        return sum(self.gaps_ms) / 1000

    @property
    def rate(self) -> float:
        """Frames a second."""
        return len(self.gaps_ms) / self.seconds


@contextmanager
def shown(browser: Browser, url: str, where: str) -> Iterator["Page"]:
    """A fresh page with a view such as ``live/mars``."""
    with profile(browser) as context, tab(context) as opened:
        # Tests want no motion; a reader sees new areas glow.
        opened.page.emulate_media(reduced_motion="no-preference")
        opened.page.add_init_script(path=SCRIPT)
        console = Console(opened, url)
        console.open(where)
        opened.page.set_default_timeout(WITHIN_MS)
        devtools = opened.context.new_cdp_session(opened.page)
        devtools.send("Performance.enable")
        yield Page(console, devtools)


@dataclass(frozen=True, slots=True)
class Page:
    """A view that is measured."""

    console: Console
    devtools: CDPSession

    def still(self, ms: int = GLOW_MS) -> Frames:
        """Nothing happens: what the machine gives."""
        return self._count(lambda: self._do(f"idle({ms})"))

    def watch(self) -> None:
        """Begin to watch what is published from now on."""
        self.console.press("Watch")
        self.console.state("Live")

    def meanwhile(self, work: Callable[[], None], number: int) -> Frames:
        """Count while something is done beside the page, until it has received so many."""

        def all_of_it() -> dict[str, Any]:
            self._do("begin()")
            beside = threading.Thread(target=work)
            beside.start()
            beside.join()
            self._do(f"reached({number})")
            return self._do("end()")

        return self._count(all_of_it)

    def watch_all(self, number: int) -> Frames:
        """Watch from the first notification on until so many are there."""
        self.console.field("from").select_option("first")
        return self._count(lambda: self._do(f"read({number})"))

    def replay_all(self, number: int) -> None:
        """Read so much history; it can be played back then."""
        self._do(f"read({number})")
        self.console.state("Complete")

    def scroll(self) -> Frames:
        """Scroll by a screen of rows per frame, from the newest to the oldest."""
        return self._count(lambda: self._do("scroll()"))

    def roam(self, ms: int) -> Frames:
        """Drag and zoom the map in every frame, once nothing glows."""
        self.still()
        box = self.console.view.locator("canvas").bounding_box()
        assert box is not None
        mouse = self.console.page.mouse
        mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        mouse.down()
        frames = self._count(lambda: self._do(f"roam({ms})"))
        mouse.up()
        return frames

    def pull(self, steps: int, *, back: bool) -> Frames:
        """Pull the slider of the replay over all of it, one step per frame."""
        return self._count(lambda: self._do(f"pull({steps}, {str(back).lower()})"))

    def heap_mib(self) -> float:
        """Memory of the page's objects that are in use."""
        self.devtools.send("HeapProfiler.collectGarbage")
        return self._metric("JSHeapUsedSize") / 2**20

    def _count(self, work: Callable[[], dict[str, Any]]) -> Frames:
        before = self._metric("TaskDuration")
        counted = work()
        busy = self._metric("TaskDuration") - before
        return Frames(tuple(counted.pop("gaps")), tuple(counted.pop("tasks")), busy, counted)

    def _do(self, call: str) -> dict[str, Any]:
        return self.console.page.evaluate(f"bench.{call}") or {}

    def _metric(self, name: str) -> float:
        answer = self.devtools.send("Performance.getMetrics")
        return next(float(one["value"]) for one in answer["metrics"] if one["name"] == name)
