"""From plain mappings to typed sections, with every type fault at once.

A faulty value is reported, then taken out (a mandatory one is replaced by its example) and the rest
is decoded again, until a document is complete. The later checks then run on that document, so the
operator sees the wrong port and the wrong topic in one go. Such a document is never served: any
fault ends in a SettingsError.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from aviso_server.core.json import Json
from aviso_server.settings.faults import Fault
from aviso_server.settings.keys import inside, is_section, shape_at
from aviso_server.settings.model import Document

_ROUNDS = 6
"""More than the depth of the configuration: each round clears at least one level."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A typed document, and what had to be taken out of it to get there."""

    document: Document
    faults: tuple[Fault, ...] = ()
    stand_ins: tuple[str, ...] = ()
    """Paths that no longer hold what the operator wrote: later faults there say nothing new."""

    def fresh(self, faults: Iterable[Fault]) -> list[Fault]:
        """Those faults that are not about a stand-in."""
        return [fault for fault in faults if not self._covers(fault.path)]

    def _covers(self, path: str) -> bool:
        return any(path == taken or path.startswith(f"{taken}.") for taken in self.stand_ins)


def decode(raw: Mapping[str, Json]) -> Decoded:
    """The typed document of a configuration, as far as it can be read."""
    plain = without_nulls(raw)
    faults: list[Fault] = []
    stand_ins: list[str] = []
    for _ in range(_ROUNDS):
        try:
            document = Document.model_validate(plain)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_input=False):
                where = _setting(detail["loc"])
                # A missing mandatory section is reported by its mandatory keys, one by one.
                if detail["type"] != "missing" or len(detail["loc"]) > 1:
                    faults.append(Fault(_path(detail["loc"]), _message(detail)))
                    stand_ins.append(_path(where))
                _replace(plain, where)
        else:
            return Decoded(document, tuple(faults), tuple(stand_ins))
    raise AssertionError("a document must stand once every faulty value is out")


def without_nulls(raw: Mapping[str, Json]) -> dict[str, Json]:
    """A deep copy in which a setting without a value counts as not given.

    Names the operator chose (event types, realms, fields) stay, so that one without a value is
    a fault instead of vanishing.
    """
    return _strip_section(raw, Document)


def _strip_section(raw: Mapping[str, Json], shape: object) -> dict[str, Json]:
    return {key: _strip(item, inside(shape, key)) for key, item in raw.items() if item is not None}


def _strip(value: Json, shape: object) -> Json:
    if not isinstance(value, dict) or shape is JsonValue:
        return copy.deepcopy(value)
    if is_section(shape):
        return _strip_section(value, shape)
    return {key: _strip(item, inside(shape, key)) for key, item in value.items()}


def _setting(loc: Sequence[str | int]) -> list[str]:
    """The path down to the setting as a whole: a fault in a list takes out the list."""
    path: list[str] = []
    for part in loc:
        if isinstance(part, int):
            break
        path.append(part)
    return path


def _path(loc: Sequence[str | int]) -> str:
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


_WORDING = {
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "tuple_type": "must be a list",
}


def _message(detail: ErrorDetails) -> str:
    kind = detail["type"]
    if kind == "literal_error":
        return f"must be {detail['ctx']['expected']}"
    if kind == "missing":
        loc = detail["loc"]
        variable = "AVISOSERVER_" + "__".join(str(part).upper() for part in loc)
        return f"is required; set it in the configuration file or as {variable}"
    return _WORDING.get(kind, detail["msg"])


def _replace(plain: dict[str, Json], path: Sequence[str]) -> None:
    """Take a value out, or put the example of a mandatory setting in its place."""
    level = plain
    for name in path[:-1]:
        below = level[name]
        assert isinstance(below, dict)  # noqa: S101 - pydantic went this way to find the fault
        level = below
    level.pop(path[-1], None)
    section = shape_at(path[:-1])
    if is_section(section) and (examples := section.model_fields[path[-1]].examples):
        level[path[-1]] = copy.deepcopy(examples[0])
