"""Dates as the server takes them; times, spans and numbers as people read them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.browser import Tab

from aviso_server.core.cursor import parse_moment
from aviso_server.core.errors import InvalidRequest

CHECK = """async (texts) => {
  const { check } = await import("/static/console/moments.js");
  return texts.map(check).map(({ ok, kind, instant, error }) => (
    { ok, kind: kind ?? null, ms: instant?.getTime() ?? null, error: error ?? null }
  ));
}"""
CALL = """async ([name, values]) => {
  const moments = await import("/static/console/moments.js");
  return values.map((value) => moments[name](...[value].flat()));
}"""


def called(page: Tab, name: str, values: list[Any]) -> list[Any]:
    """What a function says of each value."""
    answer: list[Any] = page.page.evaluate(CALL, [name, values])
    return answer


def checked(page: Tab, texts: list[str]) -> list[dict[str, Any]]:
    """What the page says of texts that are to be dates."""
    answer: list[dict[str, Any]] = page.page.evaluate(CHECK, texts)
    return answer


def taken(text: str) -> int | None:
    """The milliseconds of a text by the server itself; None if it refuses."""
    try:
        return parse_moment("from_date", text) // 10**6
    except InvalidRequest:
        return None


BLANKS = [chr(code) for code in range(0x3001) if chr(code).isspace()] + ["\ufeff", "\u200b"]
DIGITS = st.integers(0, 10**20).map(str) | st.text("0123456789", min_size=1, max_size=21)
NUMBERS = st.builds("{}{}".format, st.sampled_from(["", "", "+", "-", "00", "+0"]), DIGITS)
PARTS = st.integers(0, 62).flatmap(lambda n: st.sampled_from([f"{n:02}", str(n)]))
DATES = st.builds(
    "{}-{}-{}{}{}:{}:{}{}{}{}".format,
    st.integers(0, 10_000).map(lambda year: f"{year:04}"),
    st.integers(0, 13).flatmap(lambda n: st.sampled_from([f"{n:02}", str(n)])),
    st.integers(0, 32).flatmap(lambda n: st.sampled_from([f"{n:02}", str(n)])),
    st.sampled_from(["T", "T", " ", "t", "  ", ""]),
    PARTS,
    PARTS,
    PARTS,
    st.sampled_from(["", "", ".", ".5", ".123456789", ".9999999999", ",5"]),
    st.sampled_from(["", "", " ", "  ", "\t", "\x1c", "\ufeff"]),
    st.sampled_from(
        ["", "Z", "z", "+02:00", "-23:59", "+24:00", "+0130", "+1", "-00:60", "UTC", "Z\n"]
    ),
)
# Every second text is a moment that exists, so that what is accepted is met often enough.
GOOD = st.builds(
    lambda moment, pattern: moment.strftime(pattern).rjust(19, "0"),
    st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)),  # noqa: DTZ001 - the text has none
    st.sampled_from(
        [
            "%Y-%m-%dT%H:%M:%SZ",
            "%Y-%m-%dt%H:%M:%S.%fz",
            "%Y-%m-%d %H:%M:%S+01:30",
            "%Y-%m-%d %H:%M:%S -0130",
            "%Y-%m-%d %H:%M:%S",
            "%Y-%m-%dT%H:%M:%S.%f",
            "%Y-%m-%dT%H:%M:60Z",
            "%Y-%m-%dT%H:%M:60.5Z",
            "%Y-%m-%dT%H:%M",
            "%Y-%m-%d",
        ]
    ),
)
TEXTS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "", "", *BLANKS]),
    DATES | GOOD | NUMBERS | st.text("0123456789+-:TZ. ", max_size=30) | st.text(max_size=10),
    st.sampled_from(["", "", "", *BLANKS]),
)


@settings(max_examples=60)
@given(st.lists(TEXTS, min_size=1, max_size=40))
def test_check_agrees_with_the_server(page: Tab, texts: list[str]) -> None:
    """The page accepts and refuses what the server does, and means the same instant."""
    found = [answer["ms"] for answer in checked(page, texts)]
    assert dict(zip(texts, found, strict=True)) == {text: taken(text) for text in texts}


def test_calendar_edges(page: Tab) -> None:
    """Days that are not in every year, the ends of the years, leap seconds, and all blanks."""
    days = [
        f"{year:04}-{month:02}-{day:02}T23:59:59.9999Z"
        for year in (0, 1, 4, 99, 100, 400, 1900, 1969, 1970, 2000, 2023, 2024, 9999)
        for month in (1, 2, 4, 12)
        for day in (0, 1, 28, 29, 30, 31, 32)
    ]
    clocks = [
        f"2024-02-29 {hour}:{minute}:{second}"
        for hour in ("0", "23", "24", "024")
        for minute in ("00", "59", "60")
        for second in ("0", "59", "60", "61", "60.7")
    ]
    edges = [
        *("0000-01-01T00:00:00+23:59", "9999-12-31T23:59:60-23:59", "253402300799999"),
        *("253402300800000", "99999999999", "100000000000", "9223372036854775807"),
        *("9223372036854775808", "-1", "-0", "+5", "++5", "0" * 30, "0" * 30 + "7", "٣"),
    ]
    offsets = (
        "",
        "Z",
        "+23:59",
        "-23:59",
        "+24:00",
        "-24:00",
        "+23:60",
        "+2359",
        "+2400",
        "+2360",
        "+1",
    )
    edges += [f"2024-02-29{gap}10:00:00{offset}" for gap in "Tt " for offset in offsets]
    blanks = [f"{blank}5{blank}" for blank in BLANKS]
    blanks += [f"2024-02-29 10:00:00{blank}+0100" for blank in BLANKS]
    texts = [*days, *clocks, *edges, *blanks]
    answers = checked(page, texts)
    assert [answer["ms"] for answer in answers] == [taken(text) for text in texts]
    assert all(answer["ok"] == (answer["error"] is None) for answer in answers)
    assert 50 < sum(answer["ok"] for answer in answers) < len(texts) - 50, "both are met"


def test_kinds_and_words(page: Tab) -> None:
    """What was understood is shown, and what is missing too."""
    kinds = [answer["kind"] for answer in checked(page, ["1740509903", "1740509903710"])]
    assert kinds == ["seconds", "milliseconds"]
    (answer,) = checked(page, [" 2025-06-09 13:15:00 +0200 "])
    assert answer == {"ok": True, "kind": "date", "ms": 1_749_467_700_000, "error": None}
    errors = [
        answer["error"]
        for answer in checked(page, ["", "2025-06-09", "2025-06-09T13:15", "-5", "9" * 15, "soon"])
    ]
    assert errors == [
        "empty; write a date and a time, such as 2025-06-09T13:15:00Z",
        "a time of day is missing, such as 2025-06-09T13:15:00Z",
        "seconds are missing, such as 2025-06-09T13:15:00Z",
        "seconds before 1970 are not taken",
        "that is after the year 9999",
        "a date and a time are wanted, such as 2025-06-09T13:15:00Z, or seconds since 1970",
    ]


def test_calendar(page: Tab) -> None:
    """What a calendar gives is a text the server takes, read as UTC; and back."""
    values = ["2025-06-09T13:15", "2025-06-09T13:15:07", "2025-06-09T13:15:07.250", ""]
    texts = called(page, "fromCalendar", values)
    assert texts == [
        "2025-06-09T13:15:00Z",
        "2025-06-09T13:15:07Z",
        "2025-06-09T13:15:07.250Z",
        "",
    ]
    assert [taken(text) for text in texts[:3]] == [
        1_749_474_900_000,
        1_749_474_907_000,
        1_749_474_907_250,
    ]
    back = "import('/static/console/moments.js').then((m) => m.toCalendar(new Date(1749474907250)))"
    assert page.page.evaluate(back) == "2025-06-09T13:15:07"


def test_stored_times(page: Tab) -> None:
    """The time of a notification, short and whole; what is no time is shown as it is."""
    stored = [
        "2026-03-04T10:00:07Z",
        "2026-03-04T10:00:07.120Z",
        "2026-03-04T10:00:07.123456Z",
        "2026-03-04T10:00:07.123999999Z",
        "yesterday",
        None,
    ]
    assert called(page, "clock", stored) == [
        "10:00:07.000",
        "10:00:07.120",
        "10:00:07.123",
        "10:00:07.123",
        "yesterday",
        "null",
    ]
    assert called(page, "stamp", stored) == [
        "2026-03-04 10:00:07 UTC",
        "2026-03-04 10:00:07.120 UTC",
        "2026-03-04 10:00:07.123456 UTC",
        "2026-03-04 10:00:07.123999999 UTC",
        "yesterday",
        "null",
    ]


def test_spans(page: Tab) -> None:
    """Spans in the largest unit that says enough."""
    seconds = [0, 1, 90, 119, 120, 7199, 7200, 129_600, 172_799, 172_800, 604_800, 10**9, None]
    assert called(page, "span", seconds) == [
        *("0 s", "1 s", "90 s", "119 s", "2 min", "119 min", "2 h", "36 h", "47 h"),
        *("2 days", "7 days", "11,574 days", ""),
    ]
    ms = [-5000, 0, 999, 1000, 3500, 7_300_000, 10**9, "soon"]
    assert called(page, "ago", ms) == [
        *("just now", "just now", "just now", "1 s ago", "3 s ago", "2 h ago", "11 days ago", ""),
    ]


def test_since(page: Tab) -> None:
    """How long ago a text or a number of nanoseconds was."""
    then = datetime(2026, 3, 4, 10, 0, tzinfo=UTC)
    now = (then + timedelta(minutes=5)).timestamp() * 1000
    moments = [
        [moment, now] for moment in ("2026-03-04T10:00:00Z", "2026-03-04T10:00:00.5+01:00", "never")
    ]
    assert called(page, "since", moments) == ["5 min ago", "64 min ago", ""]
    assert called(page, "since", [[then.timestamp() * 1e9, now]]) == ["5 min ago"]


def test_numbers(page: Tab) -> None:
    """Counts, rates and sizes that one can read."""
    counts = [0, 999, 1000, 10_000, 1_234_567, 2.6, None]
    assert called(page, "count", counts) == [
        *("0", "999", "1,000", "10,000", "1,234,567", "3", ""),
    ]
    rates = [0, 0.4, 1, 9.94, 9.96, 12.3, 4321, 0.1, 0.0999, 0.05, 1 / 60, 0.0166, 2 / 3600]
    rates += [0.5 / 3600, 0.1 / 3600]
    assert called(page, "rate", [*rates, None]) == [
        *("0/s", "0.4/s", "1/s", "9.9/s", "10/s", "12/s", "4,321/s", "0.1/s", "6/min", "3/min"),
        *("1/min", "60/h", "2/h", "1/h", "< 1/h", ""),
    ]
    sizes = [0, 1, 999, 1000, 1234, 9949, 9951, 999_499, 999_500, 999_999, 5e9, 2e15, 9e18, None]
    assert called(page, "bytes", sizes) == [
        *("0 B", "1 B", "999 B", "1.0 kB", "1.2 kB", "9.9 kB", "10 kB", "999 kB", "1.0 MB"),
        *("1.0 MB", "5.0 GB", "2.0 PB", "9000 PB", ""),
    ]
