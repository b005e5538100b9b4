"""Roles and what they allow."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.auth.access import AccessRules, matches
from aviso_server.auth.identity import Identity
from aviso_server.auth.refusal import Forbidden, Unauthorized
from aviso_server.core.schema import Schema, StreamAccess

RULES = AccessRules({"ecmwf": ("admin",), "ops": ("*",)})
ADMIN = Identity("a", "ecmwf", ("admin",))
USER = Identity("u", "ecmwf", ("user",))
READER = Identity("r", "ecmwf", ("reader",))
WRITER = Identity("w", "ecmwf", ("writer",))
HOMELESS = Identity("h", None, ("admin", "reader", "writer", "*"))
OPERATOR = Identity("o", "ops")
OUTSIDER = Identity("x", "ECMWF", ("admin", "reader", "writer"))

OPEN = Schema("open")
LAX = Schema("lax", access=StreamAccess(required=False))
MEMBERS = Schema("members", access=StreamAccess(required=True))
ROLES = Schema(
    "roles",
    access=StreamAccess(
        required=True, read_roles={"ecmwf": ("reader",)}, write_roles={"ecmwf": ("writer",)}
    ),
)
EVERYBODY = Schema(
    "all",
    access=StreamAccess(required=True, read_roles={"ecmwf": ("*",)}, write_roles={"ecmwf": ("*",)}),
)

WHO = "Authentication is required for this stream"
READ = "User does not have required read role for this stream"
WRITE = "User does not have required write role for this stream"
ADMINS_WRITE = "Only administrators can write to this stream"


def told(check: Callable[..., None], *arguments: object) -> str | None:
    """What a caller is told, None if it is let in."""
    try:
        check(*arguments)
    except (Unauthorized, Forbidden) as refusal:
        return refusal.message
    return None


@pytest.mark.parametrize(
    ("schema", "identity", "reading", "writing"),
    [
        (OPEN, None, None, None),
        (OPEN, OUTSIDER, None, None),
        (LAX, None, None, None),
        (MEMBERS, None, WHO, WHO),
        (MEMBERS, USER, None, ADMINS_WRITE),
        (MEMBERS, HOMELESS, None, ADMINS_WRITE),
        (MEMBERS, ADMIN, None, None),
        (ROLES, None, WHO, WHO),
        (ROLES, USER, READ, WRITE),
        (ROLES, READER, None, WRITE),
        (ROLES, WRITER, READ, None),
        (ROLES, HOMELESS, READ, WRITE),
        (ROLES, OUTSIDER, READ, WRITE),
        (ROLES, ADMIN, None, None),
        (ROLES, OPERATOR, None, None),
        (EVERYBODY, USER, None, None),
        (EVERYBODY, OUTSIDER, READ, WRITE),
    ],
)
def test_the_role_matrix(
    schema: Schema, identity: Identity | None, reading: str | None, writing: str | None
) -> None:
    """Who may read and who may write, for every kind of stream and caller."""
    assert told(RULES.admit_reader, schema, identity) == reading
    assert told(RULES.admit_writer, schema, identity) == writing


@pytest.mark.parametrize("identity", [USER, READER, HOMELESS, OUTSIDER])
def test_others_are_no_administrators(identity: Identity) -> None:
    """A role of the right name in another realm, or in none, is worth nothing."""
    assert told(RULES.admit_admin, identity) == "User does not have required administrative role"


@pytest.mark.parametrize("identity", [ADMIN, OPERATOR])
def test_administrators(identity: Identity) -> None:
    """By role, or by realm where every role counts."""
    assert told(RULES.admit_admin, identity) is None


_words = st.sampled_from(["a", "b", "A", "*", ""])


@given(
    st.dictionaries(_words, st.lists(_words, max_size=3).map(tuple)),
    st.none() | _words,
    st.lists(_words, max_size=3).map(tuple),
)
def test_matching_is_what_the_specification_says(
    roles: dict[str, tuple[str, ...]], realm: str | None, own: tuple[str, ...]
) -> None:
    """The realm is a key, and its list has ``*`` or one of the roles; nothing else matches."""
    listed = roles.get(realm, ()) if realm is not None else ()
    expected = "*" in listed or any(role in listed for role in own)
    assert matches(roles, Identity("u", realm, own)) == expected
