"""Redaction: no secret reaches a log, a dump or an error text."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

REDACTED = "[REDACTED]"

_SENSITIVE = re.compile(r"password|secret|token|authorization|api_key", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^\s/?#@]*+@(?:[^\s/?#@]*+@)*+")
_BARE_USER_INFO = re.compile(
    r"(?:^|(?<=,))\s*+[^\s/,@:]*+:(?:[^\s/,@]++|,(?!\s))*+(?P<user_info>@?)"
)
"""``user:password@host`` without a scheme, which NATS clients accept.

What begins like one and has no ``@`` is matched too, and stays: no later start within it could
find one either, and looking from each of them would be quadratic."""
_ASSIGNED = re.compile(
    r"""((?:password|secret|token|api_key)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;&]+)""",
    re.IGNORECASE,
)
"""``password=x``, also as in JSON and Python: the keys above, quoted or not."""
_SUSPECT = re.compile(r"password|secret|token|api_key|bearer|basic", re.IGNORECASE)
"""One fast test that spares most texts the exact ones."""
_CREDENTIALS = re.compile(r"\b(Bearer|Basic)\s+[^\s,;]+", re.IGNORECASE)


def redact(value: object, key: str = "") -> object:
    """A value as it may be shown: sensitive keys blanked, texts cleaned, at every depth.

    That a secret is not set is worth knowing and reveals nothing, so empty values stay.
    """
    if key and value not in (None, "") and _sensitive(key):
        return REDACTED
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return {str(name): redact(item, str(name)) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [redact(item) for item in value]
    return value


@lru_cache(maxsize=4096)
def _sensitive(key: str) -> bool:
    """Keys are few and come again with every record."""
    return _SENSITIVE.search(key) is not None


def _without_user_info(found: re.Match[str]) -> str:
    return f"{REDACTED}@" if found["user_info"] else found[0]


def redact_text(text: str) -> str:
    """A text without user info in URLs and without credentials after their usual names."""
    if "@" in text:
        text = _USER_INFO.sub(f"{REDACTED}@", text)
        text = _BARE_USER_INFO.sub(_without_user_info, text)
    if not _SUSPECT.search(text):
        return text
    text = _ASSIGNED.sub(rf"\g<1>{REDACTED}", text)
    return _CREDENTIALS.sub(rf"\g<1> {REDACTED}", text)
