"""The ``Authorization`` header."""

import pytest

from aviso_server.auth.credential import bearer_token, forwardable
from aviso_server.auth.refusal import MalformedHeader

NOT_TEXT = "Authorization header is not valid UTF-8"
EMPTY = "Authorization header cannot be empty"
SCHEME = "Authorization header must use Bearer or Basic scheme"
NOTHING = "Authorization header credentials cannot be empty"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("Bearer \udce9", NOT_TEXT),
        ("Bearer é", NOT_TEXT),
        ("Bearer a\x7f", NOT_TEXT),
        ("", EMPTY),
        ("  \t ", EMPTY),
        ("Bearer", SCHEME),
        ("Basic", SCHEME),
        ("Digest abc", SCHEME),
        ("Bearer\tabc", SCHEME),
        ("abc", SCHEME),
        ("Bearer ", NOTHING),
        ("basic   ", NOTHING),
    ],
)
def test_what_direct_mode_cannot_forward(header: str, message: str) -> None:
    """Each kind of malformed header has its own text."""
    with pytest.raises(MalformedHeader) as caught:
        forwardable(header)
    assert caught.value.message == message


@pytest.mark.parametrize(
    "header", ["Bearer abc", "bearer abc", "BASIC dTpw", " Bearer abc ", "Bearer  two words"]
)
def test_what_direct_mode_forwards(header: str) -> None:
    """Either scheme in any case, trimmed and otherwise as it came."""
    assert forwardable(header) == header.strip()


@pytest.mark.parametrize("header", ["Bearer a.b.c", "bearer  a.b.c", " BEARER\ta.b.c "])
def test_a_bearer_token(header: str) -> None:
    """The scheme in any case; blanks do not matter."""
    assert bearer_token(header) == "a.b.c"
