"""A world map of announced cells. Pure but for the outline of the land, read once.

The outline is made from Natural Earth's countries at 1:110 million, which are in the public domain
(naturalearthdata.com): joined, simplified to a third of a degree, small islands left out. It is an
SVG path in tenths of a degree, from 180 W and 90 N.
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

from markupsafe import Markup

from aviso_server.pipeline.report.markup import tag
from aviso_server.pipeline.report.scale import shades

STEPS = 7

NORTH, SOUTH = 84, -64
"""What is drawn, in degrees, unless something lies beyond."""


def world(cells: Mapping[tuple[int, int], int], *, side: int) -> Markup:
    """The map; cells by latitude and longitude of their south-western corner, in degrees."""
    north = max([NORTH, *(lat + side for lat, _ in cells)])
    south = min([SOUTH, *(lat for lat, _ in cells)])
    top, height = (90 - north) * 10, (north - south) * 10
    drawn = [
        tag("rect", x=0, y=top, width=3600, height=height, class_="sea"),
        tag("path", d=_land(), class_="land"),
        tag("path", d=_graticule(), class_="graticule"),
        *_shaded(cells, side),
        tag("path", d=_land(), class_="coast"),
    ]
    return tag(
        "svg",
        drawn,
        view_box=f"0 {top} 3600 {height}",
        role="img",
        aria_label="World map of announced areas",
        class_="globe",
    )


def _shaded(cells: Mapping[tuple[int, int], int], side: int) -> list[Markup]:
    """One path for each shade; adjacent cells become one piece."""
    places = sorted(cells)
    shade = dict(zip(places, shades([cells[p] for p in places], steps=STEPS), strict=True))
    paths: dict[int, list[str]] = {}
    for lat, lon in places:
        step = shade[lat, lon]
        if shade.get((lat, lon - side)) == step:
            continue
        width = 1
        while shade.get((lat, lon + width * side)) == step:
            width += 1
        x, y, tall = (lon + 180) * 10, (90 - lat - side) * 10, side * 10
        paths.setdefault(step, []).append(f"M{x} {y}h{width * tall}v{tall}h-{width * tall}z")
    return [tag("path", d="".join(d), class_=f"m{step}") for step, d in sorted(paths.items())]


def _graticule() -> str:
    across = "".join(f"M0 {y}H3600" for y in range(0, 1801, 300))
    return across + "".join(f"M{x} 0V1800" for x in range(0, 3601, 300))


@lru_cache(maxsize=1)
def _land() -> str:
    text = files("aviso_server.pipeline.report").joinpath("land.path").read_text()
    return text.replace("\n", "")
