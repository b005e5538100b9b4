"""What can be wrong with a configuration: faults that stop the start, warnings that do not."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One reason why the server cannot start with this configuration."""

    path: str
    """Dotted path of the setting, or the file or variable at fault."""
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class Warning_:  # noqa: N801 - ``Warning`` is a built-in exception
    """Something the operator should know; logged once the logger exists."""

    event: str
    """Name in the event catalogue, such as ``configuration.unknown_key``."""
    path: str
    message: str


class SettingsError(Exception):
    """The configuration cannot be used; carries every fault found, in the order of the checks."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__("; ".join(str(fault) for fault in self.faults))


def unknown_key(path: str, message: str) -> Warning_:
    """The warning about a key or variable that no setting answers to."""
    return Warning_("configuration.unknown_key", path, message)
