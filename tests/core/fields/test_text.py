"""String, enum and expver fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.fields.text import EnumField, ExpverField, StringField

STRING = StringField(name="f", required=True)
REGION = EnumField(name="f", required=True, values=("Active", "STRASSE", "İzmir"))
EXPVER = ExpverField(name="f", required=True)


@given(st.text(min_size=1))
def test_strings_stay_as_they_are(text: str) -> None:
    """Case, blanks and Unicode are kept; ``*`` is an ordinary value."""
    assert STRING.canonical(text) == text


def test_string_length_counts_characters() -> None:
    """The limit is inclusive and counts code points, not bytes."""
    five = StringField(name="f", required=True, max_length=5)
    assert five.canonical("ééééé") == "ééééé"
    with pytest.raises(InvalidRequest) as caught:
        five.canonical("toolong")
    assert caught.value.message == "Field 'f' exceeds maximum length of 5 characters, got: 7"


@pytest.mark.parametrize("field", [STRING, EXPVER])
def test_empty_text_is_refused(field: StringField | ExpverField) -> None:
    """An empty text is no value."""
    with pytest.raises(InvalidRequest) as caught:
        field.canonical("")
    assert caught.value.message == "Field 'f' cannot be empty"


def test_enum_ignores_case() -> None:
    """The result is the lower-cased input whatever the schema's spelling."""
    assert REGION.canonical("ACTIVE") == "active"
    assert REGION.canonical("Strasse") == "strasse"


@given(st.sampled_from(["active", "Active", "strasse", "İZMİR", "İzmir"]))
def test_enum_is_idempotent(text: str) -> None:
    """Canonical text is its own canonical form."""
    try:
        once = REGION.canonical(text)
    except InvalidRequest:
        return
    assert REGION.canonical(once) == once


@pytest.mark.parametrize("text", ["URGENT", " active", "", "*"])
def test_enum_refuses_other_words(text: str) -> None:
    """The message shows the value as sent and the words as configured."""
    with pytest.raises(InvalidRequest) as caught:
        REGION.canonical(text)
    assert caught.value.message == (
        f"Field 'f' has invalid value '{text}'. Allowed: [Active, STRASSE, İzmir]"
    )


def test_enum_constraint_knows_the_words() -> None:
    """A constraint is checked against the lower-cased words."""
    assert REGION.constrain({"eq": "ACTIVE"}).test("active")
    with pytest.raises(InvalidRequest) as caught:
        EnumField(name="f", required=True, values=("A", "B")).constrain({"eq": "C"})
    assert caught.value.message == "Field 'f' has invalid enum value 'c'. Allowed: [a, b]"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1", "0001"),
        ("+1", "0001"),
        ("00001", "0001"),
        ("0", "0000"),
        ("42", "0042"),
        ("12345", "12345"),
        ("4294967295", "4294967295"),
        ("4294967296", "4294967296"),
        ("0" * 40 + "7", "0007"),
        ("-1", "-1"),
        ("1.0", "1.0"),
        ("PROD", "prod"),
        ("dev-v2.1", "dev-v2.1"),
        ("01AB", "01ab"),
        ("+", "+"),
    ],
)
def test_expver_examples(text: str, canonical: str) -> None:
    """Unsigned 32-bit numbers are padded, anything else is lower-cased."""
    assert EXPVER.canonical(text) == canonical


def test_expver_default_is_canonicalised() -> None:
    """The default stands in for an empty text only."""
    field = ExpverField(name="f", required=True, default="1")
    assert field.canonical("") == "0001"
    assert field.canonical("PROD") == "prod"


@given(st.text(min_size=1) | st.integers(0, 2**33).map(str))
def test_expver_is_idempotent(text: str) -> None:
    """Canonical text is its own canonical form."""
    once = EXPVER.canonical(text)
    assert EXPVER.canonical(once) == once
