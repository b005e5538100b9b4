"""The options of the Spark sink, checked once on the driver (docs/sink.md).

An option that is unknown, missing or out of range is refused before any row is sent. All faults
are reported together.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast
from urllib.parse import urlsplit

from aviso_server.core.errors import AvisoError
from aviso_server.pipeline.delivery.target import Target

OnReject: TypeAlias = Literal["deadLetter", "fail"]

MAX_BATCH = 5000
"""What a server takes in one request unless configured otherwise (application.max_batch_items)."""

_SPARK = frozenset({"checkpointlocation", "queryname"})
"""Spark passes its own options of a streaming query on to the sink."""

_NAMES = (
    "url",
    "token",
    "username",
    "password",
    "eventType",
    "idempotencyKey",
    "onReject",
    "deadLetterPath",
    "batchSize",
    "maxInFlight",
    "retries",
    "timeoutSeconds",
    "rate",
)


class BadSinkOptions(AvisoError):
    """The options of a write do not make sense; the message lists every reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(Target):
    """How to publish rows; the rate is that of each task."""

    event_type: str | None = None
    """For every row; None: the rows say."""
    key_column: str | None = None
    """Column with the idempotency key; None: the key is made from the row's content."""
    on_reject: OnReject = "deadLetter"
    dead_letters: str | None = None
    """Folder or URL for rows that the server does not take."""
    max_in_flight: int = 4
    """Requests at a time, of each task."""


def parse_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of ``df.write.format("aviso")``, or BadSinkOptions. Case does not matter."""
    reader = _Reader(given)
    url, authorization = _url(reader), _authorization(reader)
    on_reject = reader.text("onReject") or "deadLetter"
    if on_reject not in {"deadLetter", "fail"}:
        reader.faults.append(f"onReject is deadLetter or fail, not '{on_reject}'")
    letters = reader.text("deadLetterPath")
    if letters is None and on_reject != "fail":
        reader.faults.append("deadLetterPath is needed for rejected rows, or onReject=fail")
    options = SinkOptions(
        url=url,
        authorization=authorization,
        event_type=reader.text("eventType"),
        key_column=reader.text("idempotencyKey"),
        on_reject=cast("OnReject", on_reject),
        dead_letters=None if letters is None else absolute(letters),
        batch_size=int(reader.number("batchSize", 500, low=1, high=MAX_BATCH, whole=True)),
        max_in_flight=int(reader.number("maxInFlight", 4, low=1, high=64, whole=True)),
        retries=int(reader.number("retries", 5, low=0, high=100, whole=True)),
        timeout_s=reader.number("timeoutSeconds", 30, low=0.001, high=3600),
        rate=reader.number("rate", 0, low=0, high=1e9) or None,
    )
    if reader.faults:
        raise BadSinkOptions("; ".join(reader.faults))
    return options


class _Reader:
    """Reads options and collects what is wrong with them."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        known = {name.lower() for name in _NAMES} | _SPARK
        self.faults = [
            f"unknown option '{name}' (known: {', '.join(_NAMES)})"
            for name in sorted(self._given.keys() - known)
        ]

    def text(self, name: str) -> str | None:
        """The option's text; an empty one counts as absent."""
        text = self._given.get(name.lower(), "")
        if not text.isascii() and any(map(_is_surrogate, text)):
            # Not repeated: it may be a password.
            self.faults.append(f"{name} holds characters that cannot be sent")
            return None
        return text or None

    def number(
        self, name: str, default: float, *, low: float, high: float, whole: bool = False
    ) -> float:
        """The option as a number within bounds."""
        text = self.text(name)
        if text is None:
            return default
        try:
            number = int(text) if whole else float(text)
        except ValueError:
            number = float("nan")
        if low <= number <= high:
            return number
        kind = "a whole number" if whole else "a number"
        self.faults.append(f"{name} is {kind} from {low:g} to {high:g}, not '{text}'")
        return default


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def _url(reader: _Reader) -> str:
    url = reader.text("url")
    if url is None:
        reader.faults.append("url is needed: the address of the server")
        return ""
    if not _is_server(url):
        # The text is not repeated: it may contain a password.
        reader.faults.append("url is http://HOST:PORT or https://HOST:PORT, without credentials")
    return url.rstrip("/")


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    extra = parts.query or parts.fragment or parts.username is not None
    return parts.scheme in {"http", "https"} and named and not extra


def _authorization(reader: _Reader) -> str | None:
    token, user = reader.text("token"), reader.text("username")
    password = reader.text("password")
    if token is not None and (user is not None or password is not None):
        reader.faults.append("token and username are two ways to say who you are: give one")
    if (user is None) != (password is None):
        reader.faults.append("username and password go together")
    if token is not None:
        return f"Bearer {token}"
    if user is None or password is None:
        return None
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def absolute(path: str) -> str:
    """A path or URL that means the same in every process: executors have their own folders."""
    return path if "://" in path else str(Path(path).absolute())
