"""Following a table commit by commit: what a look costs does not depend on the table's age.

delta-rs opens a table by listing its log and reading a checkpoint, and brings it up to date by
going through all of its files. That takes longer the more commits and files there are. But commits
are numbered, so the name of the next one is known, and only what is new has to be read.

Rules
- A commit never changes and appears whole. If the last one we read is not what it was, the log was
  cleaned up or the table replaced: it is opened again.
- Only files and application transactions are followed. Whatever else a commit may change, such as
  the columns, has the table opened again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from deltalake import DeltaTable

from aviso_server.lake.layout import Place
from aviso_server.lake.storage import LakeFailed, Stamp, commit_file, opener, stamps
from aviso_server.lake.table import find

MOST_COMMITS = 256
"""Commits that are read one by one; a table that is further ahead is opened instead."""


class Outdated(LakeFailed):
    """What is known of a table no longer fits it: it has to be opened again."""


class ActiveFile(msgspec.Struct, frozen=True):
    """A file that a commit added."""

    path: str
    """Below the table's folder, as a URL."""
    size: int
    partition: dict[str, str | None] | None = msgspec.field(name="partitionValues", default=None)
    stats: str | None = None


class RemovedFile(msgspec.Struct, frozen=True):
    """A file that a commit removed."""

    path: str
    partition: dict[str, str | None] | None = msgspec.field(name="partitionValues", default=None)


class _Transaction(msgspec.Struct, frozen=True):
    app_id: str = msgspec.field(name="appId")
    version: int


class _Action(msgspec.Struct, frozen=True):
    """A line of a commit."""

    add: ActiveFile | None = None
    remove: RemovedFile | None = None
    txn: _Transaction | None = None
    meta_data: msgspec.Raw | None = msgspec.field(name="metaData", default=None)
    protocol: msgspec.Raw | None = None


_ACTION: Final = msgspec.json.Decoder(_Action)


@dataclass(frozen=True, slots=True)
class Commit:
    """What one commit changed."""

    version: int
    added: Sequence[ActiveFile]
    removed: Sequence[RemovedFile]
    transactions: dict[str, int]


@dataclass(frozen=True, slots=True)
class Opened:
    """The table was opened: whatever was known of it no longer counts."""

    table: DeltaTable | None
    """None if there is no table."""


@dataclass(frozen=True, slots=True)
class Advanced:
    """The table went on, by these commits."""

    commits: Sequence[Commit]


class Follower:
    """A table, as last seen."""

    def __init__(self, place: Place, name: str) -> None:
        self._place = place
        self._name = name
        self._version = -1
        self._seen: Stamp | None = None
        """Of the commit that made this version."""

    def look(self) -> Opened | Advanced | None:
        """What changed since the last look; None if nothing did."""
        if self._seen is None:
            return self._open()
        seen, following = self._stamps(self._version, self._version + 1)
        if seen != self._seen:
            return self._open()
        commits: list[Commit] = []
        while following is not None:
            commit = self._read(self._version + len(commits) + 1, following)
            if commit is None or len(commits) == MOST_COMMITS:
                return self._open()
            commits.append(commit)
            seen = following
            (following,) = self._stamps(commit.version + 1)
        if not commits:
            return None
        self._version, self._seen = commits[-1].version, seen
        return Advanced(commits)

    def forget(self) -> None:
        """Have the next look open the table."""
        self._seen = None

    def _open(self) -> Opened:
        table = find(self._place, self._name)
        if table is None:
            self._version, self._seen = -1, None
        else:
            (seen,) = self._stamps(table.version())
            self._version, self._seen = table.version(), seen
        return Opened(table)

    def _stamps(self, *versions: int) -> list[Stamp | None]:
        return stamps(self._place, self._name, [commit_file(version) for version in versions])

    def _read(self, version: int, stamp: Stamp) -> Commit | None:
        """A commit; None if it changes what is not followed, or cannot be read as one."""
        try:
            with opener(self._place, self._name)(commit_file(version), stamp.size) as file:
                actions = _ACTION.decode_lines(file.read())
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError:
            return None  # whoever wrote it: delta-rs decides
        except OSError as error:
            table = self._place.table(self._name)
            raise LakeFailed(f"cannot read the log of {table}: {error}") from error
        if any(item.meta_data is not None or item.protocol is not None for item in actions):
            return None
        return Commit(
            version,
            [item.add for item in actions if item.add is not None],
            [item.remove for item in actions if item.remove is not None],
            {item.txn.app_id: item.txn.version for item in actions if item.txn is not None},
        )
