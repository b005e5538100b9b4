"""Options that come in groups.

A group is a dataclass whose fields are made by ``option``, ``flag`` and ``argument``. A command
takes it as one parameter, and has all of its options on the command line. The makers return fields,
and say that they return values, as ``dataclasses.field`` does.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

_Value = TypeVar("_Value")
_TYPER = "typer"

REQUIRED: Any = MISSING
"""The default of what must be given."""


def option(
    default: _Value,
    metavar: str | None,
    text: str,
    *names: str,
    otherwise: str = "",
    **more: Any,  # noqa: ANN401 - as typer.Option has it
) -> _Value:
    """``--name METAVAR``; ``otherwise`` says what is meant where the default does not.

    ``names`` are those of the option, if it is not called like its field.
    """
    if otherwise:
        more["show_default"] = otherwise
    made = typer.Option(*names, metavar=metavar, help=text, **more)
    return field(default=default, metadata={_TYPER: made})


def flag(text: str, *names: str, **more: Any) -> bool:  # noqa: ANN401 - as above
    """An option without a value: False unless it is given."""
    return option(False, None, text, *names, **more)  # noqa: FBT003 - the default


def argument(default: _Value, metavar: str) -> _Value:
    """An argument beside the options; the command's summary says what it is.

    It is hidden from the list, which would show Python's types; the usage line shows it.
    """
    made = typer.Argument(metavar=metavar, hidden=True)
    return field(default=default, metadata={_TYPER: made})


def ungroup(function: Callable[..., None]) -> Callable[..., None]:
    """The function with every option of its groups as a separate parameter, for Typer."""
    hints = get_type_hints(function)
    groups = {
        name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)
    }
    parameters = [
        inspect.Parameter(
            item.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if item.default is MISSING else item.default,
            annotation=Annotated[get_type_hints(group)[item.name], item.metadata[_TYPER]],
        )
        for group in groups.values()
        for item in fields(group)
    ]

    @wraps(function)
    def command(**given: object) -> None:
        function(
            **{
                name: group(**{item.name: given[item.name] for item in fields(group)})
                for name, group in groups.items()
            }
        )

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {item.name: item.annotation for item in parameters}
    return command
