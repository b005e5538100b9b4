"""Checkpoints of streaming queries: whether Spark can resume from one, and what is done if not.

Spark writes a file under another name and renames it. Killed between the two at its first offset,
it refuses the checkpoint for ever; so it does after a disk has spoilt one of the few files that it
reads at a start. What Spark raises then is anything from an assertion to a parser's error, so the
files themselves are checked, before a query is started.

Rules
- A query that cannot be started for its checkpoint must not stay ended: the checkpoint is set aside
  under another name beside its own, and the query begins without one.
- The newest few that were set aside are kept for diagnosis.
- If the files cannot be read from here, as behind a Spark Connect server, nothing is done.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.fs as pa_fs
from deltalake.exceptions import DeltaError

from aviso_server.lake.layout import Place
from aviso_server.lake.storage import files, local_folder

KEPT = 3
"""Checkpoints that were set aside and are kept."""

_VERSION = re.compile(r"v\d+")
_TMP = re.compile(r"\..*\.tmp")
"""How Spark names what it has not finished."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of one query, by path or URL."""

    path: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the object store that it is in; may be secret."""

    def repair(self) -> str | None:
        """Set it aside if Spark would refuse it; what was done and why, if so."""
        return self._look(_damage)

    def set_aside(self, why: str) -> str | None:
        """Set it aside, whatever is in it; what was done, None if there is nothing."""
        return self._look(lambda folder, name: why if _entries(folder, name) else None)

    def _look(self, damage: Callable[[pa_fs.FileSystem, str], str | None]) -> str | None:
        try:
            folder = self._beside()
            why = None if folder is None else damage(folder, self._name)
            if folder is None or why is None:
                return None
            return f"the checkpoint {self.path} is set aside as {self._move(folder)}: {why}"
        except (OSError, ValueError, DeltaError):
            return None  # Spark will say what is wrong with it

    @property
    def _name(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2]

    def _beside(self) -> pa_fs.FileSystem | None:
        """The folder that it is in; None if there is none."""
        path = self.path if "://" in self.path else str(Path(self.path).absolute())
        whole, _, name = path.rstrip("/").rpartition("/")
        above, _, last = whole.rpartition("/")
        place = Place(above, self.storage)
        there = local_folder(place, last)
        if there is not None and not (there / name).is_dir():
            return None
        return files(place, last)

    def _move(self, folder: pa_fs.FileSystem) -> str:
        """Give it another name, and remove the oldest of its kind beyond those that are kept."""
        pattern = re.compile(rf"{re.escape(self._name)}\.refused-(\d+)")
        known = sorted(
            int(found[1])
            for info in folder.get_file_info(pa_fs.FileSelector(""))
            if (found := pattern.fullmatch(info.base_name))
        )
        number = known[-1] + 1 if known else 1
        name = f"{self._name}.refused-{number}"
        if isinstance(folder, pa_fs.SubTreeFileSystem):
            folder.move(self._name, name)
        else:  # an object store has no folders, only files with long names
            for info in folder.get_file_info(pa_fs.FileSelector(self._name, recursive=True)):
                if info.is_file:
                    folder.move(info.path, name + info.path.removeprefix(self._name))
        for old in known[: max(0, len(known) + 1 - KEPT)]:
            folder.delete_dir(f"{self._name}.refused-{old}")
        return f"{self.path.rstrip('/').removesuffix(self._name)}{name}"


def _damage(folder: pa_fs.FileSystem, name: str) -> str | None:
    """What Spark would refuse, as a short text."""
    # Commits first: a query that runs meanwhile must not seem to have too many.
    done = _numbers(_entries(folder, f"{name}/commits"))
    offsets = _entries(folder, f"{name}/offsets")
    planned = _numbers(offsets)
    if not planned and (done or any(_TMP.fullmatch(item) for item in offsets)):
        return "it has no whole offset"
    if planned and done and done[-1] > planned[-1]:
        return "it has fewer offsets than commits"
    if (planned or "metadata" in _entries(folder, name)) and not _is_json(
        _text(folder, f"{name}/metadata")
    ):
        return "its metadata cannot be read"
    # At a start Spark reads the last two of each.
    for path in [f"offsets/{n}" for n in planned[-2:]] + [f"commits/{n}" for n in done[-2:]]:
        if not _is_log(_text(folder, f"{name}/{path}")):
            return f"{path} cannot be read"
    return None


def _entries(folder: pa_fs.FileSystem, path: str) -> list[str]:
    found = folder.get_file_info(pa_fs.FileSelector(path, allow_not_found=True))
    return [info.base_name for info in found]


def _numbers(names: list[str]) -> list[int]:
    return sorted(int(name) for name in names if name.isdigit())


def _text(folder: pa_fs.FileSystem, path: str) -> str:
    if folder.get_file_info(path).type is not pa_fs.FileType.File:
        return ""
    with folder.open_input_stream(path) as stream:
        return bytes(stream.read()).decode(errors="replace")


def _is_log(text: str) -> bool:
    """Whether it is a file of offsets or commits: a version, then JSON or nothing on each line."""
    version, *lines = text.splitlines() or [""]
    wanted = [line for line in lines if line != "-"]
    return bool(_VERSION.fullmatch(version)) and bool(lines) and all(map(_is_json, wanted))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
