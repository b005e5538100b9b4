"""The source as syntax trees; tests that look at them share a worker, so that it is read once."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src" / "aviso_server"


@dataclass(frozen=True, slots=True)
class Module:
    """One file of the source."""

    name: str
    text: str
    tree: ast.Module

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[Any]:
        """Every node of these kinds."""
        return (node for node in ast.walk(self.tree) if isinstance(node, kinds))

    def calls(self) -> Iterator[ast.Call]:
        """Every call."""
        return self.nodes(ast.Call)


def _module(path: Path) -> Module:
    text = path.read_text()
    return Module(path.relative_to(SOURCE).as_posix(), text, ast.parse(text))


@cache  # and not at import: every worker of pytest-xdist imports this
def modules() -> tuple[Module, ...]:
    """All of them."""
    return tuple(_module(path) for path in sorted(SOURCE.rglob("*.py")))
