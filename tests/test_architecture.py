"""The shape of the source: sizes, docstrings, and nothing printed past the log."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "aviso_server"
MODULES = sorted(SOURCE.rglob("*.py"))
MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 60


def _name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_modules_are_small_and_say_what_they_are_for(path: Path) -> None:
    """A module has at most 500 lines, and its first line says its one responsibility."""
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_MODULE_LINES
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "no module docstring"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_functions_are_short(path: Path) -> None:
    """A function has at most 60 lines."""
    too_long = {
        function.name: length
        for function in _functions(ast.parse(path.read_text()))
        if (length := (function.end_lineno or 0) - function.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert too_long == {}


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_nothing_is_printed(path: Path) -> None:
    """Stdout belongs to the log: no module calls ``print``."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    printing = [c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]
    assert printing == []


LEVELS = frozenset({"debug", "info", "warning", "error", "exception"})


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_every_record_has_an_event_name(path: Path) -> None:
    """Operators alarm on names, not on texts; one passed on with ``**`` has it already."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            logger = ast.unparse(node.func.value)
            if node.func.attr in LEVELS and ("journal" in logger or "get_logger" in logger):
                names = {keyword.arg for keyword in node.keywords}
                assert names & {"event_name", None}, ast.unparse(node)


def test_names_say_something() -> None:
    """No module or class is called Manager, Helper, Util or the like."""
    empty = ("manager", "helper", "util", "common", "misc", "processor")
    names = {path.stem for path in MODULES}
    for path in MODULES:
        nodes = ast.walk(ast.parse(path.read_text()))
        names |= {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    assert [name for name in sorted(names) if any(word in name.lower() for word in empty)] == []


def test_files_of_the_lake_are_removed_in_few_places() -> None:
    """What may be committed is removed by ``lake.outcome`` alone, which asks the table first.

    The others remove what no commit can refer to: files that were never handed over, staged
    letters, and the output of a replay.
    """
    removing = {
        _name(path): {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
            for name in [getattr(node.func, "attr", None) or getattr(node.func, "id", None)]
            if name == "delete_file" or (name == "remove" and isinstance(node.func, ast.Name))
        }
        for path in MODULES
    }
    assert {name: calls for name, calls in removing.items() if calls} == {
        "lake/files.py": {"delete_file", "remove"},
        "lake/outcome.py": {"remove"},
        "pipeline/archive/deadletters.py": {"remove"},
        "pipeline/maintain/sweep.py": {"remove"},
        "pipeline/replay/files.py": {"delete_file"},
    }
