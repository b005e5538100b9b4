"""Settings from environment variables (docs/configuration.md#environment-variables).

``AVISOSERVER_APPLICATION__PORT=8080`` sets ``application.port``. Names are read in any case. A
name that matches an existing key in another case means that key, because event types, fields and
realms are case-sensitive while variable names usually are not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from aviso_server.core.json import UNREADABLE, Json
from aviso_server.settings.faults import Fault, Warning_, unknown_key
from aviso_server.settings.files import VARIABLE

PREFIX = "AVISOSERVER_"


@dataclass(frozen=True, slots=True)
class Overlay:
    """A configuration with the environment laid over it, and what was noticed on the way."""

    raw: dict[str, Json]
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Warning_, ...] = ()


def overlay(
    raw: Mapping[str, Json], environ: Mapping[str, str], knows: Callable[[Sequence[str]], bool]
) -> Overlay:
    """Lay every ``AVISOSERVER_`` variable over a configuration, outer levels first."""
    merged = dict(raw)
    faults: list[Fault] = []
    warnings: list[Warning_] = []
    for name, path in _variables(environ):
        spelled = _spelled(merged, path)
        if not knows(spelled):
            warnings.append(unknown_key(name, f"variable '{name}' sets nothing and is ignored"))
            continue
        text = environ[name]
        try:
            value = msgspec.json.decode(text) if text.startswith(("[", "{")) else text
            merged = merge(merged, _nested(spelled, value))
        except (*UNREADABLE, UnicodeEncodeError) as error:
            # The value is not shown: it may hold a secret.
            why = f"a value starting with '[' or '{{' is read as JSON, and this is not: {error}"
            faults.append(Fault(name, why))
    return Overlay(merged, tuple(faults), tuple(warnings))


def merge(under: Mapping[str, Json], over: Mapping[str, Json]) -> dict[str, Json]:
    """Maps merge key by key; scalars and lists are replaced; an empty map adds nothing."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


def _variables(environ: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    found = [
        (name, name[len(PREFIX) :].lower().split("__"))
        for name in environ
        if name.upper().startswith(PREFIX) and name.upper() != VARIABLE
    ]
    return sorted(found, key=lambda item: (item[1], item[0]))


def _spelled(raw: Mapping[str, Json], path: Sequence[str]) -> list[str]:
    spelled = []
    level: Json = dict(raw)
    for name in path:
        keys = level if isinstance(level, dict) else {}
        match = name if name in keys else next((k for k in keys if k.lower() == name), name)
        spelled.append(match)
        level = keys.get(match)
    return spelled


def _nested(path: Sequence[str], value: Json) -> dict[str, Json]:
    first, *rest = path
    return {first: _nested(rest, value) if rest else value}
