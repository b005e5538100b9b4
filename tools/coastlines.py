#!/usr/bin/env python3
"""Make the outlines of the land that the console's map and the report's map draw.

The data is Natural Earth's, which is in the public domain (naturalearthdata.com). It comes from the
npm package ``world-atlas``, where it is a topology: lines that neighbours share are stored once.
To make the files again, from a folder with the unpacked package:

    npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz
    python tools/coastlines.py world package/countries-50m.json > world.json
    python tools/coastlines.py path package/countries-110m.json > land.path

``world.json`` is the console's. Lines are simplified one by one, their ends kept, so coasts and
borders still meet; then everything is put on a grid. Land on both sides of 180 degrees stays in one
piece: its longitudes run on, for the map repeats sideways. A line is a text: the steps from point
to point, longitude before latitude, each number folded to be positive (0, -1, 1, -2, ...) and
written in base 32, lowest digit first, where digits from 32 on say that more follow.
``map/world.js`` reads it.

``land.path`` is the report's: an SVG path in tenths of a degree, from 180 W and 90 N. The one in
use is older than this script; made anew, some small coasts would change.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import shapely
from shapely import affinity, get_coordinates

Line: TypeAlias = list[tuple[float, float]]
"""Points of longitude and latitude: in degrees, or in steps of the grid."""

GRID = 0.02
"""Degrees between the grid's lines; about a pixel of a wide screen that shows 20 degrees."""
TOLERANCE = 0.02
"""Degrees that a simplified line may be off."""
SPECK = 0.006
"""Square degrees; smaller islands are left out."""
OVERLAP = 0.1
"""Degrees by which the ends of Antarctica overlap where the map repeats: no gap must show."""
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

SOURCE = {
    "data": "Natural Earth 4.1.0, 1:50m, Admin 0 countries; public domain",
    "package": "world-atlas 2.0.2 (npm), countries-50m.json",
    "reduced": (
        f"tools/coastlines.py: lines simplified to {TOLERANCE} degrees, put on a grid of {GRID} "
        f"degrees, islands below {SPECK} square degrees left out; borders as in the data, de facto"
    ),
}


class Topology:
    """Lines that areas share, and the areas made of them."""

    def __init__(self, file: Path) -> None:
        document = json.loads(file.read_text())
        (east, north), (west, south) = (document["transform"][k] for k in ("scale", "translate"))
        self._objects: dict[str, Any] = document["objects"]
        self.lines: list[Line] = []
        for arc in document["arcs"]:
            x = y = 0
            line = []
            for dx, dy in arc:
                x, y = x + dx, y + dy
                line.append((x * east + west, y * north + south))
            self.lines.append(_running_on(line, 360))

    def areas(self, name: str) -> Iterator[list[list[int]]]:
        """The lines around each area, then around its holes; ~n is line n backwards."""
        for geometry in self._objects[name]["geometries"]:
            match geometry["type"]:
                case "Polygon":
                    yield geometry["arcs"]
                case "MultiPolygon":
                    yield from geometry["arcs"]

    def shared(self) -> list[int]:
        """The numbers of the lines between two countries."""
        rings = (ring for area in self.areas("countries") for ring in area)
        uses = Counter(max(n, ~n) for ring in rings for n in ring)
        return sorted(n for n, count in uses.items() if count > 1)


def world(topology: Topology) -> str:
    """The text of ``world.json``; a line for every outline, so that changes can be reviewed."""
    lines = [_snapped(shapely.LineString(line).simplify(TOLERANCE)) for line in topology.lines]
    land, water = [], []
    for outer, *holes in topology.areas("land"):
        land.append(_whole(lines, outer, GRID))
        water += [_whole(lines, hole, GRID) for hole in holes]
    document = {
        "source": SOURCE,
        "step": GRID,
        "land": _written(ring for ring in land if _area(ring) >= SPECK),
        "water": _written(ring for ring in water if _area(ring) >= SPECK),
        "borders": _written(lines[n] for n in topology.shared() if len(lines[n]) > 1),
    }
    return json.dumps(document, indent=0, separators=(",", ":")) + "\n"


def path(topology: Topology) -> str:
    """The text of ``land.path``."""
    areas = []
    for numbers in topology.areas("land"):
        outer, *holes = (_whole(topology.lines, ring, 1) for ring in numbers)
        area = shapely.make_valid(shapely.Polygon(outer, holes))
        areas += [affinity.translate(area, turn) for turn in (-360, 0, 360)]
    globe = shapely.box(-180, -90, 180, 90)
    land = shapely.union_all(areas).intersection(globe).simplify(1 / 3)
    rows = []
    for ring in shapely.get_rings(shapely.get_parts(land)):
        points = [(round(x * 10) + 1800, 900 - round(y * 10)) for x, y in get_coordinates(ring)]
        steps = (f"{b[0] - a[0]} {b[1] - a[1]}" for a, b in pairwise(points[:-1]))
        if shapely.Polygon(ring).area >= 1:
            rows.append(f"M{points[0][0]} {points[0][1]}l{' '.join(steps)}z\n")
    return "".join(rows)


def _whole(lines: list[Line], numbers: Iterable[int], unit: float) -> Line:
    """The closed ring of some lines, without jumps from one side of the map to the other.

    One that goes round the world is Antarctica: it gets the pole.
    """
    ring: Line = []
    for n in numbers:
        line = lines[n] if n >= 0 else lines[~n][::-1]
        ring += line[1:] if ring else line
    turn = 360 / unit
    ring = _running_on(ring, turn)
    (first, south), (last, _) = ring[0], ring[-1]
    if abs(last - first) > turn / 2:
        out = OVERLAP / unit if last > first else -OVERLAP / unit
        west, east, pole = first - out, last + out, -90 / unit
        ring += [(east, south), (east, pole), (west, pole), (west, south), (first, south)]
    middle = (min(x for x, _ in ring) + max(x for x, _ in ring)) / 2
    away = round(middle / turn) * turn
    return [(x - away, y) for x, y in ring]


def _running_on(line: Line, turn: float) -> Line:
    """The same line with longitudes that run on where they jumped by a whole turn."""
    moved = line[:1]
    for x, y in line[1:]:
        moved.append((x - round((x - moved[-1][0]) / turn) * turn, y))
    return moved


def _snapped(line: shapely.Geometry) -> Line:
    """A line on the grid, without points that fell together."""
    steps = [(float(round(x / GRID)), float(round(y / GRID))) for x, y in get_coordinates(line)]
    return [steps[0], *(b for a, b in pairwise(steps) if a != b)]


def _area(ring: Line) -> float:
    return shapely.Polygon(ring).area * GRID**2 if len(ring) > 3 else 0


def _written(lines: Iterable[Line]) -> list[str]:
    """The texts of lines, the longest first. A ring's last point is written, too."""
    return sorted((_text(line) for line in lines), key=len, reverse=True)


def _text(line: Line) -> str:
    steps = pairwise([(0.0, 0.0), *line])
    return "".join(_number(round(b[i] - a[i])) for a, b in steps for i in (0, 1))


def _number(value: int) -> str:
    rest = value * 2 if value >= 0 else -value * 2 - 1
    text = ""
    while rest >= 32:
        text += DIGITS[32 + rest % 32]
        rest //= 32
    return text + DIGITS[rest]


def main() -> None:
    """Read the package's file and write the outline."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=["world", "path"])
    parser.add_argument("file", type=Path, help="countries-50m.json or countries-110m.json")
    given = parser.parse_args()
    made = {"world": world, "path": path}[given.kind](Topology(given.file))
    sys.stdout.write(made)


if __name__ == "__main__":
    main()
