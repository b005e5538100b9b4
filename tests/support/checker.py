"""The judge of every fault: what was acknowledged, against what anybody sees afterwards.

It knows nothing of the server and imports nothing of it. It is given plain facts and names every
contradiction; no contradiction means that the promises of docs/reliability.md held.

    lost        acknowledged, and not in the history
    changed     in the history, or seen by somebody, with other content
    twice       one announcement under two sequences, or a sequence seen twice by one reader
    phantom     in the history, and never announced
    reorder     announced one after the other by one producer, stored the other way round
    gap         left out by a watcher or a replay between its beginning and its end
    lake        missing, doubled or changed in the table, up to its mark; or in it above the mark
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Seen: TypeAlias = tuple[int, Any]
"""A sequence and the content that came with it."""


@dataclass(frozen=True)
class Reader:
    """What one watcher or one replay saw."""

    name: str
    seen: Sequence[Seen]
    first: int | None = None
    """Where it was asked to begin; None is live, from the first that came."""
    through: int | None = None
    """Up to where it must have everything; None is its own last."""


@dataclass(frozen=True)
class Facts:
    """Everything that is known after a run."""

    acknowledged: Mapping[int, Any]
    """Contents by sequence, as the producers sent them; contents are unique."""
    unknown: Sequence[Any]
    """Sent, and nobody knows what became of it: it may be stored, once."""
    producers: Sequence[Sequence[int]]
    """The sequences that each producer was given, in the order of its sending."""
    history: Sequence[Seen]
    """All of it, as a replay shows it in the end."""
    readers: Sequence[Reader] = ()
    table: Sequence[Seen] | None = None
    """The rows of the lake, in any order; None without a lake."""
    mark: int = 0
    gone: frozenset[int] = field(default_factory=frozenset)
    """Sequences that may be missing: deleted, or lost with a log that nobody had a copy of."""


def violations(facts: Facts) -> list[str]:
    """Every contradiction, in words; none is what is wanted."""
    return [*_history(facts), *_order(facts), *_readers(facts), *_lake(facts)]


def _history(facts: Facts) -> Iterator[str]:
    stored = dict(facts.history)
    yield from _rising("history", facts.history)
    for sequence, content in sorted(facts.acknowledged.items()):
        if sequence not in stored:
            if sequence not in facts.gone:
                yield f"lost: {sequence} was acknowledged and is not in the history"
        elif stored[sequence] != content:
            yield f"changed: {sequence} is {stored[sequence]!r}, acknowledged as {content!r}"
    sent = {_key(content) for content in (*facts.acknowledged.values(), *facts.unknown)}
    counted = Counter(_key(content) for _, content in facts.history)
    for sequence, content in facts.history:
        if _key(content) not in sent:
            yield f"phantom: {sequence} is {content!r}, which nobody announced"
        if counted[_key(content)] > 1:
            yield f"twice: {content!r} is stored {counted[_key(content)]} times, at {sequence}"


def _order(facts: Facts) -> Iterator[str]:
    for number, given in enumerate(facts.producers):
        for before, after in itertools.pairwise(given):
            if before >= after:
                yield f"reorder: producer {number} was given {before}, then {after}"


def _readers(facts: Facts) -> Iterator[str]:
    stored = dict(facts.history)
    for reader in facts.readers:
        yield from _rising(reader.name, reader.seen)
        got = dict(reader.seen)
        for sequence, content in sorted(got.items()):
            if sequence in stored and stored[sequence] != content:
                yield f"changed: {reader.name} saw {sequence} as {content!r}"
            elif sequence not in stored and sequence not in facts.gone:
                yield f"phantom: {reader.name} saw {sequence}, which is not in the history"
        if not got and reader.through is None:
            continue
        first = min(got, default=1) if reader.first is None else reader.first
        through = max(got, default=0) if reader.through is None else reader.through
        for sequence in sorted(set(stored) - set(got)):
            if first <= sequence <= through:
                yield f"gap: {reader.name} did not see {sequence}"


def _lake(facts: Facts) -> Iterator[str]:
    if facts.table is None:
        return
    counted = Counter(sequence for sequence, _ in facts.table)
    yield from (f"lake: {s} is in it {n} times" for s, n in sorted(counted.items()) if n > 1)
    yield from (f"lake: {s} lies above the mark {facts.mark}" for s in counted if s > facts.mark)
    rows, stored = dict(facts.table), dict(facts.history)
    for sequence, content in sorted(stored.items()):
        if sequence <= facts.mark and sequence not in rows:
            yield f"lake: {sequence} is missing, and the mark is {facts.mark}"
        elif sequence in rows and rows[sequence] != content:
            yield f"lake: {sequence} is {rows[sequence]!r} in it, {content!r} in the history"
    for sequence in sorted(set(rows) - set(stored) - facts.gone):
        yield f"lake: {sequence} is in it and not in the history"


def _rising(name: str, seen: Sequence[Seen]) -> Iterator[str]:
    for (before, _), (after, _) in itertools.pairwise(seen):
        if before == after:
            yield f"twice: {name} has {after} two times"
        elif before > after:
            yield f"reorder: {name} has {after} behind {before}"


def _key(content: Any) -> str:
    return repr(content)
