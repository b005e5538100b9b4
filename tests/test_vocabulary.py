"""One word per idea: names follow docs/glossary.md, and no name stands for two things that meet."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import get_args

import pytest
from support.source_tree import modules

from aviso_server.relay.totals import Tier as ShownTier
from aviso_server.telemetry.metrics import Tier as CountedTier

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.xdist_group("source")
_ROW = re.compile(r"^\| \*\*.*\| ([^|]*) \|$", re.MULTILINE)
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
EXCEPT = {"FilePiece"}
"""Names in which a forbidden word means something else: part of a file, not a run of entries."""


def _modules() -> Iterator[tuple[str, ast.Module]]:
    return ((module.name.removesuffix(".py"), module.tree) for module in modules())


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def test_forbidden_words_name_nothing() -> None:
    """No module, class or function has a word of the glossary's last column in its name."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    cells = _ROW.findall(text)
    forbidden = {word for cell in cells for word in re.findall(r"`([a-z]+)`", cell)}
    assert len(forbidden) > 10
    used = [
        f"{module}: {name}"
        for module, tree in _modules()
        for name in (module.rpartition("/")[2], *_names(tree))
        if forbidden & {word.lower() for word in _WORD.findall(name)} and name not in EXCEPT
    ]
    assert used == []


def _package(module: str) -> str:
    first, *rest = module.split("/")
    return f"{first}/{rest[0]}" if first == "pipeline" and len(rest) > 1 else first


def test_no_class_name_twice_where_packages_meet() -> None:
    """A public class has a name of its own among all packages that its package imports."""
    defined: dict[str, list[str]] = defaultdict(list)
    meets: set[tuple[str, str]] = set()
    for module, tree in _modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(module)
        for used in ast.walk(tree):
            if isinstance(used, ast.ImportFrom) and (used.module or "").startswith("aviso_server."):
                target = str(used.module).removeprefix("aviso_server.").replace(".", "/")
                meets.add((_package(module), _package(target)))
    twice = [
        f"{name}: {one}, {other}"
        for name, modules in defined.items()
        for one, other in combinations(modules, 2)
        if _package(one) == _package(other)
        or {(_package(one), _package(other)), (_package(other), _package(one))} & meets
    ]
    assert twice == []


def test_tiers_have_one_name_each() -> None:
    """Metrics and the overview use the same three words."""
    assert get_args(ShownTier) == get_args(CountedTier) == ("memory", "log", "lake")
