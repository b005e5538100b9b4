"""Durations and sizes as operators write them (docs/configuration.md#durations-and-sizes)."""

import re

_PARTS = re.compile(r"(?P<value>.*?)(?P<unit>[^\W\d_]*)", re.DOTALL)
"""The unit is the trailing run of letters, so that ``1.5h`` is blamed for its value."""

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MAX_SECONDS = (2**63 - 1) // 10**9
"""JetStream keeps ages as signed 64-bit nanoseconds; more would wrap there."""

_BYTES = {
    "K": 1000,
    "Ki": 1024,
    "M": 1000**2,
    "Mi": 1024**2,
    "G": 1000**3,
    "Gi": 1024**3,
    "T": 1000**4,
    "Ti": 1024**4,
}
_MAX_BYTES = 2**63 - 1


class LiteralError(ValueError):
    """A duration or size that cannot be read; the text says why."""


def duration_s(text: str) -> int:
    """Seconds of a duration such as ``7d``; zero is a duration."""
    value, unit = _split("duration", text)
    factor = _SECONDS.get(unit.lower())
    if factor is None:
        raise LiteralError(f"duration unit must be one of: {', '.join(_SECONDS)}")
    if value * factor > _MAX_SECONDS:
        raise LiteralError("duration overflow")
    return value * factor


def size_bytes(text: str) -> int:
    """Bytes of a size such as ``2Mi``; units are case-sensitive, ``m`` is not mega."""
    value, unit = _split("size", text)
    if value == 0:
        raise LiteralError("size value must be greater than zero")
    factor = _BYTES.get(unit)
    if factor is None:
        raise LiteralError(f"size unit must be one of: {', '.join(_BYTES)}")
    if value * factor > _MAX_BYTES:
        raise LiteralError("size overflow")
    return value * factor


def _split(kind: str, text: str) -> tuple[int, str]:
    parts = _PARTS.fullmatch(text.strip())
    value, unit = parts.group("value", "unit") if parts else ("", "")
    if not value and not unit:
        raise LiteralError(f"{kind} must not be empty")
    if not unit:
        raise LiteralError(f"{kind} must include a unit suffix")
    # 19 digits hold every signed 64-bit value; longer ones must not reach int(), which refuses
    # texts of thousands of digits with its own message.
    if not (value.isascii() and value.isdigit()):
        raise LiteralError(f"{kind} value must be an integer")
    significant = value.lstrip("0") or "0"
    if len(significant) > 19:
        raise LiteralError(f"{kind} overflow")
    return int(significant), unit
