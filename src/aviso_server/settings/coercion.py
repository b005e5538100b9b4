"""How values from YAML and from the environment become typed (docs/configuration.md#types).

Environment values are always text, so booleans and integers are also read from text, and text
settings accept numbers and booleans. Nothing else is converted.
"""

import re
from typing import Annotated, Literal, NoReturn, TypeAlias

from pydantic import BeforeValidator, SecretStr
from pydantic_core import PydanticCustomError

from aviso_server.settings.literals import LiteralError, size_bytes

_FLAGS = {
    **dict.fromkeys(("true", "1", "on", "yes"), True),
    **dict.fromkeys(("false", "0", "off", "no"), False),
}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_LEVELS = ("trace", "debug", "info", "warn", "error")

Level: TypeAlias = Literal["trace", "debug", "info", "warn", "error"]


def _refuse(why: str) -> NoReturn:
    raise PydanticCustomError("setting", "{why}", {"why": why})


def as_text(value: object) -> object:
    """Text of a scalar; a boolean is spelled as in YAML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float | SecretStr):
        return value if isinstance(value, str | SecretStr) else str(value)
    _refuse("must be text")


def as_flag(value: object) -> bool:
    """A boolean, or one of its spellings in any case."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str | int) and (flag := _FLAGS.get(str(value).lower())) is not None:
        return flag
    _refuse("must be true or false")


def as_integer(value: object) -> int:
    """An integer, or text of one; a boolean is not a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    _refuse("must be an integer")


def as_count(value: object) -> int:
    """An integer that cannot be negative."""
    number = as_integer(value)
    if number < 0:
        _refuse("must not be negative")
    return number


def as_port(value: object) -> int:
    """A TCP port; 0 lets the system choose."""
    number = as_integer(value)
    if not 0 <= number <= 65_535:
        _refuse("must be between 0 and 65535")
    return number


def as_bytes(value: object) -> int:
    """A number of bytes, plain or as a size literal such as ``256Mi``."""
    if not isinstance(value, str) or _INTEGER.fullmatch(value.strip()):
        return as_integer(value)
    try:
        return size_bytes(value)
    except LiteralError as error:
        _refuse(str(error))


def as_cap(value: object) -> int:
    """A cap; whatever is no integer becomes 0, which start-up refuses with the protocol's
    message."""
    try:
        return as_integer(value)
    except PydanticCustomError:
        return 0


def as_level(value: object) -> str:
    """A log level in any case; anything else is ``info``."""
    level = str(value).strip().lower()
    return level if level in _LEVELS else "info"


Text: TypeAlias = Annotated[str, BeforeValidator(as_text)]
Secret: TypeAlias = Annotated[SecretStr, BeforeValidator(as_text)]
Flag: TypeAlias = Annotated[bool, BeforeValidator(as_flag)]
Whole: TypeAlias = Annotated[int, BeforeValidator(as_integer)]
Count: TypeAlias = Annotated[int, BeforeValidator(as_count)]
Port: TypeAlias = Annotated[int, BeforeValidator(as_port)]
Bytes: TypeAlias = Annotated[int, BeforeValidator(as_bytes)]
Cap: TypeAlias = Annotated[int, BeforeValidator(as_cap)]
LogLevel: TypeAlias = Annotated[Level, BeforeValidator(as_level)]
