"""What a legacy history says about one notification, before anything of it is believed. Pure.

A line of NDJSON is a notify request, perhaps with ``time``, ``sequence`` or ``id`` beside it, or a
CloudEvent as this server writes them. Rows of tables become the same thing (table.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from aviso_server.core.cloudevent import TYPE_PREFIX
from aviso_server.core.cursor import parse_moment
from aviso_server.core.errors import AvisoError, InvalidRequest, MalformedBody
from aviso_server.core.json import UNREADABLE, Json, parse

LAST = 2**63 - 1

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ASIDE = frozenset({"time", "time_ns", "sequence", "id", "idempotency_key"})
"""Members that may stand beside a request and are no part of it."""


class BadClaim(AvisoError):
    """A claim that cannot be read."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message, field=field)


@dataclass(frozen=True, slots=True)
class Claim:
    """Members of a request as JSON texts, and what only a stored notification has."""

    event_type: bytes | None
    identifier: bytes | None
    payload: bytes | None
    """None: there is none."""
    others: Mapping[str, bytes] = field(default_factory=dict)
    """Members that a request does not have."""
    sequence: int | None = None
    time_ns: int | None = None

    @property
    def body(self) -> bytes:
        """The request as it would have been sent."""
        known = {"event_type": self.event_type, "identifier": self.identifier}
        members = {**known, "payload": self.payload, **self.others}
        parts = (
            msgspec.json.encode(name) + b":" + text
            for name, text in members.items()
            if text is not None
        )
        return b"{" + b",".join(parts) + b"}"


def read_line(line: bytes) -> Claim:
    """The claim of a line; MalformedBody or BadClaim."""
    try:
        members = {name: bytes(text) for name, text in _MEMBERS.decode(line).items()}
    except UNREADABLE:
        parse(line)  # explains what is wrong, with line and column
        raise MalformedBody("JSON parsing failed: a line is a JSON object") from None
    sequence, time_ns = _sequence_and_time(members)
    if "specversion" in members and "data" in members:
        return _cloud_event(members, sequence, time_ns)
    return Claim(
        members.pop("event_type", None),
        members.pop("identifier", None),
        members.pop("payload", None),
        {name: text for name, text in members.items() if name not in _ASIDE},
        sequence,
        time_ns,
    )


def sequence_of(value: Json) -> int | None:
    """A sequence, or None for none; BadClaim."""
    if value is None:
        return None
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise BadClaim("sequence", f"sequence must be a whole number from 1 on, got: {text[:40]}")
    if not 1 <= int(text) <= LAST:
        raise BadClaim("sequence", f"sequence must be a whole number from 1 on, got: {text}")
    return int(text)


def time_of(value: Json) -> int | None:
    """A time in nanoseconds since the epoch, or None for none; BadClaim."""
    if value is None:
        return None
    try:
        return parse_moment("time", str(value))
    except InvalidRequest as error:
        raise BadClaim("time", error.message) from None


def identity(value: Json) -> tuple[str | None, int | None]:
    """Event type and sequence of an id such as ``mars@12``; BadClaim."""
    if value is None:
        return None, None
    name, at, number = str(value).rpartition("@")
    if not at:
        return None, None
    return name, sequence_of(number)


def _sequence_and_time(members: Mapping[str, bytes]) -> tuple[int | None, int | None]:
    sequence = sequence_of(_value(members, "sequence"))
    if sequence is None:
        sequence = identity(_value(members, "id"))[1]
    exact = _value(members, "time_ns")
    if exact is None:
        return sequence, time_of(_value(members, "time"))
    if isinstance(exact, bool) or not isinstance(exact, int) or not 0 <= exact <= LAST:
        raise BadClaim("time_ns", "time_ns must be nanoseconds since the epoch")
    return sequence, exact


def _cloud_event(members: Mapping[str, bytes], sequence: int | None, time_ns: int | None) -> Claim:
    """What a CloudEvent of an Aviso server carries."""
    kind = _value(members, "type")
    if not isinstance(kind, str) or not kind.startswith(TYPE_PREFIX):
        raise BadClaim("type", f"the type of a CloudEvent begins with {TYPE_PREFIX}")
    try:
        data = {name: bytes(text) for name, text in _MEMBERS.decode(members["data"]).items()}
    except UNREADABLE:
        raise BadClaim("data", "the data of a CloudEvent is an object") from None
    return Claim(
        msgspec.json.encode(kind.removeprefix(TYPE_PREFIX)),
        data.pop("identifier", None),
        data.pop("payload", None),
        data,
        sequence,
        time_ns,
    )


def _value(members: Mapping[str, bytes], name: str) -> Json:
    text = members.get(name)
    return None if text is None else parse(text)
