"""Start and end points."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.core.cursor import (
    End,
    FromSequence,
    FromTime,
    Start,
    ToSequence,
    ToTime,
    Window,
    parse_moment,
    parse_sequence,
    window,
)
from aviso_server.core.errors import InvalidRequest
from aviso_server.core.excerpt import excerpt
from aviso_server.core.moment import rfc3339, rfc3339_offset
from aviso_server.core.operation import Operation
from aviso_server.core.wire import NotificationRequest

NOON_NS = 1_749_474_900 * 10**9
"""2025-06-09T13:15:00Z."""
MOMENTS = st.integers(-62_135_596_800 * 10**9, 253_402_300_800 * 10**9 - 1)
TEXTS = (
    st.text()
    | st.text("0123456789+-:TtZz. ")
    | st.from_regex(
        r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[Tt ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]*)?.{0,7}",
        fullmatch=True,
    )
)
WHY = (
    "expected ISO-8601 datetime (RFC3339/space-separated with optional timezone) "
    "or unix epoch seconds/milliseconds"
)


def request(**cursors: str) -> NotificationRequest:
    return NotificationRequest(event_type="mars", identifier={}, **cursors)


@pytest.mark.parametrize(
    ("text", "sequence"),
    [
        ("0", 0),
        ("1", 1),
        ("+1", 1),
        ("0007", 7),
        ("18446744073709551615", 2**64 - 1),
        ("0" * 5000 + "1", 1),
    ],
)
def test_sequences_are_unsigned_decimals(text: str, sequence: int) -> None:
    """One optional plus, leading zeros allowed, up to 64 bits."""
    assert parse_sequence("from_id", text) == sequence


@pytest.mark.parametrize(
    "text",
    [
        "-0",
        "-1",
        "1_0",
        "1.0",
        " 1",
        "1 ",
        "++1",
        "+",
        "x",
        "٣",
        "18446744073709551616",
        "9" * 5000,
    ],
)
def test_other_sequences_are_refused_with_the_value_as_sent(text: str) -> None:
    """Anything but digits is refused, with the text as sent."""
    with pytest.raises(InvalidRequest) as raised:
        parse_sequence("to_id", text)
    assert raised.value.message == excerpt(
        f"to_id must be a valid positive integer. Got: '{text}'. Valid examples: '1', '123', '9999'"
    )


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        # epochs
        ("1749474900", NOON_NS),
        ("+1749474900", NOON_NS),
        ("00001749474900", NOON_NS),
        ("1749474900123", NOON_NS + 123_000_000),
        ("0", 0),
        ("000000000000000", 0),
        ("99999999999", 99_999_999_999 * 10**9),
        ("100000000000", 100_000_000_000 * 10**6),
        ("253402300799999", 253_402_300_799_999 * 10**6),
        # RFC 3339
        ("2025-06-09T13:15:00Z", NOON_NS),
        ("2025-06-09t13:15:00z", NOON_NS),
        ("2025-06-09 13:15:00Z", NOON_NS),
        ("  2025-06-09T13:15:00Z\n", NOON_NS),
        ("2025-06-09T15:15:00+02:00", NOON_NS),
        ("2025-06-09T13:15:00-00:00", NOON_NS),
        ("2025-06-10T13:14:00+23:59", NOON_NS),
        ("2025-06-09T13:15:00.5Z", NOON_NS + 500_000_000),
        ("2025-06-09T13:15:00.1234567899999Z", NOON_NS + 123_456_789),
        ("2025-06-09T13:14:60Z", NOON_NS),
        ("2025-06-09T13:14:60.9Z", NOON_NS),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
        ("0001-01-01T00:00:00Z", -62_135_596_800 * 10**9),
        # a space, a loose offset, short numbers
        ("2025-06-09 13:15:00+00:00", NOON_NS),
        ("2025-06-09 15:15:00+0200", NOON_NS),
        ("2025-06-09 11:15:00 -0200", NOON_NS),
        ("2025-06-09 13:15:00.25  +00:00", NOON_NS + 250_000_000),
        ("2025-6-9 13:15:0 +0000", NOON_NS),
        # no offset is UTC
        ("2025-06-09 13:15:00", NOON_NS),
        ("2025-06-09T13:15:00", NOON_NS),
        ("2025-6-9T13:15:0.000000001", NOON_NS + 1),
    ],
)
def test_every_accepted_form_of_a_date(text: str, ns: int) -> None:
    """Every form of docs/protocol.md#start-and-end-points, exact to the nanosecond."""
    assert parse_moment("from_date", text) == ns


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-1", "negative unix timestamps are not supported: '-1'"),
        (" -0 ", "negative unix timestamps are not supported: '-0'"),
        (
            "9223372036854775808",
            (
                "failed to parse unix timestamp '9223372036854775808': "
                "number too large to fit in target type"
            ),
        ),
        ("253402300800000", "invalid unix milliseconds timestamp '253402300800000'"),
        (" +9223372036854775807", "invalid unix milliseconds timestamp '+9223372036854775807'"),
        ("2025-06-09", WHY),
        ("2025-06-09T13:15", WHY),
        ("2025-06-09T13:15Z", WHY),
        ("2025-06-09T13:15:00+0200", WHY),
        ("2025-06-09T13:15:00 +02:00", WHY),
        ("2025-6-9T13:15:00Z", WHY),
        ("2025-06-09t13:15:00", WHY),
        ("2025-06-09 13:15:00 Z", WHY),
        ("2025-06-09T13:15:00.Z", WHY),
        ("2025-06-09T24:00:00Z", WHY),
        ("2025-06-09T13:60:00Z", WHY),
        ("2025-06-09T13:15:61Z", WHY),
        ("2025-06-09T13:15:00+24:00", WHY),
        ("2025-06-09T13:15:00+23:60", WHY),
        ("2025-02-29T13:15:00Z", WHY),
        ("2025-00-01T13:15:00Z", WHY),
        ("٢٠٢٥-06-09T13:15:00Z", WHY),
        ("-", WHY),
        ("+", WHY),
        ("++5", WHY),
        ("1.5", WHY),
        ("yesterday", WHY),
    ],
)
def test_every_refused_form_of_a_date(text: str, why: str) -> None:
    """The outer message shows the text as sent, the inner one trimmed."""
    with pytest.raises(InvalidRequest) as raised:
        parse_moment("from_date", text)
    assert raised.value.message == (
        f"from_date must be a valid datetime/timestamp. Got: '{text}'. Error: {why}. "
        "Valid examples: '2025-06-09T13:15:00Z', '2025-06-09 13:15:00+00:00', "
        "'2025-06-09 13:15:00', '1740509903', '1740509903710'"
    )


@given(MOMENTS)
def test_our_own_spellings_are_read_back_exactly(ns: int) -> None:
    """A CloudEvent's time, and every spelling derived from it, names the same nanosecond."""
    text = rfc3339(ns)
    assert parse_moment("from_date", text) == ns
    assert parse_moment("from_date", rfc3339_offset(ns)) == ns
    assert parse_moment("from_date", text.replace("T", " ")) == ns
    assert parse_moment("from_date", text.removesuffix("Z")) == ns
    assert parse_moment("from_date", text.replace("T", " ").replace("Z", " +0000")) == ns


@given(MOMENTS, st.integers(-1439, 1439))
def test_an_offset_names_the_same_instant(ns: int, minutes: int) -> None:
    """Local time with its offset is the instant, for every offset up to 23:59."""
    local = ns + minutes * 60 * 10**9
    sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    text = rfc3339(local)
    if text[0].isdigit():
        spelled = f"{text.removesuffix('Z')}{sign}{hours:02}:{rest:02}"
        assert parse_moment("to_date", spelled) == ns
        assert parse_moment("to_date", spelled.replace("T", " ")) == ns


@given(st.datetimes(timezones=st.timezones() | st.just(UTC)))
def test_python_spellings_agree_with_python(moment: datetime) -> None:
    """Where ``datetime.isoformat`` writes a form we read, both mean the same instant."""
    offset = moment.utcoffset() or timedelta()
    if offset.total_seconds() % 60:
        return  # historic offsets with seconds are not ISO 8601
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    ns = ((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000
    assert parse_moment("from_date", moment.isoformat()) == ns
    assert parse_moment("from_date", moment.isoformat(sep=" ")) == ns


@given(st.integers(0, 2**64 - 1))
def test_sequences_round_trip(sequence: int) -> None:
    """The decimal text of any 64-bit sequence is read back."""
    assert parse_sequence("from_id", str(sequence)) == sequence


@given(TEXTS)
def test_any_text_is_read_or_refused_as_invalid(text: str) -> None:
    """No text raises anything but InvalidRequest, and what is read can be shown."""
    with suppress(InvalidRequest):
        assert rfc3339(parse_moment("from_date", text))
    with suppress(InvalidRequest):
        assert 0 <= parse_sequence("from_id", text) < 2**64


def test_a_watch_starts_live_at_a_sequence_or_at_a_time() -> None:
    """No start is live only; one start is history, then live."""
    assert window(request(), Operation.WATCH) == Window()
    assert window(request(from_id="5"), Operation.WATCH) == Window(FromSequence(5))
    assert window(request(from_date="0"), Operation.WATCH) == Window(FromTime(0))


@pytest.mark.parametrize(
    ("start_text", "start"),
    [({"from_id": "5"}, FromSequence(5)), ({"from_date": "5"}, FromTime(5 * 10**9))],
)
@pytest.mark.parametrize(
    ("end_text", "end"),
    [({}, None), ({"to_id": "5"}, ToSequence(5)), ({"to_date": "5"}, ToTime(5 * 10**9))],
)
def test_a_replay_combines_any_start_with_any_end(
    start_text: dict[str, str], start: Start, end_text: dict[str, str], end: End | None
) -> None:
    """Any kind of start goes with any kind of end, and both are inclusive."""
    replay = window(request(**start_text, **end_text), Operation.REPLAY)
    assert replay == Window(start, end)
