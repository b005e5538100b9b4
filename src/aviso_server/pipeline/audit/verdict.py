"""Checking one block of an event type: evidence in, findings and counts out. Pure.

Theory of operation
Every side of the evidence becomes an array over the block's sequences, and each kind of finding is
one expression over these arrays. Nothing needs to be sorted or joined, and the cost does not depend
on how the evidence is cut.

What is proved
- A sequence that should be there and is in no file, is no dead letter and has no tombstone is a
  *hole*, unless the log still covers it. Then the log decides: it has it (*missing*), or it has
  been deleted there too, and lake and log agree.
- A hole below the log's beginning may have been an unrecorded deletion. This cannot be decided.
"""

from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aviso_server.core.ring import Mask
from aviso_server.pipeline.audit.content import Hashes
from aviso_server.pipeline.audit.evidence import BLOCK, Finding, Kind, Side, cap_findings, ranges

_Counts: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int32]]"


@dataclass(slots=True)
class AuditTally:
    """How many sequences are what; ``expected`` is the sum of those that follow it."""

    expected: int = 0
    """From the first to the mark."""
    present: int = 0
    """Visible notifications."""
    letters: int = 0
    """Dead letters, which are present too."""
    deleted: int = 0
    """Hidden by a tombstone, whether or not their rows are still in files."""
    absent: int = 0
    """In neither lake nor log, where the log covers them: deleted before they were archived."""
    lost: int = 0
    """Trimmed from the log before they were archived."""
    unread: int = 0
    """In files that cannot be read."""
    holes: int = 0
    """Missing for an unknown reason."""
    missing: int = 0
    """In the log and not in the lake."""
    hidden_rows: int = 0
    """Rows of deleted notifications that are still in files."""
    compared: int = 0
    """Whose content is the same in lake and log, or is a finding."""

    def add(self, other: "AuditTally") -> None:
        """Add the numbers of another block."""
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))


@dataclass(slots=True)
class BlockVerdict:
    """What was found in a block."""

    tally: AuditTally
    findings: list[Finding] = field(default_factory=list)
    edges: tuple[int, int, int, int] | None = None
    """First and last sequence with a time, and their times: for checking the next block."""


@dataclass(slots=True)
class _Sides:
    """The evidence as arrays."""

    lake: _Counts
    marks: dict[str, Mask]
    lake_hash: Hashes
    log_hash: Hashes
    hashed: Mask
    """Sequences of the lake whose content is known."""

    def has(self, side: Side) -> Mask:
        """Which sequences it is true of."""
        return self.marks[side]


def verdict_on(block: int, evidence: pa.Table) -> BlockVerdict:
    """The verdict on a block."""
    base = block * BLOCK
    sides = _sides(base, evidence)
    expected, hidden, letter = sides.has("expected"), sides.has("hidden"), sides.has("letter")
    in_lake = sides.lake > 0
    there = in_lake | letter
    log_has = sides.has("log") | sides.has("log_letter")
    covered = sides.has("retained") & ~sides.has("trimmed")
    gone = expected & ~there & ~hidden
    lost = gone & sides.has("gone") & ~log_has
    unread = gone & sides.has("unread") & ~lost
    open_ = gone & ~lost & ~unread
    missing = open_ & log_has
    absent = open_ & covered & ~log_has
    holes = open_ & ~missing & ~absent
    visible = there & ~hidden
    both = in_lake & sides.has("log") & ~hidden & sides.hashed
    other_kind = ~hidden & ((in_lake & sides.has("log_letter")) | (letter & sides.has("log")))
    kinds: dict[Kind, Mask] = {
        "hole": holes,
        "missing": missing,
        "duplicate": (sides.lake > 1) | (in_lake & letter),
        "differs": (both & (sides.lake_hash != sides.log_hash)) | other_kind,
        "kept": visible & expected & covered & ~log_has,
        "undeleted": hidden & expected & covered & log_has,
        "lost": lost,
        "unexpected": in_lake & ~expected,
    }
    findings = [item for kind, mask in kinds.items() for item in ranges(kind, mask, base)]
    tally = AuditTally(
        expected=int(expected.sum()),
        present=int((expected & visible & in_lake).sum()),
        letters=int((expected & visible & ~in_lake).sum()),
        deleted=int((expected & hidden).sum()),
        absent=int(absent.sum()),
        lost=int(lost.sum()),
        unread=int(unread.sum()),
        holes=int(holes.sum()),
        missing=int(missing.sum()),
        hidden_rows=int(sides.lake[hidden].sum()),
        compared=int(both.sum()),
    )
    times, edges = _times(evidence)
    return BlockVerdict(tally, findings + times + _passed(evidence), edges)


def _sides(base: int, evidence: pa.Table) -> _Sides:
    names = [name for name in get_args(Side) if name != "lake"]
    sides = _Sides(
        np.zeros(BLOCK, np.int32),
        {name: np.zeros(BLOCK, np.bool_) for name in names},
        np.zeros(BLOCK, np.uint64),
        np.zeros(BLOCK, np.uint64),
        np.zeros(BLOCK, np.bool_),
    )
    rows = zip(
        evidence["what"].to_pylist(),
        evidence["first"].to_pylist(),
        evidence["last"].to_pylist(),
        evidence["hashes"].to_pylist(),
        strict=True,
    )
    for what, first, last, hashes in rows:
        part = slice(first - base, last - base + 1)
        if what == "lake":
            sides.lake[part] += 1
            if hashes is not None:
                sides.lake_hash[part] = np.frombuffer(hashes, np.uint64)
                sides.hashed[part] = True
        elif what in sides.marks:
            sides.marks[what][part] = True
            if what == "log":
                sides.log_hash[part] = np.frombuffer(hashes, np.uint64)
    return sides


def _times(evidence: pa.Table) -> tuple[list[Finding], tuple[int, int, int, int] | None]:
    """Where time goes back between runs, and the times at the block's edges."""
    timed = evidence.filter(
        pc.and_(pc.equal(evidence["what"], "lake"), pc.is_valid(evidence["begin_ns"]))
    ).sort_by([("first", "ascending"), ("last", "ascending")])
    columns = [timed[name].to_pylist() for name in ("first", "last", "begin_ns", "end_ns")]
    runs: list[tuple[int, int, int, int]] = list(zip(*columns, strict=True))
    if not runs:
        return [], None
    back = [
        Finding("time", later[0], later[0], 1, "stored before the one before it")
        for earlier, later in pairwise(runs)
        if earlier[1] < later[0] and earlier[3] > later[2]
    ]
    first, last = runs[0], max(runs, key=lambda run: run[1])
    return cap_findings(back), (first[0], last[1], first[2], last[3])


def _passed(evidence: pa.Table) -> list[Finding]:
    """What was found while files were read."""
    chosen = evidence.filter(pc.is_in(evidence["what"], pa.array(get_args(Kind))))
    columns = [chosen[name].to_pylist() for name in ("what", "first", "last", "count", "text")]
    by_kind: dict[str, list[Finding]] = {}
    for what, first, last, count, text in zip(*columns, strict=True):
        by_kind.setdefault(what, []).append(Finding(what, first, last, count, text or ""))
    return [item for found in by_kind.values() for item in cap_findings(found)]
