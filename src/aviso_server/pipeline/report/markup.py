"""Elements of SVG: what comes from data is always text, whatever it looks like. Pure."""

import re
from collections.abc import Iterable
from typing import TypeAlias

from markupsafe import Markup, escape

_UNFIT = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]"
)

Content: TypeAlias = str | Iterable["Content"] | None
"""What may be within an element. None is nothing; strings that are no Markup are escaped."""


def tag(name: str, /, *content: Content, **attributes: object) -> Markup:
    """An element. ``class_`` is class, underscores are hyphens; attributes of None are left out."""
    written = "".join(
        f' {_name(key)}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{_join(content)}</{name}>")  # noqa: S704 - escaped above


def clean(value: object) -> object:
    """Text without characters that a document may not have, or that turn what follows around."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _UNFIT.sub("\ufffd", value)


def cut(text: str, most: int) -> str:
    """The beginning of a long text."""
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def _join(content: Content) -> str:
    if content is None or isinstance(content, str):
        return escape(clean(content or ""))
    return "".join(map(_join, content))


def _name(key: str) -> str:
    # SVG has one attribute in camel case that is needed here.
    return "viewBox" if key == "view_box" else key.rstrip("_").replace("_", "-")


def _text(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return clean(value)
