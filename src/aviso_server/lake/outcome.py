"""Changing a table and knowing the outcome: it happened, it did not, or that is unknown.

A commit that is reported as failed may have happened: the store's answer was lost, or something
that follows a commit, such as Delta's checkpoint, could not be written (docs/decisions/0012).

Rules
- Every change has its own tag, which its commit carries. After any failure the table is opened
  afresh, and a commit with our tag proves that the change happened, whatever the error said.
- A version taken by another writer can no longer become ours. The change did not happen; it is
  decided again on the current table.
- After any other failure a missing commit did not happen, on a disk. In an object store the request
  may still be in flight: OutcomeUnknown, as always when the table cannot be opened.
- Files are removed only if it is known that no commit has them, and only those that a fresh
  snapshot does not refer to. All others are left to ``maintain``, which sweeps them by age.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError

from aviso_server.lake.files import remove
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.opened import keep_open, take_open
from aviso_server.lake.storage import LakeFailed, files
from aviso_server.lake.table import ensure, find

ATTEMPTS = 50
"""Times a change is tried when others commit at the same moment."""

CLEANED = 100
"""Commits after which the log is cleaned up. By itself delta-rs would list all of the log for that
with every commit: 70 ms of CPU with 10 000 in it, three quarters of what the commit takes."""

TAG = "avisoChange"
"""The entry of a commit's metadata that says whose it is."""


class OutcomeUnknown(LakeFailed):
    """It is unknown whether a change happened: nothing that belongs to it may be removed."""


@dataclass(frozen=True, slots=True)
class Tag:
    """What one change is recognised by, however often it is tried."""

    text: str = field(default_factory=lambda: uuid.uuid4().hex)

    def properties(self, marks: Mapping[str, int] | None = None) -> CommitProperties:
        """What a commit of the change carries: the tag, and application transactions."""
        return CommitProperties(
            custom_metadata={TAG: self.text},
            # Retrying inside delta-rs would not consider what others committed meanwhile.
            max_commit_retries=0,
            app_transactions=[Transaction(name, upto) for name, upto in (marks or {}).items()],
        )


def after_commit(table: DeltaTable) -> PostCommitHookProperties:
    """What delta-rs does when it has committed to this version."""
    due = (table.version() + 1) % CLEANED == 0
    return PostCommitHookProperties(cleanup_expired_logs=None if due else False)


Change: TypeAlias = Callable[[DeltaTable, Tag], bool]
"""Reads a table and commits to it with a tag's properties; False if there is nothing to do."""


def settle(
    place: Place, name: str, change: Change, *, made: Callable[[], DeltaTable] | None = None
) -> int:
    """Make a change to a table once; the version that has it. LakeFailed, and then it did not
    happen, or OutcomeUnknown.

    ``made`` opens a table that ``ensure`` does not know.
    """
    tag = Tag()
    address = place.table(name)
    table = ensure(place, name, take_open(place, name)) if made is None else made()
    for _ in range(ATTEMPTS):
        seen = table.version()
        try:
            changed = change(table, tag)
        except (DeltaError, OSError) as error:
            table = _reopen(place, name, error)
            if (version := _tagged(table, tag, above=seen)) is not None:
                return version
            if isinstance(error, CommitFailedError):
                continue
            if place.remote:
                raise _unknown(address, error) from error
            raise LakeFailed(f"cannot commit to {address}: {error}") from error
        else:
            if made is None:
                keep_open(place, name, table)
            return seen + 1 if changed else seen
    raise LakeFailed(f"others commit to {address} all the time; is a second job running?")


def discard(place: Place, paths: Iterable[str], name: str = NOTIFICATIONS) -> None:
    """Remove files of a change to a table that surely did not happen.

    Those that the table refers to stay, and so do all where it cannot be asked.
    """
    found = list(paths)
    if not found:
        return
    try:
        table = find(place, name)
        kept = set() if table is None else {unquote(path) for path in active(table).to_pylist()}
        remove(files(place, name), [path for path in found if path not in kept])
    except (LakeFailed, DeltaError, OSError):
        return  # the sweep finds them


def active(table: DeltaTable) -> pa.Array:
    """The files that a version of a table refers to, as its log spells them."""
    return pa.table(table.get_add_actions())["path"].combine_chunks()


def all_active(table: DeltaTable, paths: Iterable[str] | pa.ChunkedArray) -> bool:
    """Whether a version of a table refers to all of these."""
    asked = paths if isinstance(paths, pa.ChunkedArray) else pa.array(paths, pa.string())
    return bool(pc.all(pc.is_in(asked, value_set=active(table)), min_count=0).as_py())


def _reopen(place: Place, name: str, cause: Exception) -> DeltaTable:
    try:
        table = find(place, name)
    except LakeFailed as error:
        raise _unknown(place.table(name), cause) from error
    if table is None:  # it was there a moment ago
        raise _unknown(place.table(name), cause) from cause
    return table


def _tagged(table: DeltaTable, tag: Tag, *, above: int) -> int | None:
    """The version whose commit has the tag."""
    news = table.version() - above
    if news <= 0:
        return None
    try:
        told = table.history(news)
    except (DeltaError, OSError) as error:
        raise _unknown(table.table_uri, error) from error
    tags = {commit["version"]: commit.get(TAG) for commit in told}
    ours = next((version for version, text in tags.items() if text == tag.text), None)
    if ours is None and len(tags) < news:
        raise _unknown(table.table_uri, LakeFailed("some of its commits cannot be read"))
    return ours


def _unknown(address: str, cause: Exception) -> OutcomeUnknown:
    return OutcomeUnknown(f"it is unknown whether a commit to {address} was made: {cause}")
