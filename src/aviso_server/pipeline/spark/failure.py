"""Why a query ended, from what Spark reports.

An error in one of our parts crosses a pipe to the JVM and comes back as the text of a Python
traceback inside a Java exception. The last line of such a traceback names the class, so the error
is still recognised by its class and not by its text.
"""

import importlib
import re
from dataclasses import dataclass

from aviso_server.core.errors import AvisoError

_OURS = re.compile(r"^(aviso_server(?:\.\w+)*)\.(\w+): (.*)$", re.MULTILINE)
_PYTHON = re.compile(r"^((?:\w+\.)*\w+(?:Error|Exception|Interrupt|Exit|\w)): (\S.*)$")
_JAVA = re.compile(r"^: (?:[\w$]+\.)+[\w$]+: (\S.*)$", re.MULTILINE)
_CONDITION = re.compile(r"\[[A-Z_0-9.]+\]\s*")


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, in one line."""

    text: str
    kind: type[AvisoError] | None = None
    """Our own error, if it was one."""


def failure_of(error: BaseException) -> Failure:
    """The failure behind an exception of Spark, or one of ours."""
    if isinstance(error, AvisoError):
        return Failure(_line(error.message), type(error))
    return read_failure(str(error))


def read_failure(text: str) -> Failure:
    """The failure behind the text of an exception."""
    for module, name, message in reversed(_OURS.findall(text)):
        if (kind := _kind(module, name)) is not None:
            return Failure(_line(message), kind)
    if java := _JAVA.search(text):  # as py4j reports an exception of the JVM
        text = java[1] if "Traceback" not in text else text
    return Failure(_python(text) or _line(_CONDITION.sub("", text)) or "Spark gave no reason")


def _kind(module: str, name: str) -> type[AvisoError] | None:
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return found if isinstance(found, type) and issubclass(found, AvisoError) else None


def _python(text: str) -> str | None:
    """The last line of the first traceback in it."""
    _, found, after = text.partition("Traceback (most recent call last):\n")
    if not found:
        return None
    for line in after.splitlines():
        if not line.startswith(" ") and (told := _PYTHON.match(line)):
            return f"{told[1].rpartition('.')[2]}: {told[2]}"
    return None


def _line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
