"""The event types of a synthetic history, as the example configuration declares them."""

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from aviso_server.pipeline.synth import forecast, weather
from aviso_server.pipeline.synth.cells import Cells, together

HOUR_NS = 3_600_000_000_000

KINDS: Mapping[str, Callable[[int, int], Cells]] = {
    "mars": forecast.mars,
    "dissemination": forecast.dissemination,
    "extreme_event": weather.extreme_event,
    "test_polygon": weather.storm_areas,
    "observations": weather.observations,
}
"""By event type: the cells of a base day, from seed and day since the epoch."""


@lru_cache(maxsize=32)
def arrivals(seed: int, event_type: str, day: int) -> Cells:
    """Cells that begin on a day, in the order of time; those of the evening are of the day before.

    No cell begins more than a day after the end of its base day.
    """
    make = KINDS[event_type]
    cells = together([make(seed, day - 1), make(seed, day)])
    today = np.flatnonzero(cells.start_ns // (24 * HOUR_NS) == day)
    return cells.take(today[np.argsort(cells.start_ns[today], kind="stable")])
