"""Which configuration files are read, and how one is read.

YAML is read with the core rules of YAML 1.2, not the 1.1 rules PyYAML applies by default: here
``no`` is a country and not a boolean, ``12:00`` is a time and not 720, ``0010`` is ten and not
eight, and ``2025-01-01`` is text. Keys are always the text as written. A key given twice in one map
is a fault, because one of the two would be lost silently.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import yaml

from aviso_server.core.json import Json
from aviso_server.settings.faults import Fault, SettingsError

VARIABLE = "AVISOSERVER_CONFIG_FILE"


def search(cwd: Path, home: Path | None, etc: Path) -> tuple[Path, ...]:
    """Where configuration files are searched for; later ones win."""
    homes = () if home is None else (home / ".aviso_server" / "config.yaml",)
    return (cwd / "configuration" / "config.yaml", etc / "aviso_server" / "config.yaml", *homes)


def named_file(config_file: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The one file the operator asked for, by option or by variable, or None to search."""
    if config_file is not None:
        if not config_file.is_file():
            raise SettingsError([Fault("--config", f"does not point to a file: {config_file}")])
        return config_file
    asked = environ.get(VARIABLE)
    if asked is None:
        return None
    if not asked.strip():
        raise SettingsError([Fault(VARIABLE, f"{VARIABLE} is set but empty")])
    if not Path(asked).is_file():
        raise SettingsError([Fault(VARIABLE, f"{VARIABLE} does not point to a file: {asked}")])
    return Path(asked)


def read(path: Path) -> dict[str, Json]:
    """The mapping in a YAML file; an empty file is an empty mapping."""
    try:
        content = yaml.load(path.read_bytes(), Loader=_Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise SettingsError([Fault(str(path), f"cannot be read: {error.strerror}")]) from error
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError([Fault(str(path), _where(error))]) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError([Fault(str(path), "must hold a mapping of settings at its top level")])
    return cast("dict[str, Json]", content)


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if mark is None:
        return f"is not valid YAML: {problem}"
    return f"is not valid YAML: line {mark.line + 1}, column {mark.column + 1}: {problem}"


class _Loader(yaml.SafeLoader):
    """YAML 1.2 core scalars, text keys, no key twice, nothing that JSON cannot say."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - a fresh table instead of the inherited one


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, object]:
    # Before merge keys (<<) are expanded: overriding a merged key is what they are for.
    _refuse_repeats(node)
    loader.flatten_mapping(node)
    return {_key(key): loader.construct_object(value, deep=True) for key, value in node.value}


def _refuse_repeats(node: yaml.MappingNode) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        text = _key(key)
        if text in seen:
            raise _broken(f"key '{text}' is given twice", key)
        seen.add(text)


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _broken("a key must be plain text", node)
    return str(node.value)


def _integer(_: _Loader, node: yaml.ScalarNode) -> int:
    base = {"0x": 16, "0o": 8}.get(node.value[:2], 10)
    return int(node.value, base)


def _undefined(_: _Loader, node: yaml.Node) -> object:
    raise _broken(f"tag '{node.tag}' is not supported", node)


def _broken(problem: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_TAG = "tag:yaml.org,2002:"
_FLOAT = (
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_SCALARS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("null", r"~|null|Null|NULL|", [*"~nN", ""]),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
)
for _name, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z"), _first)

_PLAIN = ("str", "bool", "null", "float", "seq")
_Loader.yaml_constructors = {
    **{_TAG + _name: yaml.SafeLoader.yaml_constructors[_TAG + _name] for _name in _PLAIN},
    _TAG + "map": _mapping,
    _TAG + "int": _integer,
    None: _undefined,
}
