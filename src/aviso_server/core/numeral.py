"""Numbers as text: the grammars the service reads, and the one spelling it writes.

Both the fields (which refuse bad text) and the constraints (which let it not match) read numbers
through this module, so that a stored value means the same to each of them.
"""

import math
import re
from decimal import Decimal
from typing import TypeAlias

Number: TypeAlias = int | float

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1

# Python's own int() and float() also take underscores, blanks and non-ASCII digits.
_INT = re.compile(r"([+-]?+)([0-9]++)")
_FLOAT = re.compile(
    r"[+-]?+(?:inf(?:inity)?+|nan|(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:e[+-]?+[0-9]++)?+)",
    re.IGNORECASE | re.ASCII,
)
_INT_DIGITS = len(str(INT_MAX))


def read_int(text: str) -> int | None:
    """The integer a text spells, of any sign and size; None if it spells none.

    Beyond the signed 64-bit range only "out of range" and the sign are kept: int() refuses
    very long texts, and no caller needs the digits.
    """
    found = _INT.fullmatch(text)
    if found is None:
        return None
    sign, digits = found[1], found[2].lstrip("0") or "0"
    if len(digits) > _INT_DIGITS:
        return INT_MIN - 1 if sign == "-" else INT_MAX + 1
    return int(sign + digits)


def parse_int(text: str) -> int | None:
    """The signed 64-bit integer a text spells, or None."""
    value = read_int(text)
    return value if value is not None and INT_MIN <= value <= INT_MAX else None


def parse_float(text: str) -> float | None:
    """The double a text spells, perhaps not finite; None if it spells none."""
    return float(text) if _FLOAT.fullmatch(text) else None


def float_text(value: float) -> str:
    """Shortest text that reads back as the same double; no exponent, no ``.0``, no minus zero."""
    text = repr(value)
    if text.endswith(".0"):
        return "0" if value == 0 else text[:-2]
    if "e" in text:
        return format(Decimal(text), "f")
    return "NaN" if text == "nan" else text


def number_text(number: Number) -> str:
    """A number as messages show it: digits, or float text."""
    return str(number) if isinstance(number, int) else float_text(number)


def to_double(number: Number) -> float:
    """The nearest double, infinite for an integer too large for one; minus zero becomes zero."""
    try:
        return float(number) + 0.0
    except OverflowError:
        return math.inf if number > 0 else -math.inf
