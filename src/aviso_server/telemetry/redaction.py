"""Redaction: no secret reaches a log, a dump or an error text (operations.md 9)."""

import re
from collections.abc import Mapping, Sequence

REDACTED = "[REDACTED]"

_SENSITIVE_KEY = re.compile(r"password|secret|token|authorization|api_key", re.IGNORECASE)
_URL_USER = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/?#]*@")
_ASSIGNED = re.compile(r"(?P<name>(?:password|token)\s*[=:]\s*)\S+", re.IGNORECASE)
_CREDENTIAL = re.compile(r"\b(?P<scheme>Bearer|Basic)\s+\S+", re.IGNORECASE)


def redact_text(text: str) -> str:
    """Free text without URL user info, assigned secrets and credentials."""
    if "://" in text:
        text = _URL_USER.sub(rf"\g<scheme>{REDACTED}@", text)
    text = _ASSIGNED.sub(rf"\g<name>{REDACTED}", text)
    return _CREDENTIAL.sub(rf"\g<scheme> {REDACTED}", text)


def redact(value: object, key: str = "") -> object:
    """A value as it may be shown: sensitive keys blanked, texts cleaned, at every depth."""
    if key and _SENSITIVE_KEY.search(key) and value not in (None, "", False):
        return REDACTED
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return {name: redact(item, str(name)) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [redact(item) for item in value]
    return value
