"""The page as a whole, in a real browser: the overview, every size, colours, keys, readers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from support.browser import Tab, tab
from support.config import document
from support.console import WITHIN_MS, Console, notify
from support.process import ServerProcess, server_process

VIEWS = ("overview", "live/test_polygon", "replay/extreme", "publish/observations")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server for one test, whose numbering begins at 1."""
    with server_process(document(), tmp_path) as running:
        yield running


def test_the_overview_counts(browser: Browser, own: ServerProcess) -> None:
    """Counts, sequences and rates follow what is published; the page leads on from there."""
    with tab(browser) as opened:
        console = Console(opened, own.url)
        console.open("overview")
        card = console.view.locator('.card[data-event="ev"]')
        expect(card).to_contain_text("never")
        for _ in range(3):
            notify(own.url, "ev", {"region": "a"})
        expect(card).to_contain_text("1 to 3", timeout=WITHIN_MS)
        expect(console.view.locator(".tiles")).to_contain_text("in_memory")
        expect(console.page.locator(".bar .state")).to_have_text("Ready")
        links = console.view.locator(".tools a")
        assert {"swagger-ui/", "api/v1/schema"} <= {
            link.get_attribute("href") for link in links.all()
        }
        card.get_by_role("link", name="Replay").click()
        expect(console.field("event type")).to_have_value("ev")


def test_a_server_that_goes_away_is_told(browser: Browser, tmp_path: Path) -> None:
    """The page stays, and says that nobody answers."""
    with tab(browser) as opened:
        opened.expected.append("ERR_")
        with server_process(document(), tmp_path) as running:
            console = Console(opened, running.url)
            console.open("overview")
            expect(console.page.locator(".bar .state")).to_have_text("Ready")
        expect(console.page.locator(".bar .state")).to_have_text("Server away", timeout=WITHIN_MS)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_accessible(
    browser: Browser, server: ServerProcess, view: str, dark: bool
) -> None:
    """Names, roles, order, contrast: axe finds nothing to complain about."""
    with tab(browser, dark=dark) as opened:
        console = Console(opened, server.url)
        console.open(view)
        found = Axe().run(opened.page).response["violations"]
        assert [(item["id"], item["nodes"][0]["html"]) for item in found] == []


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_sticks_out_on_a_phone(browser: Browser, server: ServerProcess, view: str) -> None:
    """The page is as wide as the screen, whatever is on it."""
    with tab(browser, phone=True) as opened:
        console = Console(opened, server.url)
        console.open(view)
        wide = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        scroll, client = console.page.evaluate(wide)
        assert scroll <= client


def test_colours_follow_the_system_and_then_the_reader(page: Tab, server: ServerProcess) -> None:
    """The button turns the page dark, and the next visit remembers."""
    console = Console(page, server.url)
    console.open("overview")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = console.page.evaluate(paper)
    console.page.get_by_role("button", name="Dark colours").click()
    dark = console.page.evaluate(paper)
    assert dark != light
    console.page.reload()
    expect(console.page.get_by_role("button", name="Light colours")).to_be_visible()
    assert console.page.evaluate(paper) == dark


def test_the_whole_page_by_keyboard(page: Tab, server: ServerProcess) -> None:
    """From the address bar to a live stream without a pointer."""
    console = Console(page, server.url)
    console.open("overview")
    keyboard = console.page.keyboard
    for name in ("Skip to content", "Aviso", "Overview", "Live"):
        keyboard.press("Tab")
        focused = console.page.evaluate("document.activeElement.textContent.trim()")
        assert focused.startswith(name), focused
    keyboard.press("Enter")
    console.field("event type").focus()
    keyboard.type("ev")
    expect(console.field("event type")).to_have_value("ev")
    keyboard.press("Tab")
    keyboard.type("by-keyboard")
    keyboard.press("Enter")
    console.state("Live")
    notify(server.url, "ev", {"region": "by-keyboard"})
    console.counted(1)
    console.view.locator(".table").focus()
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    expect(console.view.locator(".details")).to_contain_text("by-keyboard")
    keyboard.press("Escape")
    focused = console.page.evaluate("document.activeElement.className")
    assert focused == "table"


def test_an_address_leads_to_a_view_and_an_event_type(page: Tab, server: ServerProcess) -> None:
    """Unknown ones lead to the overview, and to nothing worse."""
    console = Console(page, server.url)
    console.open("live/observations")
    expect(console.field("event type")).to_have_value("observations")
    console.page.evaluate("location.hash = '<img src=x>/%zz'")
    expect(console.page.locator('nav [aria-current="page"]')).to_have_text("Overview")
