"""The follower of one stream: each notification once, whatever happens to the connection."""

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.browser import Tab

# What is evaluated is an expression: without the semicolon that ends it as a statement.
SIMULATED = Path(__file__).with_name("simulated.js").read_text().rstrip().removesuffix(";")
LIVE = {"event_type": "ev", "identifier": {}}
ALL = {**LIVE, "from_id": "0"}
ARRIVE = ("arrive", None)
BREAK = ("break", None)
SILENCE_MS = 90_000
Step = tuple[str, Any]


def followed(
    page: Tab, request: dict[str, Any], *steps: Step, kind: str = "watch", **scenario: Any
) -> Any:
    """What a follower did while the server did this."""
    given = {"kind": kind, "request": request, "steps": list(steps), **scenario}
    return page.page.evaluate(SIMULATED, given)


def phases(seen: Any) -> list[str]:
    """The phases a follower went through."""
    return [state["phase"] for state in seen["states"]]


def told(seen: Any) -> list[str]:
    """The kinds of what it told."""
    return [message["kind"] for message in seen["told"]]


def words(seen: Any, kind: str) -> list[str]:
    """The words of what it told of one kind."""
    return [message["text"] for message in seen["told"] if message["kind"] == kind]


def waits(seen: Any) -> list[float]:
    """How long it meant to wait before each next try."""
    return [state["wait"] for state in seen["states"] if state["phase"] == "waiting"]


REFUSALS = st.sampled_from(
    [
        {"status": 503, "retryAfterS": 7},
        {"status": 429, "retryAfterS": None},
        {"status": 500},
        {"status": 401},
        {"status": 0},
        {},
    ]
)
REASONS = st.sampled_from(["max_duration_reached", "server_shutdown", "end_of_stream"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 4)),
        st.tuples(st.just("publish"), st.integers(1, 4)),
        st.tuples(st.just("arrive"), st.integers(1, 300)),
        st.tuples(st.just("arrive"), st.none()),
        st.tuples(st.just("arrive"), st.none()),
        st.tuples(st.just("tick"), st.none()),
        st.tuples(st.just("tick"), st.none()),
        st.tuples(st.just("break"), st.none()),
        st.tuples(st.just("end"), st.none()),
        st.tuples(st.just("close"), REASONS),
        st.tuples(st.just("answer"), REFUSALS),
        st.tuples(st.just("advance"), st.sampled_from([400, 5000, SILENCE_MS])),
        st.tuples(st.just("retryNow"), st.none()),
        st.tuples(st.just("more"), st.none()),
    ),
    max_size=40,
)
HIDDEN = st.lists(st.integers(1, 12), max_size=4)
LIMITS = st.none() | st.integers(1, 5)


@settings(max_examples=150)
@given(STEPS, st.integers(0, 6), HIDDEN, LIMITS, st.integers(0, 4))
def test_watch_from_a_sequence(
    page: Tab, steps: list[Step], before: int, hidden: list[int], limit: int | None, start: int
) -> None:
    """Whatever breaks, what was published from the start on arrives once and in order."""
    request = {**LIVE, "from_id": str(start)}
    seen = followed(page, request, *steps, before=before, hidden=hidden, limit=limit, settle=True)
    # A start beyond the head is live from the head on, and is repeated while it delivers nothing.
    if start <= before + 1:
        assert seen["received"] == [number for number in seen["stored"] if number >= start]
    assert phases(seen)[-1] == "live"


@settings(max_examples=150)
@given(STEPS, st.integers(0, 6), HIDDEN, LIMITS)
def test_live_watch(
    page: Tab, steps: list[Step], before: int, hidden: list[int], limit: int | None
) -> None:
    """What was published after the first opening frame arrives once and in order, breaks or not."""
    seen = followed(page, LIVE, *steps, before=before, hidden=hidden, limit=limit, settle=True)
    opened_at = seen["edges"][0]
    assert seen["received"] == [number for number in seen["stored"] if number > opened_at]
    assert phases(seen)[-1] == "live"


@settings(max_examples=150)
@given(STEPS, st.integers(0, 12), HIDDEN, LIMITS, st.none() | st.integers(0, 14))
def test_replay(
    page: Tab,
    steps: list[Step],
    before: int,
    hidden: list[int],
    limit: int | None,
    end: int | None,
) -> None:
    """A replay that breaks goes on; it ends with everything up to its end, once and in order."""
    request = ALL if end is None else {**ALL, "to_id": str(end)}
    seen = followed(
        page,
        request,
        *steps,
        kind="replay",
        before=before,
        hidden=hidden,
        limit=limit,
        settle=True,
    )
    until = min(seen["edges"][-1], 99 if end is None else end)
    assert seen["received"] == [number for number in seen["stored"] if number <= until]
    assert phases(seen)[-1] == "ended"
    assert seen["open"] == 0


def test_what_is_asked_for(page: Tab) -> None:
    """After a break the request is the first one, from the next sequence on."""
    start = {**LIVE, "identifier": {"region": "n"}, "from_date": "1970-01-01T00:00:00Z"}
    seen = followed(page, start, ARRIVE, BREAK, ("tick", None), ARRIVE, before=3)
    assert seen["paths"] == ["api/v1/watch"] * 2
    assert seen["bodies"] == [start, {**LIVE, "identifier": {"region": "n"}, "from_id": "4"}]

    window = {**ALL, "to_date": "2026-01-01T00:00:00Z"}
    seen = followed(page, window, ("arrive", 400), BREAK, ("tick", None), kind="replay", before=3)
    assert seen["paths"] == ["api/v1/replay"] * 2
    assert seen["bodies"][0] == window
    assert seen["bodies"][1] == {**window, "from_id": str(seen["last"] + 1)}


def test_a_start_that_delivered_nothing(page: Tab) -> None:
    """A given start is asked for again; a live-only watch goes on from when it was opened."""
    for start in ({"from_id": "7"}, {"from_date": "2026-01-01T00:00:00Z"}):
        request = {**LIVE, **start}
        seen = followed(page, request, ARRIVE, BREAK, ("tick", None), ARRIVE)
        assert seen["bodies"] == [request, request]

    again = [BREAK, ("tick", None), ARRIVE]
    seen = followed(page, LIVE, BREAK, ("tick", None), ARRIVE, *again, ("advance", 5000), *again)
    opened = "1970-01-12T13:46:42Z"
    later = "1970-01-12T13:46:43Z"
    # Not opened; opened; the first time it was opened; when all since then was looked through.
    assert seen["bodies"] == [
        LIVE,
        LIVE,
        {**LIVE, "from_date": opened},
        {**LIVE, "from_date": later},
    ]


def test_history_that_was_not_read(page: Tab) -> None:
    """A live-only watch moves its start on only when all before was looked through."""
    missed: list[Step] = [ARRIVE, BREAK, ("publish", 2), ("tick", None)]
    opening = len(followed(page, LIVE, *missed)["waiting"].split("\n\n")[0]) + 2
    again: list[Step] = [("arrive", opening), BREAK, ("tick", None), ARRIVE]
    seen = followed(page, LIVE, *missed, *again)
    assert phases(seen).count("history") == 2
    assert seen["received"] == [1, 2]


def test_phases(page: Tab) -> None:
    """A page can show how a stream is doing."""
    seen = followed(page, LIVE, ARRIVE, ("publish", 1), ARRIVE)
    assert phases(seen) == ["connecting", "live"]
    assert told(seen) == ["opened"]

    seen = followed(page, ALL, ARRIVE, BREAK, ("tick", None), ARRIVE, before=1)
    history = ["connecting", "history", "live"]
    assert phases(seen) == [*history, "waiting", *history]
    assert told(seen) == ["opened", "completed", "lost", "resumed", "completed"]
    assert seen["states"][3]["error"] == "The connection was lost."
    assert [state["attempt"] for state in seen["states"]] == [0, 0, 0, 1, 1, 0, 0]

    seen = followed(page, ALL, ARRIVE, kind="replay", before=2)
    assert phases(seen) == ["connecting", "history", "ended"]
    assert told(seen) == ["opened", "completed"]
    assert (seen["open"], seen["timers"]) == (0, 0)


def test_one_call_per_piece(page: Tab) -> None:
    """What arrives together is handed on together."""
    seen = followed(page, ALL, ARRIVE, ("publish", 2), ARRIVE, ("publish", 1), ARRIVE, before=3)
    assert seen["batches"] == [[1, 2, 3], [4, 5], [6]]


def test_routine_closing(page: Tab) -> None:
    """A connection that had its time is followed by the next at once, a brief one after a pause."""
    for reason in ("max_duration_reached", "end_of_stream"):
        close = [("close", reason), ARRIVE]
        seen = followed(page, LIVE, ARRIVE, *close, ARRIVE)
        assert phases(seen) == ["connecting", "live", "connecting", "history", "live"]
        assert told(seen) == ["opened", "closing", "resumed", "completed"]
        seen = followed(page, LIVE, ARRIVE, *close, postMs=0)
        assert waits(seen) == [250]
        assert seen["states"][-1]["error"] is None
    seen = followed(page, LIVE, ARRIVE, ("close", "server_shutdown"), ARRIVE)
    assert waits(seen) == [2000]
    closing = ("connection-closing", {"reason": "max_duration_reached"})
    seen = followed(page, LIVE, ARRIVE, ("send", closing), ARRIVE, ARRIVE)
    assert (phases(seen)[-1], len(seen["bodies"])) == ("live", 2), "not ended by the server"
    seen = followed(page, LIVE, ARRIVE, ("close", "something new"), ARRIVE, ARRIVE)
    assert phases(seen)[-1] == "live"
    assert words(seen, "closing") == [
        "The server ended the stream: something new. Connecting again."
    ]


def test_pauses_grow(page: Tab) -> None:
    """After failures the pause is drawn from one that doubles to a limit, and starts over."""
    refused = ("answer", {"status": 500})
    ticks = [("tick", None)] * 8
    seen = followed(page, LIVE, *[refused] * 8, BREAK, *ticks, ("tick", None), ARRIVE, BREAK)
    grown = [250, 500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]
    assert waits(seen) == [*grown, 250]
    assert told(seen) == ["lost", "opened", "lost"]

    seen = followed(page, LIVE, *[refused] * 3, BREAK, *ticks[:3], random=0.5)
    assert waits(seen) == [125, 250, 500, 1000]

    brief: list[Step] = [ARRIVE, BREAK, ("tick", None)]
    seen = followed(page, LIVE, *brief * 3, ARRIVE, ("publish", 1), *brief, postMs=0)
    assert waits(seen) == [250, 500, 1000, 250], "opening alone does not count as working"


def test_the_server_says_when(page: Tab) -> None:
    """Who asks for patience gets it, up to five minutes."""
    for answer, wait in (
        ({"status": 503, "retryAfterS": 7}, 7000),
        ({"status": 429, "retryAfterS": 1.5}, 1500),
        ({"status": 500, "retryAfterS": 5}, 5000),
        ({"status": 503, "retryAfterS": 4000}, 300_000),
        ({"status": 503, "retryAfterS": None}, 500),
        ({"status": 0, "retryAfterS": None}, 500),
    ):
        seen = followed(page, LIVE, ("answer", answer), BREAK, ("tick", None))
        assert waits(seen) == [250, wait]


def test_refused(page: Tab) -> None:
    """What the server refuses is not asked again; the error is kept."""
    for status in (400, 403, 404, 405, 413, 204):
        answer = ("answer", {"status": status, "message": "not so"})
        seen = followed(page, LIVE, ARRIVE, answer, BREAK, ("tick", None), ("retryNow", None))
        assert phases(seen) == ["connecting", "live", "waiting", "connecting", "failed"]
        assert seen["states"][-1]["error"] == "not so"
        assert (len(seen["bodies"]), seen["timers"]) == (2, 0)


def test_unauthorized(page: Tab) -> None:
    """Without a sign-in nothing is tried; after it the stream goes on where it was."""
    unauthorized = ("answer", {"status": 401, "message": "who are you"})
    ended = [("close", "max_duration_reached"), ARRIVE]
    seen = followed(page, ALL, ARRIVE, unauthorized, *ended, ("advance", 10**9), before=2)
    assert phases(seen)[-1] == "unauthorized"
    assert seen["states"][-1]["error"] == "who are you"
    assert len(seen["bodies"]) == 2

    seen = followed(page, ALL, ARRIVE, unauthorized, *ended, ("retryNow", None), ARRIVE, before=2)
    assert phases(seen)[-1] == "live"
    assert seen["bodies"][-1]["from_id"] == "3"

    at_once = {"unauthorized": "retryNow"}
    seen = followed(page, ALL, unauthorized, BREAK, ("tick", None), ARRIVE, at=at_once)
    assert phases(seen)[-3:] == ["connecting", "history", "live"]


def test_retry_now(page: Tab) -> None:
    """A pause can be cut short; where there is none, nothing happens."""
    seen = followed(page, LIVE, ("retryNow", None), ARRIVE, BREAK, ("retryNow", None), ARRIVE)
    assert phases(seen)[-3:] == ["connecting", "history", "live"]
    assert len(seen["bodies"]) == 2


def test_silence(page: Tab) -> None:
    """Nothing for 90 seconds is a lost connection; heartbeats and comments are something."""
    beat = ("send", ["heartbeat", {"timestamp": "2026-01-01T00:00:00Z"}])
    nearly = ("advance", SILENCE_MS - 1000)
    kept = [nearly, beat, ARRIVE, nearly, ("raw", ": here\n"), ARRIVE, nearly]
    seen = followed(page, LIVE, ARRIVE, *kept)
    assert phases(seen) == ["connecting", "live"]

    seen = followed(page, LIVE, ARRIVE, *kept, ("advance", 1000))
    assert phases(seen) == ["connecting", "live", "waiting"]
    assert words(seen, "lost") == ["Nothing was heard from the server for 90 s. Trying again."]
    assert seen["open"] == 0

    seen = followed(page, LIVE, ("answer", "hang"), BREAK, ("tick", None), ("advance", SILENCE_MS))
    assert phases(seen) == ["connecting", "waiting", "connecting", "waiting"]


def test_stop(page: Tab) -> None:
    """After a stop nothing is called, nothing is open, nothing is waited for; it is for good."""
    begin: list[list[Step]] = [
        [],
        [ARRIVE],
        [BREAK],
        [("answer", {"status": 401}), BREAK, ("tick", None)],
        [("answer", "hang"), BREAK, ("tick", None)],
    ]
    for steps in begin:
        after = [("publish", 2), ARRIVE, ("retryNow", None), ("start", None), ("advance", 10**6)]
        before = followed(page, ALL, *steps, before=2)
        seen = followed(page, ALL, *steps, ("stop", None), *after, before=2)
        for calls in ("states", "told", "received", "bodies"):
            assert seen[calls] == before[calls]
        assert (seen["open"], seen["timers"]) == (0, 0)


def test_stop_from_within(page: Tab) -> None:
    """A callback may stop the stream: it is the last one."""
    seen = followed(page, ALL, ARRIVE, ("publish", 1), ARRIVE, before=3, stopAt=3)
    assert seen["received"] == [1, 2, 3]
    assert phases(seen) == ["connecting", "history"]
    assert (seen["open"], seen["timers"]) == (0, 0)
    for phase in ("connecting", "history", "live", "waiting"):
        seen = followed(page, ALL, ARRIVE, BREAK, ("tick", None), before=1, at={phase: "stop"})
        assert phases(seen)[-1] == phase
        assert (seen["open"], seen["timers"]) == (0, 0)


def test_limit(page: Tab) -> None:
    """A watch goes on by itself after the server's limit; a replay when it is told to."""
    seen = followed(page, ALL, ARRIVE, ARRIVE, ARRIVE, before=5, limit=2, postMs=0)
    assert seen["received"] == [1, 2, 3, 4, 5]
    assert [body["from_id"] for body in seen["bodies"]] == ["0", "3", "5"]
    assert told(seen) == ["opened", "limit", "resumed", "limit", "resumed", "completed"]
    assert words(seen, "limit")[0] == (
        "The server stops after 2 notifications of history. Asking for more."
    )

    seen = followed(page, ALL, ARRIVE, kind="replay", before=5, limit=3)
    assert seen["states"][-1]["phase"] == "ended"
    assert seen["states"][-1]["more"]
    assert words(seen, "limit") == [
        "The server stops after 3 notifications of history. There may be more."
    ]

    more: Step = ("more", None)
    steps = [more, ARRIVE, more, more, ARRIVE, more, ARRIVE]
    seen = followed(page, ALL, *steps, kind="replay", before=5, limit=3)
    assert seen["received"] == [1, 2, 3, 4, 5]
    assert len(seen["bodies"]) == 2
    assert not seen["states"][-1]["more"]

    at_once = {"ended": "more"}
    seen = followed(page, ALL, *[ARRIVE] * 3, kind="replay", before=5, limit=3, at=at_once)
    assert seen["received"] == [1, 2, 3, 4, 5]


def test_gap(page: Tab) -> None:
    """What is no longer kept is said in words."""
    seen = followed(page, {**LIVE, "from_id": "5"}, ARRIVE, before=130, forget=120)
    assert words(seen, "gap") == ["Sequences 5 to 119 are no longer kept; history begins at 120."]
    seen = followed(page, {**LIVE, "from_id": "119"}, ARRIVE, before=130, forget=120)
    assert words(seen, "gap") == ["Sequence 119 is no longer kept; history begins at 120."]


def test_a_replay_that_broke_at_its_end(page: Tab) -> None:
    """With everything received there is nothing more to ask for."""
    request = {**ALL, "to_id": "2"}
    sent = followed(page, request, kind="replay", before=4)["waiting"]
    notifications = sent.index("event: replay-control", 1)
    seen = followed(page, request, ("arrive", notifications), BREAK, kind="replay", before=4)
    assert seen["received"] == [1, 2]
    assert "completed" not in told(seen)
    assert phases(seen)[-1] == "ended"
    assert len(seen["bodies"]) == 1


def test_errors_in_the_stream(page: Tab) -> None:
    """A failure is reported with its request; an unreadable notification once, and skipped."""
    unreadable = {"error": "CloudEvent creation failed", "message": "Failed to decode stored topic"}
    frame = ("send", ["error", {**unreadable, "request_id": "r-7", "sequence": 2000}])
    again = [BREAK, ("tick", None), ARRIVE, frame, ARRIVE]
    seen = followed(page, ALL, ARRIVE, frame, ARRIVE, *again, before=1)
    assert words(seen, "error") == [
        "Sequence 2,000 cannot be read: Failed to decode stored topic (request r-7)"
    ]
    assert seen["bodies"][1]["from_id"] == "2001"
    assert phases(seen)[-1] == "live"

    failed = {"error": "stream_processing_failed", "message": "Failed to read", "request_id": "r-8"}
    ends = [("send", ["error", failed]), ("close", "end_of_stream")]
    seen = followed(page, LIVE, ARRIVE, ends[0], ARRIVE, ends[1], ARRIVE)
    assert words(seen, "error") == ["The stream failed: Failed to read (request r-8)"]
    assert told(seen) == ["opened", "error"]


def test_strange_frames(page: Tab) -> None:
    """Names and shapes nobody knows are passed over; a broken frame is a lost connection."""
    strange: list[Step] = [
        ("send", ["weather", {"sequence": 9}]),
        ("send", ["live-notification", None]),
        ("send", ["live-notification", {"sequence": "9"}]),
        ("send", ["replay-control", {"type": "constructor"}]),
        ("send", ["replay-control", 5]),
    ]
    seen = followed(page, ALL, ARRIVE, *strange, ARRIVE, ("publish", 1), ARRIVE)
    assert seen["received"] == [1]
    assert phases(seen) == ["connecting", "history", "live"]

    seen = followed(page, ALL, ARRIVE, ("raw", "data: {\n\n"), ARRIVE)
    assert words(seen, "lost") == ["A frame of the stream is not JSON. Trying again."]


def test_a_fault_of_the_page(page: Tab) -> None:
    """A callback that throws is reported as what it is, and the stream goes on."""
    page.expected.append("a fault of the page")
    seen = followed(page, ALL, ARRIVE, ("publish", 1), ARRIVE, before=1, faulty=True)
    assert seen["received"] == [1, 2]
    assert phases(seen) == ["connecting", "history", "live"]
    assert page.complaints


REAL = """async ({region}) => {
  const { Follower } = await import("/static/console/stream/follow.js");
  const post = (path, body, signal) =>
    fetch(`/${path}`, { method: "POST", body: JSON.stringify(body), signal });
  const identifier = { region };
  const notify = () => post("api/v1/notification", { event_type: "ev", identifier, payload: 1 });
  const follow = (kind, start, until) => {
    const seen = { payloads: [], phases: [], told: [] };
    return new Promise((resolve) => {
      const follower = new Follower({
        post,
        kind,
        request: { event_type: "ev", identifier, ...start },
        received(items) {
          seen.payloads.push(...items.map((item) => item.data.payload));
        },
        async changed({ phase }) {
          seen.phases.push(phase);
          if (phase === "live") await notify();
        },
        told: ({ kind }) => seen.told.push(kind),
      });
      follower.start();
      const timer = setInterval(() => {
        if (!until(seen)) return;
        clearInterval(timer);
        follower.stop();
        resolve(seen);
      }, 5);
    });
  };
  await notify();
  const live = await follow("watch", {}, ({ payloads }) => payloads.length === 1);
  const both = await follow("watch", { from_id: "0" }, ({ payloads }) => payloads.length === 3);
  const replay = await follow("replay", { from_id: "0" }, ({ phases }) => phases.includes("ended"));
  return { live, both, replay };
}"""


def test_a_real_server(page: Tab) -> None:
    """The same with a real server and a real network."""
    seen = page.page.evaluate(REAL, {"region": "follow"})
    assert seen["live"] == {
        "payloads": [1],
        "phases": ["connecting", "live"],
        "told": ["opened"],
    }
    assert seen["both"] == {
        "payloads": [1, 1, 1],
        "phases": ["connecting", "history", "live"],
        "told": ["opened", "completed"],
    }
    assert seen["replay"] == {
        "payloads": [1, 1, 1],
        "phases": ["connecting", "history", "ended"],
        "told": ["opened", "completed"],
    }
