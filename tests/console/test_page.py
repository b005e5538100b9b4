"""The page as a whole, in a real browser: the overview, every size, colours, keys, readers."""

from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from support.browser import Tab, profile, tab
from support.config import document
from support.console import WITHIN_MS, Console, notify
from support.process import ServerProcess, server_process

VIEWS = ("overview", "live/test_polygon", "replay/extreme", "publish/observations")


def test_the_overview_counts(console: Console) -> None:
    """Counts, sequences and rates follow what is published; the page leads on from there."""
    console.open("overview")
    card = console.view.locator('.card[data-event="counted"]')
    expect(card).to_contain_text("never")
    for _ in range(3):
        notify(console.url, "counted", {"region": "a"})
    expect(card).to_contain_text("1 to 3", timeout=WITHIN_MS)
    expect(console.view.locator(".tiles")).to_contain_text("in_memory")
    expect(console.page.locator(".bar .state")).to_have_text("Ready")
    links = console.view.locator(".tools a")
    assert {"swagger-ui/", "api/v1/schema"} <= {link.get_attribute("href") for link in links.all()}
    card.get_by_role("link", name="Replay").click()
    expect(console.field("event type")).to_have_value("counted")


def test_a_server_that_goes_away_is_reported(fresh: Tab, tmp_path: Path) -> None:
    """The page stays, and says that nobody answers."""
    fresh.expected.append("ERR_")
    with server_process(document(), tmp_path) as running:
        console = Console(fresh, running.url)
        console.open("overview")
        expect(console.page.locator(".bar .state")).to_have_text("Ready")
    expect(console.page.locator(".bar .state")).to_have_text("Server away", timeout=WITHIN_MS)
    expect(console.view.locator(".trouble")).to_contain_text("does not answer. All below is as of")
    expect(console.view.locator(".tiles > div").first).to_contain_text("away")


def test_every_view_is_accessible(console: Console) -> None:
    """Names, roles, order, contrast, in light and dark: axe finds nothing to complain about."""
    complaints: list[tuple[str, ...]] = []
    axe = Axe()
    for scheme in ("light", "dark"):
        console.page.emulate_media(color_scheme=scheme)
        for view in VIEWS:
            console.open(view)
            found = axe.run(console.page).response["violations"]
            complaints += [(scheme, view, item["id"], item["nodes"][0]["html"]) for item in found]
    assert complaints == []


def test_nothing_sticks_out_on_a_phone(browser: Browser, server: ServerProcess) -> None:
    """The page is as wide as the screen, whatever is on it."""
    wide = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    with profile(browser, phone=True) as phone, tab(phone) as opened:
        console = Console(opened, server.url)
        for view in VIEWS:
            console.open(view)
            scroll, client = console.page.evaluate(wide)
            assert scroll <= client, view


def test_colours_follow_the_system_and_then_the_reader(
    browser: Browser, server: ServerProcess
) -> None:
    """The button turns the page dark, and the next visit remembers."""
    with profile(browser) as own, tab(own) as opened:
        console = Console(opened, server.url)
        console.open("overview")
        paper = "getComputedStyle(document.body).backgroundColor"
        light = console.page.evaluate(paper)
        console.page.get_by_role("button", name="Dark colours").click()
        dark = console.page.evaluate(paper)
        assert dark != light
        console.page.reload()
        expect(console.page.get_by_role("button", name="Light colours")).to_be_visible()
        assert console.page.evaluate(paper) == dark


def test_the_whole_page_by_keyboard(console: Console) -> None:
    """From the address bar to a live stream without a pointer."""
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
    notify(console.url, "ev", {"region": "by-keyboard"})
    console.counted(1)
    console.view.locator(".table").focus()
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    expect(console.view.locator(".details")).to_contain_text("by-keyboard")
    keyboard.press("Escape")
    focused = console.page.evaluate("document.activeElement.className")
    assert focused == "table"


def test_an_address_leads_to_a_view_and_an_event_type(console: Console) -> None:
    """Unknown ones lead to the overview, and to nothing worse."""
    console.open("live/observations")
    expect(console.field("event type")).to_have_value("observations")
    console.page.evaluate("location.hash = '<img src=x>/%zz'")
    expect(console.page.locator('nav [aria-current="page"]')).to_have_text("Overview")
