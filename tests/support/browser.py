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

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = """\
No Chromium found; the tests of the console need one. Install it, or set CHROMIUM to its path:
  Debian    apt-get install chromium
  Fedora    dnf install chromium
  macOS     brew install --cask chromium"""
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}


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

    def check(self) -> None:
        """Fail if the page complained about something the test did not provoke."""
        surprises = [
            text for text in self.complaints if not any(part in text for part in self.expected)
        ]
        assert not surprises, surprises

    def forget(self) -> None:
        """Start over with complaints, as a page does that several tests share."""
        self.complaints.clear()
        self.expected.clear()


@contextmanager
def profile(
    browser: Browser, *, phone: bool = False, dark: bool = False
) -> Iterator[BrowserContext]:
    """A browser that has never been here: nothing cached, nothing stored."""
    context = browser.new_context(
        viewport=PHONE if phone else WIDE,  # type: ignore[arg-type]
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        timezone_id="UTC",
        locale="en-GB",
    )
    try:
        yield context
    finally:
        context.close()


@contextmanager
def tab(context: BrowserContext) -> Iterator[Tab]:
    """A fresh page, which must stay clean."""
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
        opened.page.close()


if __name__ == "__main__":
    sys.exit(None if executable() else MISSING)
