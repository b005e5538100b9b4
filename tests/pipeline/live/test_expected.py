"""What is expected: when it falls due, and how it is written down."""

from itertools import pairwise

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.pipeline.live import expected
from aviso_server.pipeline.live.expected import (
    DAY_S,
    US,
    BadExpectation,
    CyclePart,
    check_parts,
    decode_parts,
    due_between,
    encode_parts,
    parse_expected,
)
from aviso_server.settings.literals import duration_s

PART = CyclePart("mars", "1800", "stream=oper", "24", 7 * 3600)
DAY_US = DAY_S * US


def test_a_part_falls_due_after_its_base_time() -> None:
    """A cycle of the evening is due on the next day, and belongs to the day before."""
    (due,) = due_between([PART], 100 * DAY_US, 101 * DAY_US)
    assert due.base_us == 99 * DAY_US + 18 * 3600 * US
    assert due.due_us == 100 * DAY_US + 1 * 3600 * US


@given(
    st.lists(st.integers(0, 5 * DAY_S), min_size=2, max_size=8),
    st.lists(
        st.builds(
            lambda hour, due: CyclePart("mars", f"{hour:02}30", "", "", due),
            st.integers(0, 23),
            st.integers(0, 2 * DAY_S),
        ),
        max_size=4,
    ),
)
def test_each_falls_due_once_however_time_is_cut(cuts: list[int], parts: list[CyclePart]) -> None:
    """Neighbouring spans tell everything once; each due time lies within its span."""
    cuts.sort()
    whole = list(due_between(parts, cuts[0] * US, cuts[-1] * US))
    told = []
    for after, until in pairwise(cuts):
        some = list(due_between(parts, after * US, until * US))
        assert all(after * US < due.due_us <= until * US for due in some)
        told += some
    assert sorted(map(repr, told)) == sorted(map(repr, whole))
    assert all(due.due_us - due.base_us == due.what.due_s * US for due in whole)


def test_a_file_says_what_is_expected() -> None:
    """Every base time with every part."""
    text = """
    - {event_type: mars, time: ["0000", "12:00"], group: {stream: oper}, part: [0, 24], due: 6h}
    - {event_type: other, time: "0630", due: 90m}
    """
    parts = parse_expected(yaml.safe_load(text), duration_s)
    assert parts == tuple(
        sorted(
            [
                *(
                    CyclePart("mars", cycle, "stream=oper", part, 21_600)
                    for cycle in ("0000", "1200")
                    for part in ("0", "24")
                ),
                CyclePart("other", "0630", "", "", 5400),
            ]
        )
    )
    assert decode_parts(encode_parts(parts)) == parts


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "a list of items"),
        ("[]", "at least one"),
        ("[mars]", "item 1 of what is expected: must have event_type"),
        ("[{event_type: mars, due: 6h}]", "time is one base time"),
        ("[{event_type: mars, due: 6h, time: 600}]", "each in quotes"),
        ("[{event_type: mars, due: 6h, time: '2400'}]", "each in quotes"),
        ("[{event_type: mars, time: '0600'}]", "due is missing"),
        ("[{event_type: mars, time: '0600', due: 6}]", "due is missing"),
        ("[{event_type: mars, time: '0600', due: 6x}]", "duration unit must be"),
        ("[{event_type: mars, time: '0600', due: 3d}]", "2d at most"),
        ("[{time: '0600', due: 6h}]", "event_type is missing"),
        ("[{event_type: mars, time: '0600', due: 6h, step: 4}]", "unknown: step"),
        ("[{event_type: mars, time: '0600', due: 6h, group: {a: 1}}]", "a value of stream only"),
    ],
)
def test_faults_are_named(text: str, why: str) -> None:
    """The item and the reason."""
    with pytest.raises(BadExpectation, match=why):
        parse_expected(yaml.safe_load(text), duration_s)


def test_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """What travels with every micro-batch is bounded, and the message says what to do."""
    monkeypatch.setattr(expected, "MAX_PARTS", 2)
    parts = [CyclePart("mars", "0000", "", str(step), 0) for step in range(3)]
    with pytest.raises(BadExpectation, match="at most 2 can be watched"):
        check_parts(parts)
    assert len(check_parts([*parts[:2], *parts[:2]])) == 2
