"""Several live streams at once."""

from playwright.sync_api import Locator, expect
from support.console import WITHIN_MS, Console, notify

COUNT_INTERVALS = """() => {
  const begin = window.setInterval; // each stream that is made has one
  window.intervals = 0;
  window.setInterval = (...given) => (window.intervals += 1, begin(...given));
}"""


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


def test_streams_that_are_closed_leave_nothing_behind(console: Console) -> None:
    """However often one opens and closes: what a closed one was made of serves the next."""
    console.open("live/lane_d?.from=first&.run=")
    console.state("Live")
    console.page.evaluate(COUNT_INTERVALS)
    for _ in range(6):
        console.page.get_by_role("button", name="+ Another stream").click()
        expect(console.page.locator(".lanes .lane")).to_have_count(2)
        console.page.get_by_role("button", name="Close").last.click()
        expect(console.page.locator(".lanes .lane")).to_have_count(1)
    assert console.page.evaluate("window.intervals") == 1
    console.state("Live")
    console.page.get_by_role("button", name="+ Another stream").click()
    console.state("Not watching")
    console.counted(0)


def test_no_stream_is_lost_to_one_too_many(console: Console) -> None:
    """A link that finds no room is refused in words, and what runs goes on."""
    names = ["lane_a", "lane_b", "lane_c", "lane_d"]
    for name in names:
        console.page.goto(f"{console.url}/#live/{name}?.run=")
        expect(lane(console, name)).to_have_attribute("data-running", "true", timeout=WITHIN_MS)
    console.page.goto(f"{console.url}/#live/seen?.run=")
    expect(console.page.locator(".toast")).to_contain_text("close one of them first")
    assert [lane(console, name).count() for name in names] == [1, 1, 1, 1]
    expect(console.page.locator('.lane[data-running="true"]')).to_have_count(4)
    assert "#live/lane_d" in console.page.url
