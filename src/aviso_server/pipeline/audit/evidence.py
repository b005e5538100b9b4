"""What is known of sequences, as rows: who has which, and what is in them. Pure.

A row of evidence is a *run* of sequences of one event type, cut at the borders of blocks so that
every block can be checked separately (verdict.py). Runs are few where few sequences are missing, so
a million notifications are a handful of rows, plus eight bytes each where contents are compared.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from aviso_server.core.ring import Mask
from aviso_server.lake.ranges import Ints
from aviso_server.pipeline.audit.content import Hashes

BLOCK = 1_000_000
"""Sequences that are checked together: some 30 MB."""

CAP = 100
"""Ranges that are named of each kind; what is beyond is counted, and named by its ends."""

Side: TypeAlias = Literal[
    "expected",  # what the lake should have, up to the mark
    "lake",  # rows of files
    "letter",  # dead letters of the lake
    "hidden",  # deleted and wiped
    "gone",  # lost before it was archived
    "unread",  # in files that cannot be read
    "retained",  # what the log should have
    "log",  # rows of the log
    "log_letter",  # what of the log cannot be decoded
    "trimmed",  # removed from the log while it was read
]

Kind: TypeAlias = Literal[
    "hole",
    "missing",
    "duplicate",
    "differs",
    "kept",
    "undeleted",
    "lost",
    "unexpected",
    "file",
    "statistics",
    "row",
    "time",
]
"""Kinds of finding; docs/jobs/audit.md says what they mean."""

EVIDENCE = pa.schema(
    [
        ("event_type", pa.string()),
        ("block", pa.int64()),
        ("what", pa.string()),  # a side, or the kind of a finding
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("count", pa.int64()),
        ("hashes", pa.binary()),  # eight bytes for each sequence of the run
        ("begin_ns", pa.int64()),  # storage times of the first and the last sequence
        ("end_ns", pa.int64()),
        ("text", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be."""

    kind: Kind
    first: int
    last: int
    count: int
    """Sequences of ``first..last`` it concerns; all of them, unless too many to be named."""
    text: str = ""


@dataclass(slots=True)
class Rows:
    """Evidence of one event type that is being gathered."""

    event_type: str
    _columns: dict[str, list[object]] = field(
        default_factory=lambda: {name: [] for name in EVIDENCE.names}
    )

    def span(self, what: str, first: int, last: int) -> None:
        """Every sequence of a range."""
        for begin, end in cut(first, last):
            self._add(what, begin, end)

    def runs(
        self,
        what: Side,
        sequences: Ints,
        *,
        hashes: "Hashes | None" = None,
        times: "Ints | None" = None,
    ) -> None:
        """Sequences in ascending order; one that comes twice is in two runs."""
        twice = np.concatenate(([False], sequences[1:] == sequences[:-1]))
        if twice.any():
            for chosen in (~twice, twice):
                self.runs(
                    what,
                    sequences[chosen],
                    hashes=None if hashes is None else hashes[chosen],
                    times=None if times is None else times[chosen],
                )
            return
        for begin, end in _steps(sequences):
            first, last = int(sequences[begin]), int(sequences[end - 1])
            self._add(
                what,
                first,
                last,
                hashes=None if hashes is None else hashes[begin:end].tobytes(),
                begin_ns=None if times is None else int(times[begin]),
                end_ns=None if times is None else int(times[end - 1]),
            )

    def finding(self, found: Finding) -> None:
        """Something found on the way."""
        self._add(found.kind, found.first, found.last, count=found.count, text=found.text)

    def batch(self) -> pa.RecordBatch:
        """The rows."""
        columns = [pa.array(self._columns[item.name], item.type) for item in EVIDENCE]
        return pa.RecordBatch.from_arrays(columns, schema=EVIDENCE)

    def _add(self, what: str, first: int, last: int, **values: object) -> None:
        row = {
            "event_type": self.event_type,
            "block": first // BLOCK,
            "what": what,
            "first": first,
            "last": last,
            "count": last - first + 1,
            **values,
        }
        for name, column in self._columns.items():
            column.append(row.get(name))


def cut(first: int, last: int) -> Iterator[tuple[int, int]]:
    """A range, cut at the borders of blocks."""
    while first <= last:
        end = min(last, (first // BLOCK + 1) * BLOCK - 1)
        yield first, end
        first = end + 1


def ranges(kind: Kind, chosen: Mask, base: int, *, text: str = "") -> list[Finding]:
    """Findings about the chosen ones of sequences from ``base`` on."""
    return name_ranges(kind, np.flatnonzero(chosen).astype(np.int64) + base, text=text)


def name_ranges(kind: Kind, sequences: Ints, *, text: str = "") -> list[Finding]:
    """Findings about sequences in ascending order, as ranges; the last one may be coarse."""
    found = [
        Finding(kind, int(sequences[begin]), int(sequences[end - 1]), end - begin, text)
        for begin, end in _stretches(sequences)
    ]
    return cap_findings(found)


def cap_findings(found: Iterable[Finding], most: int = CAP) -> list[Finding]:
    """A bounded number of findings of one kind; the rest becomes one that covers it."""
    ordered = _merged(sorted(found, key=lambda item: (item.first, item.last)))
    if len(ordered) <= most:
        return ordered
    rest = ordered[most - 1 :]
    texts = {item.text for item in rest}
    coarse = Finding(
        rest[0].kind,
        rest[0].first,
        max(item.last for item in rest),
        sum(item.count for item in rest),
        texts.pop() if len(texts) == 1 else "",
    )
    return [*ordered[: most - 1], coarse]


def _merged(found: list[Finding]) -> list[Finding]:
    """Neighbours that say the same as one: blocks and files cut what belongs together."""
    made: list[Finding] = []
    for item in found:
        before = made[-1] if made else None
        if (
            before is not None
            and before.last + 1 == item.first
            and (before.kind, before.text) == (item.kind, item.text)
            and before.count == before.last - before.first + 1
            and item.count == item.last - item.first + 1
        ):
            both = before.count + item.count
            made[-1] = Finding(item.kind, before.first, item.last, both, item.text)
        else:
            made.append(item)
    return made


def _stretches(sequences: Ints) -> Iterator[tuple[int, int]]:
    """Places ``begin..end`` of sequences that follow each other without a gap."""
    if not len(sequences):
        return
    breaks = np.flatnonzero(np.diff(sequences) > 1) + 1
    begin = 0
    for end in (*breaks.tolist(), len(sequences)):
        yield begin, end
        begin = end


def _steps(sequences: Ints) -> Iterator[tuple[int, int]]:
    """The same, cut at the borders of blocks."""
    for begin, end in _stretches(sequences):
        base = int(sequences[begin])
        for first, last in cut(base, int(sequences[end - 1])):
            yield begin + first - base, begin + last - base + 1
