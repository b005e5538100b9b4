"""Markup out of values: what comes from data is always text, whatever it looks like. Pure."""

import re
from collections.abc import Iterable
from html import escape
from typing import TypeAlias

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_TURNING = re.compile(r"[\u202a-\u202e\u2066-\u2069]")


class Markup(str):
    """Text that is markup already; only this module and those that draw make it."""

    __slots__ = ()


Content: TypeAlias = str | int | float | Iterable["Content"] | None
"""What may be within an element. None is nothing; plain strings are escaped."""


def tag(name: str, /, *content: Content, **attributes: object) -> Markup:
    """An element. ``class_`` is class, underscores are hyphens; attributes of None are left out."""
    told = "".join(
        f' {_name(key)}="{escape(_shown(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{told}>{join(content)}</{name}>")


def join(content: Content) -> Markup:
    """Contents one after the other."""
    match content:
        case None:
            return Markup("")
        case Markup():
            return content
        case str():
            return Markup(escape(clean(content)))
        case int() | float():
            return Markup(_shown(content))
        case _:
            return Markup("".join(map(join, content)))


def clean(text: str) -> str:
    """Without characters that a document may not have, or that turn what follows around."""
    return _TURNING.sub("\ufffd", _CONTROL.sub("\ufffd", text))


def cut(text: str, most: int) -> str:
    """The beginning of a long text."""
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def _name(key: str) -> str:
    # SVG has one attribute in camel case that is needed here.
    return "viewBox" if key == "view_box" else key.rstrip("_").replace("_", "-")


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return clean(str(value))
