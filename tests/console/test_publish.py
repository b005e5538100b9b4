"""The publish view in a real browser: a form from the schema, the server's errors at the field."""

from playwright.sync_api import expect
from support.console import WITHIN_MS, Console, notify


def test_a_notification_is_published_and_reported(console: Console) -> None:
    """Every kind of field; the answer names the id and the topic."""
    console.open("publish/extreme")
    console.field("region").select_option("north")
    console.field("run_time").fill("12:00")
    console.field("severity").fill("4")
    console.field("anomaly").fill("42.5")
    console.field("payload").fill('{"hazard": "wind"}')
    with console.page.expect_request("**/api/v1/notification") as sent:
        console.press("Publish")
    done = console.view.locator(".done li")
    expect(done).to_contain_text("extreme.north.1200.4.42.5", timeout=WITHIN_MS)
    assert sent.value.post_data_json == {
        "event_type": "extreme",
        "identifier": {"region": "north", "run_time": "12:00", "severity": "4", "anomaly": "42.5"},
        "payload": {"hazard": "wind"},
    }
    assert '"hazard": "wind"' in console.snippet("pyaviso")


def test_the_servers_own_words_stand_at_the_field(console: Console) -> None:
    """A value out of range, then a missing one; nothing is stored until all is right."""
    console.tab.expected.append("400 (Bad Request)")
    before = notify(console.url, "area", {"date": "20260304", "polygon": "1,1,1,2,2,2,1,1"})
    console.open("publish/area")
    console.field("date").fill("2026-03-04")
    console.press("Publish")
    expect(console.problem("polygon")).to_contain_text(
        "Required field 'polygon' missing for notify operation", timeout=WITHIN_MS
    )
    console.field("Coordinates, latitude first").fill("91,0 0,10 10,10")
    console.press("Publish")
    expect(console.problem("polygon")).to_contain_text("latitude 91")
    console.field("Coordinates, latitude first").fill("0,0 0,10 10,10")
    console.press("Publish")
    expect(console.view.locator(".done li")).to_contain_text(
        f"area@{before + 1}", timeout=WITHIN_MS
    )
    expect(console.problem("polygon")).to_be_hidden()


def test_a_range_is_judged_by_the_server(console: Console) -> None:
    """The form sends what was typed; the refusal names the range."""
    console.tab.expected.append("400 (Bad Request)")
    console.open("publish/extreme")
    console.field("region").select_option("south")
    console.field("run_time").fill("06:00")
    console.field("severity").fill("9")
    console.field("anomaly").fill("1")
    console.press("Publish")
    expect(console.problem("severity")).to_contain_text("outside allowed range", timeout=WITHIN_MS)


def test_points_are_collected_from_the_map(console: Console) -> None:
    """A point cloud is clicked together, and arrives."""
    console.open("publish/observations")
    console.field("date").fill("2026-03-04")
    for place in ((0.5, 0.3), (0.55, 0.35)):
        console.press("Add a point on the map")
        console.click_map(place)
    assert len(console.field("Coordinates, latitude first").input_value().split("\n")) == 2
    console.press("Publish")
    expect(console.view.locator(".done li")).to_contain_text("observations@", timeout=WITHIN_MS)


def test_an_area_is_drawn_on_the_map(console: Console) -> None:
    """Corner by corner; what was drawn is what is published."""
    console.open("publish/area")
    console.field("date").fill("2026-03-05")
    console.press("Draw on the map")
    console.click_map((0.48, 0.2), (0.54, 0.17), (0.57, 0.26), (0.5, 0.3))
    console.page.keyboard.press("Enter")
    assert len(console.field("Coordinates, latitude first").input_value().split()) == 5
    console.press("Publish")
    expect(console.view.locator(".done li")).to_contain_text("area.20260305", timeout=WITHIN_MS)


def test_a_payload_that_is_not_json_is_reported_before_it_is_sent(console: Console) -> None:
    """What begins like JSON was meant as JSON; plain text is a text."""
    console.open("publish/ev")
    console.field("region").fill("x")
    console.field("payload").fill('{"a": 1,}')
    console.press("Publish")
    expect(console.problem("payload")).to_contain_text("Not JSON")
    console.field("payload").fill("plain words")
    with console.page.expect_request("**/api/v1/notification") as sent:
        console.press("Publish")
    sent_body = sent.value.post_data_json
    assert sent_body is not None
    assert sent_body["payload"] == "plain words"


def test_what_the_server_fills_in_may_be_left_empty(console: Console) -> None:
    """An experiment version with a default: nothing is typed, and the default is stored."""
    console.open("publish/runs")
    console.press("Publish")
    expect(console.view.locator(".done li")).to_contain_text("runs.0001", timeout=WITHIN_MS)
