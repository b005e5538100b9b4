"""The shape of the source: sizes, docstrings, and nothing printed past the log."""

import ast
import re
from pathlib import Path

import pytest
from support.source_tree import modules

pytestmark = pytest.mark.xdist_group("source")

MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 60
LEVELS = frozenset({"debug", "info", "warning", "error", "exception"})


def test_modules_are_small_and_say_what_they_are_for() -> None:
    """A module has at most 500 lines, and its first line says its one responsibility."""
    assert len(modules()) > 100
    lines = {module.name: len(module.text.splitlines()) for module in modules()}
    assert {name: count for name, count in lines.items() if count > MAX_MODULE_LINES} == {}
    written = [module for module in modules() if module.text.strip()]
    assert [module.name for module in written if not ast.get_docstring(module.tree)] == []


def test_functions_are_short() -> None:
    """A function has at most 60 lines."""
    lengths = {
        f"{module.name}:{function.name}": (function.end_lineno or 0) - function.lineno + 1
        for module in modules()
        for function in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef)
    }
    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}


def test_nothing_is_printed() -> None:
    """Stdout belongs to the log: no module calls ``print``."""
    assert [
        f"{module.name}:{call.lineno}"
        for module in modules()
        for call in module.calls()
        if isinstance(call.func, ast.Name) and call.func.id == "print"
    ] == []


def test_every_record_has_an_event_name() -> None:
    """Operators alarm on names, not on texts; one passed on with ``**`` has it already."""
    assert [
        f"{module.name}:{call.lineno}"
        for module in modules()
        for call in module.calls()
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in LEVELS
        and re.search("journal|get_logger", ast.unparse(call.func.value))
        and not {keyword.arg for keyword in call.keywords} & {"event_name", None}
    ] == []


def test_names_say_something() -> None:
    """No module or class is called Manager, Helper, Util or the like."""
    empty = ("manager", "helper", "util", "common", "misc", "processor")
    names = {Path(module.name).stem for module in modules()}
    names |= {node.name for module in modules() for node in module.nodes(ast.ClassDef)}
    assert [name for name in sorted(names) if any(word in name.lower() for word in empty)] == []


def test_files_of_the_lake_are_removed_in_few_places() -> None:
    """What may be committed is removed by ``lake.outcome`` alone, which asks the table first.

    The others remove what no commit can refer to: files that were never handed over, staged
    letters, and the output of a replay.
    """
    removing = {
        module.name: {
            name
            for call in module.calls()
            for name in [getattr(call.func, "attr", None) or getattr(call.func, "id", None)]
            if name == "delete_file" or (name == "remove" and isinstance(call.func, ast.Name))
        }
        for module in modules()
    }
    assert {name: calls for name, calls in removing.items() if calls} == {
        "lake/files.py": {"delete_file", "remove"},
        "lake/outcome.py": {"remove"},
        "pipeline/archive/deadletters.py": {"remove"},
        "pipeline/maintain/sweep.py": {"remove"},
        "pipeline/replay/files.py": {"delete_file"},
    }
