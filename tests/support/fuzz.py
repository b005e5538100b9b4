"""How hard to look for faults, and bytes that are nearly what a parser expects."""

import os
from random import Random
from typing import TypeAlias

from hypothesis import strategies as st

from aviso_server.core.json import Json

LONG = os.environ.get("AVISO_FUZZ") == "long"
"""Set by `make soak`: many more examples."""

FIXED = not LONG or os.environ.get("CI") == "true"
"""Whether every run tries the same: CI fails because of a change, never because of a draw."""

LONG_FAULTS = os.environ.get("AVISO_FAULTS") == "long"
"""Set by `make faults`: longer, more often, under several seeds."""

_LONGER = 8

Slip: TypeAlias = tuple[int, int, bytes]
"""Where bytes are replaced, how many, and by what; places are counted modulo the length."""

SLIPS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 9), st.binary(max_size=4)))
"""Damage for ``damaged``."""


DEEP = b"[" * 100_000
"""More brackets than any stack has room for."""


def examples(quick: int) -> int:
    """How many examples to try."""
    return quick * _LONGER if LONG else quick


def seed() -> int:
    """Of a random search, shown by those that fail."""
    return 20261116 if FIXED else Random().getrandbits(32)


def damaged(text: bytes, slips: list[Slip]) -> bytes:
    """The text with some bytes cut out and others put in."""
    for place, length, patch in slips:
        at = place % (len(text) + 1)
        text = text[:at] + patch + text[at + length :]
    return text


JSON: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**320), 10**320)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(["", "0", "-0", "+1", "1e400", "nan", "24:00", "2025-366", "91,0", "*", "é"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=10,
)
"""Any value that can stand in a body."""
