"""Which records are logged: one level for all, or others for some parts."""

import logging
from dataclasses import dataclass

OFF = logging.CRITICAL + 10
"""Above every level a record can have."""

_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": OFF,
}


class BadDirectives(ValueError):
    """``RUST_LOG`` cannot be read."""


@dataclass(frozen=True, slots=True)
class Levels:
    """The lowest level that is logged, overall and by the dotted name of the code that logs."""

    overall: int
    named: tuple[tuple[str, int], ...] = ()
    """Longest names first: the first that fits decides."""

    @property
    def floor(self) -> int:
        """Below this nothing is ever logged."""
        return min([self.overall, *(level for _, level in self.named)])

    def of(self, target: str) -> int:
        """The level of one module."""
        for name, level in self.named:
            if target == name or target.startswith(f"{name}."):
                return level
        return self.overall


def level(word: str) -> int:
    """A configured level; an unknown one is info."""
    return _LEVELS.get(word.strip().lower(), logging.INFO)


def directives(text: str, *, otherwise: int) -> Levels:
    """Levels from ``RUST_LOG``: ``debug``, or ``info,aviso_server.http=debug``; BadDirectives.

    ``otherwise`` is the level of what no directive names. Names may use ``::`` for the dot.
    """
    overall, named = otherwise, {}
    for part in text.split(","):
        name, given, word = part.strip().rpartition("=")
        found = _LEVELS.get(word.strip().lower())
        if found is None or (given and not name.strip()):
            raise BadDirectives(f"'{part.strip()}' is neither a level nor logger=level")
        if given:
            named[name.strip().replace("::", ".")] = found
        else:
            overall = found
    return Levels(overall, tuple(sorted(named.items(), key=lambda item: (-len(item[0]), item[0]))))
