"""The event types of a synthetic history, as the example configuration declares them."""

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from tools.synth import forecast, weather
from tools.synth.blocks import Blocks, together

HOUR_NS = 3_600_000_000_000

EVENT_TYPES: Mapping[str, Callable[[int, int], Blocks]] = {
    "mars": forecast.mars,
    "dissemination": forecast.dissemination,
    "extreme_event": weather.extreme_event,
    "test_polygon": weather.storm_areas,
    "observations": weather.observations,
}
"""By event type: the blocks of a base day, from seed and day since the epoch."""


@lru_cache(maxsize=32)
def arrivals(seed: int, event_type: str, day: int) -> Blocks:
    """Blocks that begin on a day, in the order of time; those of the evening are of the day before.

    No block begins more than a day after the end of its base day.
    """
    make = EVENT_TYPES[event_type]
    blocks = together([make(seed, day - 1), make(seed, day)])
    today = np.flatnonzero(blocks.start_ns // (24 * HOUR_NS) == day)
    return blocks.take(today[np.argsort(blocks.start_ns[today], kind="stable")])
