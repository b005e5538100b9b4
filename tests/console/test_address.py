"""The address is the state: what a reload, a link, a bookmark and the way back show."""

import re
from typing import Any

from playwright.sync_api import expect
from support.browser import Tab
from support.console import WITHIN_MS, Console, notify

AREA = [[50.0, 10.0], [50.0, 20.0], [60.0, 20.0], [60.0, 10.0], [50.0, 10.0]]
ROUND_TRIP = """async (cases) => {
  const { addressOf, Given, placeAt } = await import("/static/console/address.js");
  return cases.map(([view, eventType, fields, own]) => {
    const given = new Given();
    for (const [name, texts] of Object.entries(fields)) given.setField(name, texts);
    for (const [name, text] of Object.entries(own)) given.setOwn(name, text);
    const link = document.createElementNS("http://www.w3.org/1999/xhtml", "a");
    link.href = addressOf({ view, eventType, given });
    const read = placeAt(link.hash);
    return [
      read.view,
      read.eventType,
      Object.fromEntries(Object.keys(fields).map((name) => [name, read.given.field(name)])),
      Object.fromEntries(Object.keys(own).map((name) => [name, read.given.own(name)])),
    ];
  });
}"""


def test_whatever_a_form_holds_comes_back_from_the_address(page: Tab) -> None:
    """Names and values are anybody's; a field may even have the name of something of the page."""
    odd = ["", "a b", "a+b", "50%", "é\u202e", "x&y=z#?/", "..", "24..120", "1,2", "{}", "'\""]
    cases = [
        ["live", "a/b?c#d&é", {"stream": odd, ".from": ["field"], "..x": ["y"]}, {"from": "now"}],
        ["replay", "ev", {"__proto__x": ["1"]}, {"open": "ev@1", "map": "1.5,-20,360", "run": ""}],
    ]
    assert page.page.evaluate(ROUND_TRIP, cases) == cases


def test_a_reload_shows_and_runs_the_same_again(console: Console) -> None:
    """Choices, ranges, lists and the start are those that were filled in; the stream runs."""
    console.open("live/extreme")
    console.view.get_by_label("north", exact=True).check()
    console.view.get_by_label("west", exact=True).check()
    console.field("severity, at least").fill("4")
    console.view.locator('[data-field="anomaly"]').get_by_role("button", name="one of").click()
    console.field("anomaly, one of").fill("0.5, 12")
    console.field("from").select_option("id")
    console.field("from sequence").fill("1")
    with console.page.expect_request("**/api/v1/watch") as first:
        console.press("Watch")
    console.state("Live")
    with console.page.expect_request("**/api/v1/watch") as again:
        console.page.reload()
    assert first.value.post_data_json == again.value.post_data_json
    console.state("Live")
    expect(console.field("anomaly, one of")).to_have_value("0.5, 12")
    console.press("Stop")
    expect(console.page).to_have_url(re.compile(r"^((?!\.run).)*$"))


def test_a_link_opens_one_notification_for_somebody_else(console: Console) -> None:
    """The link in the details reads it again, with what the event type requires."""
    console.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    sequence = notify(console.url, "diss2", {"destination": "FOO/é", "note": "n"}, {"a": 1})
    console.open("live/diss2")
    console.field("destination").fill("FOO/é")
    console.field("from").select_option("first")
    console.press("Watch")
    row = console.view.locator(".table-row:not([hidden])").first
    row.click()
    console.press("Copy link")
    expect(console.view.get_by_role("button", name="Copied")).to_be_visible()
    link = console.page.evaluate("navigator.clipboard.readText()")
    console.page.goto("about:blank")
    console.page.goto(link)
    expect(console.view.locator(".details h2")).to_have_text(f"diss2@{sequence}", timeout=WITHIN_MS)
    console.shows(sequence)


def test_the_way_back_leads_to_what_was_asked_before(console: Console) -> None:
    """Watching something else is a step; going back asks for the first again."""
    console.open("live/extreme")
    console.field("severity, at least").fill("2")
    console.press("Watch")
    console.state("Live")
    identifier = {"region": "north", "run_time": "1200", "severity": 3, "anomaly": 1}
    notify(console.url, "extreme", identifier)
    console.field("severity, at least").fill("5")
    console.view.locator(".table-row:not([hidden])").first.click()
    # What is typed meanwhile is not what runs.
    expect(console.page).to_have_url(re.compile(r"severity=2\.\.&.*\.open=extreme@"))
    console.press("Watch this instead")
    expect(console.page).to_have_url(re.compile(r"severity=5\.\.&"))
    console.state("Live")
    with console.page.expect_request("**/api/v1/watch") as asked:
        console.page.go_back()
    asked_again: dict[str, Any] = asked.value.post_data_json or {}
    assert asked_again["identifier"] == {"severity": {"gte": 2}}
    expect(console.field("severity, at least")).to_have_value("2")


def test_a_stream_goes_on_while_another_view_is_shown(console: Console) -> None:
    """Going away and coming back, by a link or by the browser, neither stops nor empties it."""
    console.open("live/kept")
    console.press("Watch")
    console.state("Live")
    notify(console.url, "kept", {"region": "kept"})
    console.counted(1)
    console.page.get_by_role("link", name="Replay", exact=True).first.click()
    console.page.locator('body[data-view="replay"]').wait_for()
    notify(console.url, "kept", {"region": "kept"})
    console.page.go_back()
    console.counted(2)
    console.state("Live")


def test_an_area_and_the_place_of_the_map_are_in_the_address(console: Console) -> None:
    """What was drawn filters again, and the map looks where it looked."""
    console.open("live/area")
    ring = " ".join(f"{lat},{lon}" for lat, lon in AREA)
    console.field("Coordinates, latitude first").fill(ring)
    console.view.locator("canvas").focus()
    console.page.keyboard.press("+")
    expect(console.page).to_have_url(re.compile(r"[?&]polygon=.*&\.map="), timeout=WITHIN_MS)
    address = console.page.url
    console.page.reload()
    console.page.locator("html[data-ready]").wait_for()
    expect(console.field("Coordinates, latitude first")).to_have_value(ring)
    assert '"polygon"' in console.snippet("Request")
    expect(console.page).to_have_url(address)


def test_watch_on_the_overview_watches(console: Console) -> None:
    """One click from the first page to a running stream; a second one leaves it alone."""
    console.open("overview")
    card = console.page.locator('.card[data-event="clicks"]')
    card.get_by_role("link", name="Watch").click()
    console.state("Live")
    notify(console.url, "clicks", {"region": "north"})
    console.counted(1)
    console.page.get_by_role("link", name="Overview", exact=True).click()
    card.get_by_role("link", name="Watch").click()
    console.state("Live")
    console.counted(1)


def test_what_was_published_is_a_link(console: Console) -> None:
    """The answer leads to the notification itself."""
    console.open("publish/ev")
    console.field("region").fill("linked")
    console.press("Publish")
    console.page.locator(".done a").click()
    expect(console.view.locator(".details pre")).to_contain_text('"linked"', timeout=WITHIN_MS)
