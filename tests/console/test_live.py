"""The live view in a real browser: watch, filter by place, pause, look closer, reconnect."""

import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, expect
from support.browser import Tab, tab
from support.config import document, embedded
from support.console import WITHIN_MS, Console, notify, notify_many
from support.process import server_process

SQUARE = [[50.0, 10.0], [50.0, 20.0], [60.0, 20.0], [60.0, 10.0], [50.0, 10.0]]
UNCOVERED = """(part) => {
  part.scrollIntoView();
  const { x, y, width, height } = part.getBoundingClientRect();
  const inside = [[x + 5, y + 5], [x + width - 5, y + 5], [x + width / 2, y + height / 2]];
  const details = part.closest(".results").querySelector(".details");
  return inside.every(([x, y]) => !details.contains(document.elementFromPoint(x, y)));
}"""
FAR = [[-30.0, 140.0], [-30.0, 145.0], [-20.0, 145.0], [-20.0, 140.0], [-30.0, 140.0]]


def test_what_is_published_appears_and_can_be_looked_at(console: Console) -> None:
    """Watch, notify, see the row, open it, take its id along."""
    console.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    console.open("live/seen")
    console.press("Watch")
    console.state("Live")
    notify(console.url, "seen", {"region": "north"}, {"note": "héllo"})
    console.counted(1)
    row = console.view.locator(".table-row:not([hidden])")
    expect(row).to_contain_text("north")
    expect(row).to_contain_text('{"note":"héllo"}')
    row.click()
    details = console.view.locator(".details")
    expect(details.locator("h2")).to_have_text("seen@1")
    expect(details.locator("pre")).to_contain_text('"type": "int.ecmwf.aviso.seen"')
    details.get_by_role("button", name="Copy id").click()
    expect(details.get_by_role("button", name="Copied")).to_be_visible()
    assert console.page.evaluate("navigator.clipboard.readText()") == "seen@1"
    console.page.keyboard.press("Escape")
    expect(details).to_be_hidden()


def test_the_request_is_shown_exactly_as_it_is_sent(console: Console) -> None:
    """A choice, a range and a start go into the JSON, and that JSON goes to the server."""
    console.open("live/extreme")
    console.view.get_by_label("north", exact=True).check()
    console.view.get_by_label("west", exact=True).check()
    console.field("severity, at least").fill("4")
    console.field("from").select_option("id")
    console.field("from sequence").fill("2")
    shown = console.snippet("Request")
    with console.page.expect_request("**/api/v1/watch") as sent:
        console.press("Watch")
    request = {
        "event_type": "extreme",
        "identifier": {"region": {"in": ["north", "west"]}, "severity": {"gte": 4}},
        "from_id": "2",
    }
    assert sent.value.post_data_json == request
    assert console.page.evaluate("(text) => JSON.parse(text)", shown) == request
    assert f"{console.url}/api/v1/watch" in console.snippet("curl")
    assert "start_from=1" in console.snippet("pyaviso")


def test_the_slider_is_the_range(console: Console) -> None:
    """Pulling an end with the keyboard changes the condition."""
    console.open("live/extreme")
    console.field("severity, highest").focus()
    console.page.keyboard.press("ArrowLeft")
    assert '"lte": 6' in console.snippet("Request")
    console.field("severity, lowest").focus()
    console.page.keyboard.press("ArrowRight")
    assert '"between"' in console.snippet("Request")


def test_pause_holds_the_screen_and_loses_nothing(console: Console) -> None:
    """Paused, new ones wait; resumed, they are there; cleared, they are gone."""
    console.open("live/paused")
    console.press("Watch")
    console.state("Live")
    notify(console.url, "paused", {"region": "a"})
    console.counted(1)
    console.press("Pause")
    notify(console.url, "paused", {"region": "b"})
    notify(console.url, "paused", {"region": "c"})
    note = console.view.locator(".results-note")
    expect(note).to_have_text("Paused; 2 waiting.", timeout=WITHIN_MS)
    console.shows(1)
    console.press("Resume")
    expect(console.view.locator(".table-row:not([hidden])")).to_have_count(3)
    console.shows(3, 2, 1)
    console.press("Clear")
    console.counted(0)
    notify(console.url, "paused", {"region": "d"})
    console.counted(1)
    console.shows(4)


def test_a_drawn_area_lets_only_matching_ones_through(console: Console) -> None:
    """Draw around Europe, watch, publish there and elsewhere; the map shows what came."""
    console.open("live/drawn")
    console.press("Draw an area")
    console.click_map((0.5, 0.1), (0.6, 0.1), (0.6, 0.45), (0.5, 0.45))
    console.page.keyboard.press("Enter")
    ring = console.field("Coordinates, latitude first").input_value()
    assert len(ring.split()) == 5
    assert "180" not in ring  # it is no longer the whole world
    console.press("Watch")
    console.state("Live")
    facts = {"date": "20260304", "time": "1200"}
    notify(console.url, "drawn", {**facts, "polygon": SQUARE}, "here")
    notify(console.url, "drawn", {**facts, "polygon": FAR}, "elsewhere")
    notify(console.url, "drawn", {**facts, "polygon": SQUARE}, "here again")
    console.counted(2)
    console.shows(3, 1)
    console.shapes("2 areas on the map")


def test_a_shape_on_the_map_opens_its_notification(console: Console) -> None:
    """The map and the table are two faces of the same."""
    console.open("live/observations")
    console.press("World")
    console.press("Watch")
    console.state("Live")
    notify(console.url, "clicked", {"date": "20260304", "polygon": SQUARE})
    console.open("live/clicked")
    console.field("from").select_option("first")
    console.press("Watch")
    console.shapes("1 area on the map")
    console.press("Show everything")
    console.click_map((0.5, 0.5))
    expect(console.view.locator(".details h2")).to_have_text("clicked@1")


def test_a_refusal_is_reported_at_its_field(console: Console) -> None:
    """What the form lets pass and the server does not: its own words, at the field."""
    console.tab.expected.append("400 (Bad Request)")
    console.open("live/ev")
    console.page.route(
        "**/api/v1/watch",
        lambda route: route.continue_(
            post_data='{"event_type": "ev", "identifier": {"region": null}}'
        ),
    )
    console.press("Watch")
    expect(console.problem("region")).to_contain_text("Field 'region'", timeout=WITHIN_MS)
    console.state("Refused")
    console.press("Watch")  # nothing goes on by itself, and one may try again


@pytest.mark.slow
def test_a_restart_of_the_server_leaves_no_gap_and_no_duplicate(fresh: Tab, tmp_path: Path) -> None:
    """The page comes back by itself and goes on with the next sequence."""
    kept = document(embedded(tmp_path / "nats"))
    fresh.expected.append("ERR_")
    with server_process(kept, tmp_path) as first:
        console = Console(fresh, first.url)
        console.open("live/ev")
        console.press("Watch")
        console.state("Live")
        for region in "abc":
            notify(first.url, "ev", {"region": region})
        console.counted(3)
        first.signal(signal.SIGTERM)
        assert first.wait() == 0
        console.state("Connection lost")
    port = str(urlsplit(first.url).port)
    with server_process(kept, tmp_path, "--port", port) as second:
        for region in "de":
            notify(second.url, "ev", {"region": region})
        console.says("Connected again")
        console.state("Live")
        notify(second.url, "ev", {"region": "f"})
        console.counted(6)
        console.shows(6, 5, 4, 3, 2, 1)


def test_a_flood_leaves_the_page_usable(console: Console) -> None:
    """Twelve thousand rows and as many shapes: the newest are kept, which is said."""
    facts = {"date": "20260304"}
    small = [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
    console.open("live/flood")
    console.press("Watch")
    console.state("Live")
    item = {"event_type": "flood", "identifier": {**facts, "polygon": small}}
    for _ in range(24):
        notify_many(console.url, [item] * 500)
    console.counted(12_000)
    note = console.view.locator(".results-note")
    expect(note).to_contain_text("The table keeps the newest 10,000.")
    expect(note).to_contain_text("The map shows the newest 1,000 of 10,000.")
    assert console.view.locator(".table-row").count() < 60
    console.shows(*range(12_000, 11_993, -1))
    table = console.view.locator(".table")
    table.focus()
    console.page.keyboard.press("End")
    console.page.keyboard.press("Enter")
    expect(console.view.locator(".details h2")).to_have_text("flood@2001")


def test_another_filter_takes_the_place_of_the_first(console: Console) -> None:
    """The button says what it would do; the stream that runs is the one that was asked for."""
    console.open("live/replaced")
    console.field("region").fill("a")
    console.press("Watch")
    console.state("Live")
    console.field("region").fill("b")
    console.field("from").select_option("first")
    notify(console.url, "replaced", {"region": "a"})
    console.counted(1)
    notify(console.url, "replaced", {"region": "b"})
    console.press("Watch this instead")
    expect(console.view.locator(".table-row:not([hidden])")).to_contain_text("b")
    console.shows(2)
    console.press("Stop")
    console.state("Not watching")


def test_event_types_without_schema_can_be_watched(fresh: Tab, tmp_path: Path) -> None:
    """They are offered once they exist; what they have is in one column."""
    anything = document({"notification_schema_strict": False})
    with server_process(anything, tmp_path) as running:
        console = Console(fresh, running.url)
        console.open("live")
        notify(running.url, "made-up", {"colour": "blue", "size": "7"})
        expect(console.field("event type")).to_contain_text("made-up", timeout=WITHIN_MS)
        console.field("event type").select_option("made-up")
        console.field("from").select_option("first")
        console.press("Watch")
        console.counted(1)
        row = console.view.locator(".table-row:not([hidden])")
        expect(row).to_contain_text("colour=blue, size=7")
        notify(running.url, "another", {})
        expect(console.field("event type")).to_contain_text("another", timeout=WITHIN_MS)
        notify(running.url, "made-up", {"colour": "red"})
        console.counted(2)  # the stream that runs is left alone


def test_two_tabs_do_not_disturb_each_other(console: Console, context: BrowserContext) -> None:
    """Each has its own stream and its own filter."""
    console.open("live/tabs")
    console.field("region").fill("a")
    console.press("Watch")
    console.state("Live")
    with tab(context) as opened:
        other = Console(opened, console.url)
        other.open("live/tabs")
        other.field("region").fill("b")
        other.press("Watch")
        other.state("Live")
        notify(console.url, "tabs", {"region": "a"})
        notify(console.url, "tabs", {"region": "b"})
        other.counted(1)
        console.counted(1)
        console.shows(1)
        other.shows(2)


def test_hostile_text_stays_text(console: Console) -> None:
    """Markup in a payload and in an identifier is shown letter by letter and does nothing."""
    attack = "</span><img src=x onerror=\"window.harmed='img'\"><script>window.harmed=1</script>"
    console.open("live/diss2")
    console.field("destination").fill(attack)
    console.press("Watch")
    console.state("Live")
    facts = {"destination": attack, "note": "javascript:window.harmed=2"}
    notify(console.url, "diss2", facts, {attack: [attack, {"x": "{{SERVER_VERSION}}"}]})
    console.counted(1)
    row = console.view.locator(".table-row:not([hidden])")
    expect(row).to_contain_text(attack)
    row.click()
    details = console.view.locator(".details")
    expect(details.locator("code")).to_contain_text("<script>window.harmed=1</script>")
    assert console.page.locator("main img, main script, main iframe").count() == 0
    assert console.page.evaluate("window.harmed") is None


def test_hostile_words_of_the_server_stay_text(console: Console) -> None:
    """An error that quotes what was sent is shown as text too."""
    console.tab.expected.append("400 (Bad Request)")
    console.open("publish/extreme")
    console.page.route(
        "**/api/v1/notification",
        lambda route: route.continue_(
            post_data='{"event_type": "extreme", "identifier": {"<img src=x onerror=a()>": "1"}}'
        ),
    )
    console.press("Publish")
    expect(console.view.locator(".trouble")).to_contain_text("<img src=x onerror=a()>")
    assert console.page.locator("main img").count() == 0


RESULTS = """
  const { Results } = await import("/static/console/results/results.js");
  const results = new Results({ label: "Alone", empty: "" });
  document.body.replaceChildren(results.element);
  results.element.style.height = "600px";
  const names = ["class", "date", "domain", "expver", "step", "stream", "time"];
  results.fields = names.map((name) => ({ name, kind: "text" }));
  const turn = () => new Promise(requestAnimationFrame);
  const frame = async () => { await turn(); await turn(); };
  const note = (sequence) => ({
    id: `ev@${sequence}`, sequence, time: `2026-03-04T10:00:0${sequence % 10}Z`,
    data: { identifier: { date: "20261231" }, payload: "x".repeat(300) },
  });
  const rows = () => [...results.rows.table.body.querySelectorAll(".table-row:not([hidden])")];
  results.add([1, 2, 3, 4, 5].map(note));
  await frame();
"""


def test_what_is_clicked_is_what_is_opened(console: Console) -> None:
    """Also between the arrival of others and the frame that shows them."""
    console.open("live/ev")
    assert console.page.evaluate(
        f"""async () => {{
          {RESULTS}
          const opened = () => results.details.element.querySelector("h2").textContent;
          const enter = () => new KeyboardEvent("keydown", {{ key: "Enter" }});
          const seen = rows()[2].firstChild.textContent;
          results.add([6, 7, 8].map(note)); // arrived, and on the screen with the next frame
          rows()[2].click();
          const clicked = opened();
          results.add([9].map(note));
          results.rows.table.element.dispatchEvent(enter());
          const entered = opened();
          await frame();
          results.add([10].map(note));
          results.rows.table.element.dispatchEvent(enter());
          return [seen, clicked, entered, opened(), rows()[0].firstChild.textContent];
        }}"""
    ) == ["3", "ev@3", "ev@3", "ev@3", "9"]


def test_heads_stand_over_their_columns(console: Console) -> None:
    """However narrow the window is; and dates are not cut."""
    console.open("live/ev")
    for width in (390, 1280, 1440, 1920):
        console.page.set_viewport_size({"width": width, "height": 900})
        heads, cells, cut = console.page.evaluate(
            f"""async () => {{
              {RESULTS}
              const lefts = (cells) => cells.map((cell) => cell.getBoundingClientRect().left);
              const row = [...rows()[0].children];
              const cut = row.slice(0, -1)
                .filter((cell) => cell.scrollWidth > cell.clientWidth)
                .map((cell) => [cell.textContent, cell.scrollWidth, cell.clientWidth]);
              return [lefts([...results.rows.table.head.children]), lefts(row), cut];
            }}"""
        )
        assert len(heads) == 10
        assert heads == cells, width
        assert cut == [], width


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1100, 800), (390, 844)])
def test_details_lie_on_nothing_that_is_used(console: Console, width: int, height: int) -> None:
    """Map, table and the buttons of the strip have the rest of the room; all fits on the screen."""
    notify(console.url, "area", {"date": "20261116", "polygon": SQUARE})
    console.page.set_viewport_size({"width": width, "height": height})
    try:
        console.open("live/area?.from=first&.run=")
        console.view.locator(".table-row:not([hidden])").first.click()
        details = console.view.locator(".details").bounding_box()
        assert details is not None
        assert details["x"] + details["width"] <= width
        assert details["y"] + details["height"] <= height
        for part in ("canvas", ".table", ".strip .buttons"):
            assert console.view.locator(part).evaluate(UNCOVERED), part
    finally:
        console.page.set_viewport_size({"width": 1280, "height": 720})
