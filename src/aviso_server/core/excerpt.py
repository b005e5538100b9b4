"""Clients' long texts, cut before they are shown again: in errors, in logs, in control frames.

An error that quotes what it refuses would otherwise send a whole body back, and log it twice.
Beginning and end are kept: one names the field, the other says what was expected.
"""

LONGEST = 2048
"""Characters of a text that is shown uncut; messages about ordinary values are far shorter."""

_TAIL = 512
_CUT = " … "


def excerpt(text: str) -> str:
    """The text itself, or its beginning and end around an ellipsis if it is long."""
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST - _TAIL - len(_CUT)] + _CUT + text[-_TAIL:]
