"""Several notifications in one body: a JSON array, or NDJSON with one request object per line.

Each item is judged for itself; only a body that cannot be taken apart is refused as a whole. An
item is a request object with one more member allowed, ``idempotency_key``.
"""

import re
from typing import TypeAlias

import msgspec

from aviso_server.core.errors import InvalidRequest, MalformedBody, RequestError
from aviso_server.core.json import parse
from aviso_server.core.wire import NotificationRequest, parse_request

KEY = re.compile(r"[\x21-\x7e]{1,255}")
"""What an idempotency key looks like (http.md 8)."""

_BAD_KEY = "Idempotency-Key must be 1 to 255 visible ASCII characters"

Item: TypeAlias = tuple[NotificationRequest, str | None] | RequestError
"""A request and its key, or why there is none."""

_RAW_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def check_key(key: str) -> str:
    """The key, or InvalidRequest."""
    if not KEY.fullmatch(key):
        raise InvalidRequest(_BAD_KEY)
    return key


def parse_batch(body: bytes, *, max_items: int) -> list[Item]:
    """The items of a body, in order; MalformedBody or InvalidRequest for the body as a whole."""
    raw = _array(body) if body.lstrip()[:1] == b"[" else _lines(body)
    if not raw:
        raise InvalidRequest("The batch is empty. Send a JSON array or one request object per line")
    if len(raw) > max_items:
        raise InvalidRequest(f"The batch has {len(raw)} notifications, the limit is {max_items}")
    return [_item(text) for text in raw]


def _array(body: bytes) -> list[bytes]:
    try:
        return [bytes(item) for item in _RAW_ITEMS.decode(body)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        parse(body)  # explains what is wrong, with line and column
        raise MalformedBody("JSON parsing failed: the batch is not an array") from None


def _lines(body: bytes) -> list[bytes]:
    return [line for line in body.split(b"\n") if line.strip()]


def _item(text: bytes) -> Item:
    try:
        if b'"idempotency_key"' not in text:
            return parse_request(text), None
        members = _MEMBERS.decode(text)
        key = members.pop("idempotency_key", None)
        request = parse_request(msgspec.json.encode(members))
        return request, None if key is None else _key(bytes(key))
    except RequestError as error:
        return error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return parse_request(text), None
        except RequestError as error:
            return error


def _key(raw: bytes) -> str:
    value = parse(raw)
    if not isinstance(value, str):
        raise InvalidRequest(_BAD_KEY)
    return check_key(value)
