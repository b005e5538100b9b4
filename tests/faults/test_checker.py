"""The checker finds what is planted: a judge that never convicts proves nothing."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from support.checker import Facts, Reader, Seen, violations

COUNT = 60


def sound(seed: int) -> Facts:
    """A run without a fault: three producers, one attempt of unknown outcome that was stored."""
    draw = random.Random(seed)
    history = [(n, f"payload {n}\u00a0") for n in range(1, COUNT + 1)]
    stored = dict(history)
    unclear = draw.randrange(1, COUNT + 1)
    acknowledged = {n: text for n, text in stored.items() if n != unclear}
    given = [[n for n in acknowledged if n % 3 == number] for number in range(3)]
    start = draw.randrange(1, 20)
    return Facts(
        acknowledged,
        unknown=[stored[unclear], "never stored"],
        producers=given,
        history=history,
        readers=[
            Reader("live", history[draw.randrange(5, 30) :]),
            Reader("from there", history[start - 1 :], first=start, through=COUNT),
            Reader("replay", history, first=1, through=COUNT),
        ],
        table=draw.sample(history[:40], 40),
        mark=40,
    )


def without(seen: Sequence[Seen], at: int) -> list[Seen]:
    """What was seen, with one item left out."""
    return [item for n, item in enumerate(seen) if n != at]


def reader(facts: Facts, name: str, change: Callable[[list[tuple[int, str]]], object]) -> Facts:
    """The facts with what one reader saw changed."""
    changed = []
    for item in facts.readers:
        seen = list(item.seen)
        if item.name == name:
            change(seen)
        changed.append(replace(item, seen=seen))
    return replace(facts, readers=changed)


def swap(seen: list[tuple[int, str]]) -> None:
    seen[7], seen[8] = seen[8], seen[7]


def rewrite(seen: list[tuple[int, str]]) -> None:
    seen[7] = (seen[7][0], "something else")


PLANTED: dict[str, tuple[str, Callable[[Facts], Facts]]] = {
    "an acknowledged one is gone": (
        "lost",
        lambda f: replace(
            f,
            history=without(f.history, 9),
            acknowledged={**f.acknowledged, 10: "payload 10\u00a0"},
        ),
    ),
    "content changed in the history": (
        "changed",
        lambda f: replace(
            f,
            history=[(n, text.upper() if n == 11 else text) for n, text in f.history],
            acknowledged={**f.acknowledged, 11: "payload 11\u00a0"},
        ),
    ),
    "white space lost in the lake": (
        "lake",
        lambda f: replace(f, table=[(n, str(text).strip()) for n, text in f.table or ()]),
    ),
    "stored twice": (
        "twice",
        lambda f: replace(f, history=[*f.history, (COUNT + 1, f.history[3][1])]),
    ),
    "nobody announced it": (
        "phantom",
        lambda f: replace(f, history=[*f.history, (COUNT + 1, "from nowhere")]),
    ),
    "a producer's order": (
        "reorder",
        lambda f: replace(f, producers=[[*f.producers[0][::-1]], *f.producers[1:]]),
    ),
    "a watcher misses one": ("gap", lambda f: reader(f, "live", lambda s: s.pop(9))),
    "a watcher misses its first": ("gap", lambda f: reader(f, "from there", lambda s: s.pop(0))),
    "a replay misses its end": ("gap", lambda f: reader(f, "replay", lambda s: s.pop())),
    "a watcher sees one twice": (
        "twice",
        lambda f: reader(f, "live", lambda s: s.insert(5, s[5])),
    ),
    "a watcher sees two in the wrong order": ("reorder", lambda f: reader(f, "live", swap)),
    "a watcher sees other content": ("changed", lambda f: reader(f, "replay", rewrite)),
    "a watcher sees what is not there": (
        "phantom",
        lambda f: reader(f, "live", lambda s: s.append((COUNT + 5, "x"))),
    ),
    "a row of the lake is missing": ("lake", lambda f: replace(f, table=(f.table or ())[1:])),
    "a row of the lake is doubled": (
        "lake",
        lambda f: replace(f, table=[*(f.table or ()), (f.table or ())[0]]),
    ),
    "a row above the mark": (
        "lake",
        lambda f: replace(f, table=[*(f.table or ()), (41, "payload 41\u00a0")]),
    ),
    "a row that the history does not have": (
        "lake",
        lambda f: replace(f, table=[*(f.table or ()), (COUNT + 9, "x")], mark=COUNT + 9),
    ),
}


@pytest.mark.parametrize("seed", range(5))
def test_a_sound_run_is_acquitted(seed: int) -> None:
    """Nothing is found where nothing is wrong; an outcome nobody knows may be either."""
    facts = sound(seed)
    assert violations(facts) == []
    unclear = [n for n, _ in facts.history if n not in facts.acknowledged]
    (number,) = unclear
    absent = [item for item in facts.history if item[0] != number]
    readers = [
        replace(item, seen=[s for s in item.seen if s[0] != number]) for item in facts.readers
    ]
    table = [row for row in facts.table or () if row[0] != number]
    assert violations(replace(facts, history=absent, readers=readers, table=table)) == []


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_planted_is_found(what: str, seed: int) -> None:
    """Loss, duplicate, reorder and change, in the history, at a reader and in the lake."""
    kind, plant = PLANTED[what]
    found = violations(plant(sound(seed)))
    assert any(line.startswith(f"{kind}:") for line in found), found
