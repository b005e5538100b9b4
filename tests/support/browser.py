"""A real Chromium, driven by Playwright; the recipe of ``make test`` installs it.

Every page must stay clean: an error on its console, an exception nobody caught or a request that
the content security policy stopped fails the test that opened it.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = """\
No Chromium found; the tests of the console need one. Install it, or set CHROMIUM to its path:
  Debian    apt-get install chromium
  Fedora    dnf install chromium
  macOS     brew install --cask chromium"""
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
PALETTE = 256
"""Colours in a picture."""


def executable() -> str | None:
    """Where Chromium is; None when there is none."""
    chosen = os.environ.get("CHROMIUM")
    return next(filter(None, map(shutil.which, [chosen] if chosen else NAMES)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser of its own, closed with the block."""
    found = executable()
    assert found, MISSING
    with sync_playwright() as playwright:
        # Root has no sandbox to put it in, and containers have little shared memory.
        flags = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=found, args=flags)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Tab:
    """One page in a context of its own, and what it complained about."""

    page: Page
    context: BrowserContext
    complaints: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    """Parts of complaints that this test provokes, such as the browser's note of a 401."""

    def shoot(self, name: str) -> None:
        """Take a picture for the documentation, if somebody wants pictures: ``make pictures``."""
        if folder := os.environ.get("AVISO_PICTURES"):
            taken = Image.open(BytesIO(self.page.screenshot())).convert("RGB")
            # A page has few colours: a palette makes the file a third as large and looks the same.
            # This method keeps rare ones, such as the light of a state.
            small = taken.quantize(PALETTE, Image.Quantize.MAXCOVERAGE, kmeans=1)
            small.save(Path(folder) / f"{name}.png", optimize=True)

    def check(self) -> None:
        """Fail if the page complained about something the test did not provoke."""
        surprises = [
            text for text in self.complaints if not any(part in text for part in self.expected)
        ]
        assert not surprises, surprises


@contextmanager
def tab(browser: Browser, *, phone: bool = False, dark: bool = False) -> Iterator[Tab]:
    """A fresh page, which must stay clean."""
    context = browser.new_context(
        viewport=PHONE if phone else WIDE,  # type: ignore[arg-type]
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        timezone_id="UTC",
        locale="en-GB",
    )
    opened = Tab(context.new_page(), context)

    def heard(message: ConsoleMessage) -> None:
        # Browsers ask for it beside every document that names no icon, such as JSON.
        if message.location.get("url", "").endswith("/favicon.ico"):
            return
        if message.type in ("error", "warning"):
            opened.complaints.append(message.text)

    opened.page.on("console", heard)
    opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    try:
        yield opened
        opened.check()
    finally:
        context.close()


if __name__ == "__main__":
    sys.exit(None if executable() else MISSING)
