"""The replay view in a real browser: history by sequence and time, its ends, and playing it."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect
from support.browser import Tab
from support.config import document
from support.console import WITHIN_MS, Console, copies, notify
from support.process import ServerProcess, server_process

CAP = 20
KEPT = 50


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that replays 20 at a time and keeps 50; each test has an event type."""
    config = document(
        {
            "watch_endpoint": {"max_historical_notifications": CAP},
            "notification_backend": {"kind": "in_memory", "in_memory": {"max_messages": KEPT}},
        },
        schemas=copies("ev", "range", "times", "limited", "gone", "played", "nothing"),
    )
    with server_process(config, tmp_path_factory.mktemp("replay")) as running:
        yield running


@pytest.fixture
def console(fresh: Tab, small: ServerProcess) -> Console:
    """The console of that server."""
    return Console(fresh, small.url)


def publish(console: Console, event_type: str, number: int) -> None:
    for place in range(number):
        notify(console.url, event_type, {"region": f"r{place % 3}"}, {"place": place})


def test_a_range_of_sequences_with_a_filter(console: Console) -> None:
    """From one sequence to another, and only what matches; the end is reported."""
    publish(console, "range", 12)
    console.open("replay/range")
    console.field("region").fill("r1")
    console.field("from").select_option("id")
    console.field("from sequence").fill("3")
    console.field("to").select_option("id")
    console.field("to sequence").fill("9")
    console.press("Replay")
    console.state("Complete")
    console.says("History is complete")
    console.shows(8, 5)


def test_every_form_of_time_and_the_calendar(console: Console) -> None:
    """Seconds since the epoch, RFC 3339 and the calendar all work; others are reported at once."""
    publish(console, "times", 2)
    console.open("replay/times")
    console.field("from").select_option("date")
    times = console.field("from time, UTC unless it says otherwise")
    for text in ("1700000000", "2023-11-14T22:13:20Z", "2023-11-14 22:13:20 +01:00"):
        times.fill(text)
        console.press("Replay")
        console.state("Complete")
        console.counted(2)
    console.field("from time from a calendar, UTC").fill("2023-11-14T22:13:20")
    assert times.input_value() == "2023-11-14T22:13:20Z"
    times.fill("yesterday")
    console.press("Replay")
    expect(console.problem("from")).to_contain_text("A date and a time are wanted")
    expect(console.problem("from")).to_be_in_viewport(ratio=1)
    later = datetime.now(UTC).year + 1
    times.fill(f"{later}-01-01T00:00:00Z")
    console.press("Replay")
    console.state("Complete")
    console.counted(0)


def test_the_servers_limit_is_reported_and_gone_beyond(console: Console) -> None:
    """Twenty at a time; who wants more reads on, without a gap and without a duplicate."""
    publish(console, "limited", 45)
    console.open("replay/limited")
    console.press("Replay")
    console.says("The server stops after 20 notifications")
    console.counted(20)
    console.press("Read on")
    console.counted(40)
    console.press("Read on")
    console.counted(45)
    console.says("History is complete")
    expect(console.view.get_by_role("button", name="Read on")).to_be_hidden()
    console.shows(*range(45, 38, -1))


def test_what_is_no_longer_kept_is_reported(console: Console) -> None:
    """A start that retention has passed: the gap in words, then what there is."""
    publish(console, "gone", KEPT + 10)
    console.open("replay/gone")
    console.field("from").select_option("id")
    console.field("from sequence").fill("3")
    console.press("Replay")
    console.says("no longer kept")
    console.counted(CAP)


def test_history_is_played_back(console: Console) -> None:
    """The slider goes to any moment; the play button goes through all of it."""
    publish(console, "played", 15)
    console.open("replay/played")
    console.press("Replay")
    console.state("Complete")
    slider = console.field("Moment of history")
    slider.focus()
    console.page.keyboard.press("Home")
    expect(console.view.locator(".counters dd").first).to_have_text("1", timeout=WITHIN_MS)
    console.shows(1)
    console.page.keyboard.press("End")
    console.counted(15)
    console.page.keyboard.press("Home")
    console.field("Speed").select_option("real time")
    console.press("Play")
    console.counted(15)
    console.shows(*range(15, 8, -1))
    expect(console.view.get_by_role("button", name="Play", exact=True)).to_be_visible()


def test_nothing_to_replay_is_no_error(console: Console) -> None:
    """An empty history is complete at once."""
    console.open("replay/nothing")
    console.press("Replay")
    console.state("Complete")
    console.counted(0)
    expect(console.view.locator(".timeline")).to_be_hidden()
