"""Several live streams at once."""

from playwright.sync_api import Locator, expect
from support.console import WITHIN_MS, Console, notify


def lane(console: Console, name: str) -> Locator:
    return console.page.locator(".lanes .lane", has_text=name)


def test_streams_go_on_beside_each_other(console: Console) -> None:
    """Watching another event type from the overview leaves the first one running, with its rows."""
    console.open("live/lane_a?.run=")
    console.state("Live")
    notify(console.url, "lane_a", {"region": "one"})
    console.counted(1)
    console.page.get_by_role("link", name="Overview", exact=True).click()
    card = console.page.locator('.card[data-event="lane_b"]')
    card.get_by_role("link", name="Watch").click()
    expect(lane(console, "lane_b")).to_have_attribute("data-running", "true", timeout=WITHIN_MS)
    shown = console.page.locator(".workspace:visible")
    expect(shown.locator(".strip .state")).to_contain_text("Live", timeout=WITHIN_MS)
    notify(console.url, "lane_a", {"region": "two"})
    notify(console.url, "lane_b", {"region": "three"})
    expect(lane(console, "lane_a")).to_contain_text("2", timeout=WITHIN_MS)
    expect(shown.locator(".table-row:visible")).to_have_count(1)
    lane(console, "lane_a").get_by_role("button").first.click()
    expect(shown.locator(".table-row:visible")).to_have_count(2)
    console.page.go_back()
    expect(shown.locator(".table-row:visible")).to_contain_text("three")
    console.page.get_by_role("button", name="Close lane_b").click()
    expect(console.page.locator(".lanes .lane")).to_have_count(1)
    expect(shown.locator(".table-row:visible")).to_have_count(2)


def test_the_title_counts_what_nobody_has_seen(console: Console) -> None:
    """While the page is hidden; whoever comes back starts anew."""
    console.open("live/lane_c?.run=")
    console.state("Live")
    title = console.page.title()
    console.page.evaluate(
        "Object.defineProperty(document, 'hidden', { value: true, configurable: true })"
    )
    notify(console.url, "lane_c", {"region": "unseen"})
    console.page.wait_for_function(f"document.title === '(1) {title}'", timeout=WITHIN_MS)
    console.page.evaluate(
        "delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))"
    )
    assert console.page.title() == title
