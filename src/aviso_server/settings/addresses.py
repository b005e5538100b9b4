"""URLs as operators write them: split, or refused with a reason."""

import re
from urllib.parse import SplitResult, urlsplit

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""Hosts to which plain http may carry secrets: nothing leaves the machine."""


def split(text: str) -> SplitResult | str:
    """The parts of an absolute URL, or why it is none."""
    # urlsplit silently drops blanks and line breaks, so they are checked first.
    if re.search(r"\s", text):
        return "contains whitespace"
    try:
        url = urlsplit(text)
        _ = url.port  # raises ValueError when it is out of range or no number
    except ValueError as error:
        return str(error)
    if not url.scheme:
        return "relative URL without a base"
    if url.scheme in {"http", "https"} and not url.hostname:
        return "empty host"
    return url
