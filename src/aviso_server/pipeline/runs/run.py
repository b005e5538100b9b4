"""One run of a job, as those see it who watch over many: what it read, wrote and counted. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

Outcome: TypeAlias = Literal["complete", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Data that a job reads or writes, named as OpenLineage names it: a store, and what in it."""

    namespace: str
    name: str

    @classmethod
    def at(cls, address: str) -> "Dataset":
        """A path or URL; credentials in it are left out."""
        parts = urlsplit(address)
        if not parts.scheme or not parts.netloc:
            return cls("file", address)
        host = parts.netloc.rpartition("@")[2]
        return cls(f"{parts.scheme}://{host}", parts.path.strip("/") or "/")

    @classmethod
    def of_log(cls, options: Mapping[str, str]) -> "Dataset":
        """A log, by the options of the Spark source."""
        servers = options.get("servers")
        if servers is None:
            return cls("file", options.get("addressFile", ""))
        return cls(cls.at(servers.partition(",")[0]).namespace, options.get("eventType", "*"))


@dataclass(slots=True)
class JobRun:
    """What is known of a run so far."""

    job: str
    inputs: list[Dataset] = field(default_factory=list)
    outputs: list[Dataset] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    """By what was counted, such as ``read``."""
    problem: str | None = None
    """Why a run that came to its end has not done all of it."""

    def reads(self, *data: Dataset) -> None:
        """Note what is read."""
        self.inputs += data

    def writes(self, *data: Dataset) -> None:
        """Note what is written."""
        self.outputs += data
