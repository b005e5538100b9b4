"""Long texts of clients, cut before they are shown again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.excerpt import LONGEST, excerpt
from aviso_server.core.fields.moment import DateField


@given(st.text(max_size=LONGEST))
def test_ordinary_texts_are_shown_as_they_are(text: str) -> None:
    """Up to the limit nothing changes: messages are fixed, byte for byte."""
    assert excerpt(text) == text


def test_long_texts_keep_their_beginning_and_end() -> None:
    """What is left is as long as the limit, whatever was sent."""
    for length in (LONGEST + 1, 10 * LONGEST, 250_000):
        shown = excerpt("a" * (length - 1) + "z")
        assert len(shown) == LONGEST
        assert shown.startswith("aaa")
        assert " … " in shown
        assert shown.endswith("aaz")


def test_errors_quote_a_bounded_part_of_what_they_refuse() -> None:
    """The field and what was expected are still there."""
    field = DateField(name="date", required=True)
    with pytest.raises(InvalidRequest) as caught:
        field.canonical("2" * 250_000)
    details = caught.value.details
    assert len(details) == LONGEST
    assert details.startswith("Field 'date' contains invalid date '222")
    assert details.endswith("222'. Expected: YYYY-MM-DD, YYYYMMDD, or YYYY-DDD")
