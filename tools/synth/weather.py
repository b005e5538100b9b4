"""Blocks of weather: warnings of extreme events, areas of storms, observing stations.

Storms are born near places where storms are born, move for some days and grow. Each cycle
announces where a storm is expected to be, one area for each lead time.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow.compute as pc

from aviso_server.core.geometry import Area, Cloud, Geometry
from aviso_server.core.numeral import float_text
from tools.synth.blocks import Blocks, pick, same, shared
from tools.synth.forecast import CYCLES, DAY_NS, SECOND_NS

REGIONS = ("north", "south", "east", "west")
WARNINGS = 80
"""Of an ordinary day, about different things;"""
BULLETINS = 20
"""and how often each is announced."""

LEADS = 6
"""Areas of a storm in a cycle: now, in a day, in two ..."""
REPEATS = 10
"""How often an area is announced, by region and product."""
LONGEST_DAYS = 6
BIRTHS = 2.2
"""Storms born on an ordinary day."""
CORNERS = 12

NETWORKS = 8
STATIONS = (30, 120)

_NURSERIES = (
    (14.0, -45.0), (12.0, -100.0), (15.0, 130.0), (-15.0, 65.0), (-15.0, 150.0),
    (42.0, -60.0), (45.0, 150.0), (50.0, -20.0), (40.0, 10.0), (-40.0, -50.0),
)  # fmt: skip
"""Latitude and longitude."""

_READY_S = 7 * 3600
"""From the base time to the first warning."""


@dataclass(frozen=True, slots=True)
class _Storm:
    """Where a storm is born, in degrees, and what becomes of it."""

    born: float
    """Days since the epoch."""
    days: float
    lat: float
    lon: float
    north: float
    east: float
    """Degrees per day."""
    radius: float

    def area(self, at: float) -> Area:
        """A ring around it at a time in days; it grows with age."""
        age = at - self.born
        lat, lon = self.lat + self.north * age, self.lon + self.east * age
        size = self.radius * (1 + 0.25 * age)
        ring = []
        for corner in range(CORNERS):
            angle = 2 * math.pi * corner / CORNERS
            ring.append(
                (
                    _bounded(lat + size * math.sin(angle), 89.0),
                    _bounded(lon + 1.4 * size * math.cos(angle), 179.0),
                )
            )
        return Area.of((*ring, ring[0]))


def extreme_event(seed: int, day: int) -> Blocks:
    """Warnings of a base day; some days have many."""
    draw = np.random.default_rng((seed, 31, day))
    count = int(draw.poisson(WARNINGS * min(4.0, draw.lognormal(-0.1, 0.5))))
    cycle = draw.integers(0, len(CYCLES), count)
    severity = np.minimum(draw.geometric(0.4, count), 7) - 1
    anomaly = np.minimum(draw.gamma(2.0, 150.0, count), 2000).astype(np.int64)
    fields = {
        "region": pick(REGIONS, draw.choice(4, count, p=[0.4, 0.25, 0.2, 0.15])),
        "run_time": pick(CYCLES, cycle),
        "severity": pick([str(n) for n in range(1, 8)], severity),
        "anomaly": pick([float_text(n / 10) for n in range(2001)], anomaly),
    }
    prefix = pc.binary_join_element_wise(
        '{"bulletin":"extreme', same(_date(day), count), fields["run_time"], fields["region"], "",
        "/",
    )  # fmt: skip
    after_s = cycle * 6 * 3600 + _READY_S + draw.uniform(0, 7200, count)
    return Blocks(
        day * DAY_NS + (after_s * SECOND_NS).astype(np.int64),
        np.full(count, 600 * SECOND_NS),
        np.full(count, BULLETINS, np.int64),
        shared(fields, topic=["extreme", *fields], prefix=prefix),
    )


def storm_areas(seed: int, day: int) -> Blocks:
    """Areas that the cycles of a base day announce."""
    places: list[Geometry] = []
    cycles: list[int] = []
    for cycle in range(len(CYCLES)):
        now = day + cycle / 4
        for born in range(day - LONGEST_DAYS, day + 1):
            for storm in _storms(seed, born):
                leads = [now + lead for lead in range(LEADS)]
                alive = [at for at in leads if storm.born <= at < storm.born + storm.days]
                if alive and alive[0] == now:
                    places += [storm.area(at) for at in alive]
                    cycles += [cycle] * len(alive)
    draw = np.random.default_rng((seed, 32, day))
    count, which = len(places), np.array(cycles, np.int64)
    fields = {"date": same(_date(day), count), "time": pick(CYCLES, which)}
    prefix = pc.binary_join_element_wise('{"location":"s3://storms', *fields.values(), "", "/")
    after_s = which * 6 * 3600 + _READY_S + draw.uniform(0, 5400, count)
    return Blocks(
        day * DAY_NS + (after_s * SECOND_NS).astype(np.int64),
        np.full(count, 300 * SECOND_NS),
        np.full(count, REPEATS, np.int64),
        shared(fields, topic=["polygon", "date", "time"], prefix=prefix, places=places),
    )


def observations(seed: int, day: int) -> Blocks:
    """What station networks sent, once an hour."""
    draw = np.random.default_rng((seed, 33, day))
    count = 24 * NETWORKS
    hour, network = np.divmod(np.arange(count), NETWORKS)
    fields = {"date": same(_date(day), count)}
    prefix = pc.binary_join_element_wise(
        '{"location":"s3://observations', fields["date"],
        pick([f"{n:02d}" for n in range(24)], hour),
        pick([f"network-{n}" for n in range(NETWORKS)], network), "", "/",
    )  # fmt: skip
    clouds = _networks(seed)
    after_s = hour * 3600 + 1200 + draw.uniform(0, 900, count)
    return Blocks(
        day * DAY_NS + (after_s * SECOND_NS).astype(np.int64),
        np.full(count, 600 * SECOND_NS),
        np.full(count, 2, np.int64),
        shared(
            fields,
            topic=["observations", "date"],
            prefix=prefix,
            places=[clouds[n] for n in network.tolist()],
        ),
    )


@lru_cache(maxsize=32)
def _storms(seed: int, day: int) -> tuple[_Storm, ...]:
    """Storms born on a day."""
    draw = np.random.default_rng((seed, 34, day))
    made = []
    for _ in range(int(draw.poisson(BIRTHS))):
        lat, lon = _NURSERIES[int(draw.integers(len(_NURSERIES)))]
        poleward, tropical = math.copysign(1, lat), abs(lat) < 30
        made.append(
            _Storm(
                born=day + float(draw.random()),
                days=float(draw.uniform(2, LONGEST_DAYS)),
                lat=lat + float(draw.normal(0, 4)),
                lon=lon + float(draw.normal(0, 8)),
                north=poleward * float(draw.uniform(0.5, 4)),
                # Trade winds carry to the west, those of middle latitudes to the east.
                east=float(draw.uniform(2, 8)) * (-1 if tropical else 1),
                radius=float(draw.uniform(1.5, 4)),
            )
        )
    return tuple(made)


@lru_cache(maxsize=4)
def _networks(seed: int) -> tuple[Cloud, ...]:
    """Stations around a few centres."""
    draw = np.random.default_rng((seed, 35))
    made = []
    for number in range(NETWORKS):
        lat, lon = _NURSERIES[number]
        count = int(draw.integers(*STATIONS))
        lats, lons = draw.normal(lat, 6, count), draw.normal(lon, 9, count)
        made.append(
            Cloud(
                tuple(
                    (_bounded(float(north), 89.0), _bounded(float(east), 179.0))
                    for north, east in zip(lats, lons, strict=True)
                )
            )
        )
    return tuple(made)


def _bounded(degrees: float, most: float) -> float:
    """Two decimals, within bounds, and no minus zero."""
    return round(max(-most, min(most, degrees)), 2) + 0.0


def _date(day: int) -> str:
    return str(np.datetime64(day, "D")).replace("-", "")
