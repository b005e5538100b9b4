"""Request bodies as typed values (docs/protocol.md#the-request-object)."""

import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from aviso_server.core.errors import InvalidRequest, UnknownMember, WrongShape
from aviso_server.core.json import UNREADABLE, compact, parse, refuse_excess

if TYPE_CHECKING:
    from aviso_server.core.json import Json
else:
    # msgspec cannot build a decoder for a recursive alias; ``object`` takes any value unchanged.
    Json = object


class NotificationRequest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False
):
    """What a client sends to notify, watch or replay; only its shape has been checked."""

    event_type: str
    identifier: dict[str, Json]
    from_id: str | None = None
    """Cursors are texts; an integer cursor is its decimal text, null is absent."""
    from_date: str | None = None
    to_id: str | None = None
    to_date: str | None = None
    payload: Json | UnsetType = UNSET
    """UNSET when omitted; an explicit null is a payload whose value is null."""


_MEMBERS = NotificationRequest.__struct_fields__
_CURSORS = ("from_date", "from_id", "to_date", "to_id")
_ALLOWED = ", ".join(f'"{name}"' for name in _MEMBERS)
GOOD = msgspec.json.Decoder(NotificationRequest)
"""Reads what is right; ``refuse_excess`` has to be asked as well, and ``parse_request`` does."""
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def parse_request(body: bytes) -> NotificationRequest:
    """The request object in a body; MalformedBody, UnknownMember or WrongShape.

    A good body with text cursors is decoded in one step. Anything else is read again as plain
    JSON, which either explains what is wrong or turns integer cursors into text.
    """
    try:
        request = GOOD.decode(body)
    except UNREADABLE:
        return _examine(parse(body))
    refuse_excess(body)
    return request


def check_key(key: "Json") -> str:
    """An idempotency key, of a header or of an item of a batch, or InvalidRequest."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidRequest(
            "Idempotency-Key must be 1 to 255 visible ASCII characters", field="idempotency_key"
        )
    return key


def parse_wipe(body: bytes) -> str:
    """The stream name in a wipe request; MalformedBody or WrongShape.

    Members other than ``stream_name`` are ignored.
    """
    failed = "Json deserialize error"
    value = parse(body, failed=failed)
    if not isinstance(value, dict):
        raise WrongShape(
            f"{failed}: invalid type: {_found(value)}, expected struct WipeStreamRequest"
        )
    if "stream_name" not in value:
        raise WrongShape(f"{failed}: missing field `stream_name`")
    name = value["stream_name"]
    if not isinstance(name, str):
        raise WrongShape(f"{failed}: invalid type: {_found(name)}, expected a string")
    return name


def _examine(value: "Json") -> NotificationRequest:
    """The request in a JSON value, by the order of docs/protocol.md#order-of-checks.

    Unknown members first, then the type of each member alphabetically, then missing members.
    """
    if not isinstance(value, dict):
        raise _wrong_type(value, "struct NotificationRequest")
    unknown = value.keys() - set(_MEMBERS)
    if unknown:
        raise UnknownMember(
            f"Request contains unknown fields: Unknown field '{min(unknown)}' in request. "
            f"Allowed fields: [{_ALLOWED}]",
            field=min(unknown),
        )
    members = dict(value)
    for name in sorted(members):
        members[name] = _member(name, members[name])
    for name in ("event_type", "identifier"):
        if name not in members:
            raise WrongShape(f"Request deserialization failed: missing field `{name}`", field=name)
    return msgspec.convert(members, NotificationRequest)


def _member(name: str, value: "Json") -> "Json":
    """One member with its type checked; an integer cursor becomes text."""
    if name == "identifier" and not isinstance(value, dict):
        raise _wrong_type(value, "a map", name)
    if name == "event_type" and not isinstance(value, str):
        raise _wrong_type(value, "a string", name)
    if name in _CURSORS and value is not None and not isinstance(value, str):
        # bool is a kind of int in Python, and not a cursor.
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong_type(value, "a string", name)
        return str(value)
    return value


def _wrong_type(value: "Json", expected: str, field: str | None = None) -> WrongShape:
    return WrongShape(
        f"Request deserialization failed: invalid type: {_found(value)}, expected {expected}",
        field=field,
    )


def _found(value: "Json") -> str:
    """The kind of a value, as the reference server names it."""
    match value:
        case None:
            return "null"
        case bool():
            return f"boolean `{str(value).lower()}`"
        case int():
            return f"integer `{value}`"
        case float():
            return f"floating point `{compact(value).decode()}`"
        case str():
            return f"string {compact(value).decode()}"
        case list():
            return "sequence"
        case dict():
            return "map"
