"""Blocks of forecasts: four cycles a day into MARS, and their products to destinations.

A cycle begins some hours after its base time and brings one step after the other. Now and then a
cycle or a step is late, rarely one is missing: what reports of late and missing products look for.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tools.synth.blocks import Blocks, Floats, Ints, pick, same, shared

SECOND_NS = 1_000_000_000
DAY_NS = 86_400 * SECOND_NS

CYCLES = ("0000", "0600", "1200", "1800")
STREAMS = ("oper", "enfo")
STEPS = np.array([*range(0, 144, 3), *range(144, 241, 6)], np.int64)
SHORT = 144
"""Last step of the cycles at 06 and 18."""

LATE_CYCLE, LATE_STEP = 0.02, 0.003
MISSING_CYCLE, MISSING_STEP = 0.004, 0.001
"""Probabilities, for each of them."""

BEGIN_S = np.array([20_700, 23_400])
"""From the base time to step 0, by stream: 5 h 45 and 6 h 30."""
STEP_S = np.array([15.0, 19.0])
"""Per hour of step, by stream: ten days take an hour, the ensemble some more."""
SPREAD_S = np.array([60, 240])
"""From the first field of a step to its last, by stream."""

FIELDS = np.array([100, 930])
"""Of a step, by stream; 51 members in the ensemble."""

DESTINATIONS = 40
DISSEMINATED = 60_000
"""Products of an ordinary day."""

_KEYS = ["class", "expver", "domain", "date", "time", "stream", "step"]

Mask: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The cycles of a base day, by cycle, stream and step."""

    arrival_ns: Ints
    there: Mask
    """False: it never comes."""


@dataclass(frozen=True, slots=True, eq=False)
class _Orders:
    """What destinations ordered, one row for each product."""

    destination: Ints
    cycle: Ints
    stream: Ints
    step: Ints
    """Its number in STEPS."""
    weight: Ints


def mars(seed: int, day: int) -> Blocks:
    """Fields that a base day, in days since the epoch, brings to the archive."""
    line = timeline(seed, day)
    cycle, stream, step = np.nonzero(line.there)
    fields = _fields(day, cycle, stream, step)
    prefix = pc.binary_join_element_wise(
        '{"location":"mars://od/0001', fields["stream"], fields["date"], fields["time"],
        fields["step"], "", "/",
    )  # fmt: skip
    return Blocks(
        line.arrival_ns[cycle, stream, step],
        SPREAD_S[stream] * SECOND_NS,
        FIELDS[stream],
        shared(fields, topic=["mars", *_KEYS], prefix=prefix),
    )


def dissemination(seed: int, day: int) -> Blocks:
    """Products of a base day for destinations: made as soon as the step is there."""
    line, orders = timeline(seed, day), _orders(seed)
    draw = np.random.default_rng((seed, 22, day))
    count = len(orders.weight)
    wait_s = 30 + draw.exponential(120, count) + _late(draw, (count,), LATE_STEP)
    there = line.there[orders.cycle, orders.stream, orders.step]
    there &= draw.random(count) >= MISSING_STEP
    arrival = line.arrival_ns[orders.cycle, orders.stream, orders.step]
    start = arrival + (np.minimum(wait_s, 4 * 3600) * SECOND_NS).astype(np.int64)
    chosen = np.flatnonzero(there)
    who = orders.destination[chosen]
    fields = _fields(day, orders.cycle[chosen], orders.stream[chosen], orders.step[chosen])
    fields["destination"] = pick(_destinations(), who)
    fields["target"] = pick(["E1", "E2", "E3", "S3"], who % 4)
    prefix = pc.binary_join_element_wise(
        '{"location":"sftp://diss.example.int', fields["destination"], fields["date"],
        fields["time"], fields["step"], "", "/",
    )  # fmt: skip
    return Blocks(
        start[chosen],
        np.full(len(chosen), 120 * SECOND_NS),
        orders.weight[chosen],
        shared(fields, topic=["diss", "destination", "target", *_KEYS], prefix=prefix),
    )


@lru_cache(maxsize=8)
def timeline(seed: int, day: int) -> Timeline:
    """When each step of a base day arrives."""
    draw = np.random.default_rng((seed, 21, day))
    cycles, shape = (len(CYCLES), 1, 1), (len(CYCLES), len(STREAMS), len(STEPS))
    base_s = np.arange(len(CYCLES)).reshape(cycles) * 6 * 3600
    begin = BEGIN_S.reshape(1, 2, 1) + draw.normal(0, 240, (len(CYCLES), 2, 1)).clip(-900, 900)
    after = begin + STEPS * STEP_S.reshape(1, 2, 1) + draw.random(shape) * 40
    after = after + _late(draw, cycles, LATE_CYCLE, longest_min=240)
    after = after + _late(draw, shape, LATE_STEP)
    gone = draw.random((len(CYCLES), 2, 1)) < MISSING_CYCLE
    gone = gone | (draw.random(shape) < MISSING_STEP)
    short = (np.arange(len(CYCLES)) % 2 == 1).reshape(cycles) & (STEPS > SHORT)
    arrival = day * DAY_NS + ((base_s + after) * SECOND_NS).astype(np.int64)
    return Timeline(arrival, ~(gone | short))


def _late(
    draw: np.random.Generator, shape: tuple[int, ...], rate: float, *, longest_min: int = 180
) -> Floats:
    """Seconds of delay: none for most."""
    hit = draw.random(shape) < rate
    return hit * draw.uniform(30 * 60, longest_min * 60, shape)


def _fields(day: int, cycle: Ints, stream: Ints, step: Ints) -> dict[str, pa.Array]:
    count = len(cycle)
    date = str(np.datetime64(day, "D")).replace("-", "")
    return {
        "class": same("od", count),
        "expver": same("0001", count),
        "domain": same("g", count),
        "date": same(date, count),
        "time": pick(CYCLES, cycle),
        "stream": pick(STREAMS, stream),
        "step": pick([str(hours) for hours in STEPS], step),
    }


def _destinations() -> list[str]:
    """Made-up codes of those who get products."""
    letters = "ABCDEFGHIKLMNOPRSTUVZ"
    return [
        letters[n * 5 % 21] + letters[n * 11 % 21] + letters[n * 17 % 19] + str(1 + n // 21)
        for n in range(DESTINATIONS)
    ]


@lru_cache(maxsize=4)
def _orders(seed: int) -> _Orders:
    """Standing orders, the same every day; a few destinations get most of the products."""
    draw = np.random.default_rng((seed, 23))
    rows: list[Ints] = []
    for number in range(DESTINATIONS):
        cycles = range(0, 4, 2) if draw.random() < 0.5 else range(4)
        streams = range(2) if draw.random() < 0.6 else range(1)
        steps = np.flatnonzero(STEPS % int(draw.choice([6, 12, 24])) == 0)
        for cycle in cycles:
            mine = steps if cycle % 2 == 0 else steps[STEPS[steps] <= SHORT]
            for stream in streams:
                one = np.ones(len(mine), np.int64)
                rows.append(np.stack([number * one, cycle * one, stream * one, mine]))
    ordered: Ints = np.concatenate(rows, axis=1)
    share = 1 / (1 + ordered[0])
    weight = np.maximum(1, np.rint(DISSEMINATED * share / share.sum())).astype(np.int64)
    return _Orders(ordered[0], ordered[1], ordered[2], ordered[3], weight)
