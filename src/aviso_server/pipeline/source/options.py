"""The options of the source, read and checked once (docs/source.md). Pure.

Spark hands options over as texts, with names in any case. Whatever is wrong is said at once, in one
error; secrets are in no error and in no repr.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import unquote

from aviso_server.core.cursor import parse_moment
from aviso_server.core.declaration import read_declaration
from aviso_server.core.errors import AvisoError, InvalidRequest
from aviso_server.core.filter import Filter
from aviso_server.core.identifier import check_spatial, compile_filter
from aviso_server.core.json import Json, parse
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Schema
from aviso_server.pipeline.source.failure import BadOption

Transport: TypeAlias = Literal["nats", "http"]

EVERY = "*"
"""In ``eventType`` every event type; as a key of starting or ending points all others."""

KNOWN = (
    "transport",
    "servers",
    "addressFile",
    "url",
    "token",
    "username",
    "password",
    "credentialsFile",
    "tlsCaFile",
    "tlsCertFile",
    "tlsKeyFile",
    "eventType",
    "startingSequence",
    "startingTimestamp",
    "endingSequence",
    "endingTimestamp",
    "filter",
    "maxRecordsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "schemas",
)
"""Every option, as the documentation spells it."""

_SCHEMES: Mapping[str, Transport] = {
    "nats": "nats",
    "tls": "nats",
    "ws": "nats",
    "wss": "nats",
    "http": "http",
    "https": "http",
}
_LAST_SEQUENCE = 2**63 - 1
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the notifications, and as whom."""

    transport: Transport
    addresses: tuple[str, ...] = ()
    """NATS servers, or the one address of the HTTP server; never with credentials inside."""
    address_file: str | None = None
    """Holds the address instead; read on every connection, for it changes with every start."""
    token: str | None = field(default=None, repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    credentials_file: str | None = None
    tls_ca_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None


@dataclass(frozen=True, slots=True)
class Earliest:
    """What is kept now begins here."""


@dataclass(frozen=True, slots=True)
class Latest:
    """What is stored from now on begins here; as an end, the last notification of now."""


@dataclass(frozen=True, slots=True)
class At:
    """A sequence, inclusive."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A storage time in nanoseconds since the epoch, inclusive."""

    ns: int


Point: TypeAlias = Earliest | Latest | At | Moment


@dataclass(frozen=True, slots=True)
class Points:
    """Where to begin or to end, by event type."""

    default: Point
    named: Mapping[str, Point] = field(default_factory=dict)

    def of(self, event_type: str) -> Point:
        """The point of one event type."""
        return self.named.get(event_type, self.default)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a read asks for."""

    access: Access
    event_types: tuple[str, ...] | None = None
    """None is every event type there is, also those that appear later."""
    starting: Points = field(default_factory=lambda: Points(Earliest()))
    ending: Points = field(default_factory=lambda: Points(Latest()))
    bounded: bool = False
    """Whether an ending was asked for, which only a batch can have."""
    identifier: Mapping[str, Json] | None = None
    """The identifier of a watch request; None takes everything."""
    max_records: int | None = None
    min_partitions: int = 1
    fail_on_data_loss: bool = True
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    """Declared by the reader, before what the streams themselves say."""

    def filter_on(self, schema: Schema) -> Filter | None:
        """The filter on one event type, None where everything is asked for, or BadOption.

        It is compiled as a watch request's identifier is, by the same code.
        """
        if self.identifier is None:
            return None
        try:
            check_spatial(self.identifier)
            return compile_filter(schema, self.identifier, Operation.REPLAY)
        except InvalidRequest as error:
            raise BadOption(f"filter on '{schema.event_type}': {error.message}") from None


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of a read, or BadOption."""
    texts = {name.lower(): text for name, text in given.items()}
    names = {name.lower(): name for name in KNOWN}
    if unknown := sorted(texts.keys() - names.keys()):
        raise BadOption(
            f"unknown option{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}; "
            f"known are {', '.join(KNOWN)}"
        )
    asked = _Asked(texts)
    event_type, identifier = _filter(asked.text("filter"))
    return SourceOptions(
        access=_access(asked),
        event_types=_event_types(asked.text("eventType"), event_type),
        starting=asked.points("starting", Earliest()),
        ending=asked.points("ending", Latest()),
        bounded=asked.text("endingSequence") is not None
        or asked.text("endingTimestamp") is not None,
        identifier=identifier,
        max_records=asked.count("maxRecordsPerTrigger"),
        min_partitions=asked.count("minPartitions") or 1,
        fail_on_data_loss=asked.flag("failOnDataLoss", default=True),
        schemas=_schemas(asked.text("schemas")),
    )


class _Asked:
    """Texts by option, handed out as values."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def text(self, name: str) -> str | None:
        """The text, None where there is none or an empty one."""
        return self._texts.get(name.lower()) or None

    def flag(self, name: str, *, default: bool) -> bool:
        """A boolean."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise BadOption(f"{name} must be true or false, got '{text}'")
        return text.lower() == "true"

    def count(self, name: str) -> int | None:
        """A positive number."""
        text = self.text(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < 1:
            raise BadOption(f"{name} must be a positive number, got '{text}'")
        return int(text)

    def points(self, side: str, default: Point) -> Points:
        """Starting or ending points; at most one of the two ways to say them."""
        by_sequence, by_time = f"{side}Sequence", f"{side}Timestamp"
        sequence, moment = self.text(by_sequence), self.text(by_time)
        if sequence is not None and moment is not None:
            raise BadOption(f"give {by_sequence} or {by_time}, not both")
        if moment is not None:
            return Points(Moment(_check(by_time, lambda: parse_moment(by_time, moment))))
        if sequence is None:
            return Points(default)
        if not sequence.lstrip().startswith("{"):
            return Points(_point(by_sequence, sequence.strip()))
        value = _json(by_sequence, sequence)
        if not isinstance(value, dict):
            raise BadOption(f"{by_sequence} must be a JSON object")
        named = {name: _point(by_sequence, item) for name, item in value.items()}
        return Points(named.pop(EVERY, default), named)


def _point(name: str, value: Json) -> Point:
    text = str(value).lower()
    if text == "earliest" and name.startswith("starting"):
        return Earliest()
    if text == "latest":
        return Latest()
    if not isinstance(value, bool) and text.isascii() and text.isdigit():
        return At(min(int(text[:20]), _LAST_SEQUENCE))
    words = "earliest, latest, a sequence" if name.startswith("starting") else "latest, a sequence"
    raise BadOption(f"{name} must be {words} or a JSON object of them, got '{value}'")


def _access(asked: _Asked) -> Access:
    servers, url, file = asked.text("servers"), asked.text("url"), asked.text("addressFile")
    ways = [name for name in ("servers", "url", "addressFile") if asked.text(name) is not None]
    if len(ways) != 1:
        raise BadOption(
            "say where the notifications are with one of servers (nats://...), "
            f"url (http://...) and addressFile; given: {', '.join(ways) or 'none'}"
        )
    login = _Login(asked.text("token"), asked.text("username"), asked.text("password"))
    addresses = [
        login.strip_credentials(part) for part in (servers or url or "").split(",") if part.strip()
    ]
    transport = _transport(addresses, asked.text("transport"), default="http" if url else "nats")
    if transport == "http" and file is not None:
        raise BadOption("addressFile holds the address of a NATS server: it needs transport nats")
    if transport == "http" and len(addresses) != 1:
        raise BadOption("url takes one address")
    return Access(
        transport,
        tuple(addresses),
        file,
        login.token,
        login.username,
        login.password,
        asked.text("credentialsFile"),
        asked.text("tlsCaFile"),
        asked.text("tlsCertFile"),
        asked.text("tlsKeyFile"),
    )


@dataclass(slots=True)
class _Login:
    """Credentials, also those found inside an address: an address is shown, they must not be."""

    token: str | None = field(repr=False)
    username: str | None
    password: str | None = field(repr=False)

    def strip_credentials(self, address: str) -> str:
        """The address without user and password, which are taken from it."""
        address = address.strip()
        scheme, found, rest = address.rpartition("://")
        before, at, host = rest.rpartition("@")
        if not at:
            return address
        user, colon, word = before.partition(":")
        if colon:
            self.username = self.username or unquote(user)
            self.password = self.password or unquote(word)
        else:
            self.token = self.token or unquote(user)
        return f"{scheme}{found}{host}"


def login_of(address: str) -> tuple[str, str | None]:
    """An address as the embedded server writes it: the address itself, and the token in it."""
    login = _Login(None, None, None)
    return login.strip_credentials(address), login.token


def _transport(addresses: list[str], asked: str | None, *, default: Transport) -> Transport:
    if asked is not None and asked.lower() not in ("nats", "http"):
        raise BadOption(f"transport must be nats or http, got '{asked}'")
    schemes = [address.partition("://") for address in addresses]
    meant = {_SCHEMES.get(word.lower()) if found else default for word, found, _ in schemes}
    if None in meant or len(meant) > 1:
        raise BadOption("addresses begin with nats://, tls://, http:// or https://, all alike")
    found: Transport = next((word for word in meant if word), default)
    if asked is not None and addresses and asked.lower() != found:
        raise BadOption(f"transport {asked.lower()} does not go with the address given")
    return found if asked is None else ("http" if asked.lower() == "http" else "nats")


def _event_types(text: str | None, filtered: str | None) -> tuple[str, ...] | None:
    names = tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))
    if not names and filtered is None:
        raise BadOption(f"eventType is missing: a name, several with commas, or {EVERY} for all")
    if filtered is not None and names not in ((), (filtered,)):
        raise BadOption(f"the filter is for '{filtered}' and eventType says '{text}'")
    if EVERY in names:
        return None
    return names or (str(filtered),)


def _filter(text: str | None) -> tuple[str | None, Mapping[str, Json] | None]:
    """The event type a filter names, if it does, and its identifier."""
    if text is None:
        return None, None
    value = _json("filter", text)
    if not isinstance(value, dict):
        raise BadOption("filter must be a JSON object: the identifier of a watch request")
    identifier = value.get("identifier")
    # A request rather than its identifier; a field called identifier is never an object.
    if isinstance(identifier, dict) and value.keys() <= {"event_type", "identifier"}:
        named = value.get("event_type")
        if named is not None and not isinstance(named, str):
            raise BadOption("event_type in filter must be a text")
        return named, identifier
    return None, value


def _schemas(text: str | None) -> Mapping[str, Schema]:
    if text is None:
        return {}
    value = _json("schemas", text)
    if not isinstance(value, list):
        raise BadOption("schemas must be a JSON list of declarations")
    made = _check("schemas", lambda: [read_declaration(item) for item in value])
    return {schema.event_type: schema for schema in made}


def _json(name: str, text: str) -> Json:
    return _check(name, lambda: parse(text.encode(errors="surrogatepass"), failed="not JSON"))


def _check(name: str, make: Callable[[], _Made]) -> _Made:
    try:
        return make()
    except AvisoError as error:
        raise BadOption(f"{name}: {error.message}") from None
