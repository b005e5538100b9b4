"""The outlines of the land: how the file is made, what is in it, and that the map reads it."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from support.browser import Tab

from aviso_server.http.pages import PACKAGED_STATIC

TOOL = Path(__file__).parents[2] / "tools" / "coastlines.py"
MAKER = runpy.run_path(str(TOOL))
FILE = PACKAGED_STATIC / "console" / "world.json"
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
MOST_BYTES = 120_000

DECODE = """async () => {
  const { decoded } = await import("/static/console/map/world.js");
  const { step, land, water, borders } = await (await fetch("/static/console/world.json")).json();
  const read = (texts) => texts.map((text) => decoded(text, step));
  // As one text, which gets out of the browser much faster than many values.
  return JSON.stringify({ land: read(land), water: read(water), borders: read(borders) });
}"""

COUNTS = """async () => {
  const { World } = await import("/static/console/map/world.js");
  const world = new World(await (await fetch("/static/console/world.json")).json());
  return [1, 3, 12, 30, 250].map((scale) => {
    const { land, water, borders } = world.at(scale);
    return [land.length, water.length, borders.length, world.at(scale) === world.at(scale * 1.01)];
  });
}"""


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    """The file."""
    document: dict[str, Any] = json.loads(FILE.read_bytes())
    return document


def places(text: str, step: float) -> list[tuple[float, float]]:
    """The points of a line as latitude and longitude, read as the file's maker describes it."""
    numbers: list[int] = []
    digits: list[int] = []
    for character in text:
        value = DIGITS.index(character)
        digits.append(value % 32)
        if value < 32:
            folded = sum(digit * 32**power for power, digit in enumerate(digits))
            numbers.append(folded // 2 if folded % 2 == 0 else -(folded + 1) // 2)
            digits = []
    assert digits == []
    x = y = 0
    found = []
    for dx, dy in zip(numbers[::2], numbers[1::2], strict=True):
        x, y = x + dx, y + dy
        found.append((y * step, x * step))
    return found


def test_the_file_is_small_and_says_where_it_is_from(world: dict[str, Any]) -> None:
    """A page must not wait for it, and nobody must wonder whose it is."""
    assert FILE.stat().st_size <= MOST_BYTES
    source = " ".join(world["source"].values())
    assert "Natural Earth 4.1.0" in source
    assert "public domain" in source
    assert "world-atlas 2.0.2" in source
    assert "tools/coastlines.py" in source


@given(st.lists(st.tuples(st.integers(-9600, 9600), st.integers(-4500, 4500)), min_size=1))
def test_what_is_written_can_be_read(line: list[tuple[int, int]]) -> None:
    """Every line on the grid comes back as it was."""
    assert places(MAKER["_text"](line), 1) == [(y, x) for x, y in line]


def test_two_neighbours_have_one_border(tmp_path: Path) -> None:
    """A line that two countries share is a border; the others are the coast, across 180 degrees."""
    # Two squares side by side, the eastern one beyond the antimeridian, in steps of a degree.
    arcs = [
        [[350, 0], [0, 10]],
        [[350, 10], [-10, 0], [0, -10], [10, 0]],
        [[350, 10], [10, 0], [-355, 0], [0, -10], [355, 0], [-10, 0]],
    ]
    west = {"type": "Polygon", "arcs": [[0, 1]]}
    east = {"type": "MultiPolygon", "arcs": [[[~0, ~2]]]}
    land = {"type": "MultiPolygon", "arcs": [[[1, 2]]]}
    topology = {
        "transform": {"scale": [1, 1], "translate": [-180, 0]},
        "arcs": arcs,
        "objects": {"countries": {"geometries": [west, east]}, "land": {"geometries": [land]}},
    }
    file = tmp_path / "countries.json"
    file.write_text(json.dumps(topology))
    made = json.loads(MAKER["world"](MAKER["Topology"](file)))
    (border,) = made["borders"]
    assert places(border, made["step"]) == [(0, 170), (10, 170)]
    (coast,) = made["land"]
    assert shapely.Polygon(places(coast, made["step"])).bounds == pytest.approx((0, 160, 10, 185))
    assert made["water"] == []


def test_every_outline_is_of_this_world(world: dict[str, Any]) -> None:
    """Latitudes end at the poles; longitudes run on a little beyond 180; rings are closed."""
    for kind in ("land", "water", "borders"):
        for text in world[kind]:
            line = places(text, world["step"])
            assert len(line) >= (2 if kind == "borders" else 4)
            assert all(-90 <= lat <= 84 and -192 <= lon <= 192 for lat, lon in line)
            assert kind == "borders" or line[0] == line[-1]


@pytest.mark.parametrize(
    ("lat", "lon", "is_land"),
    [
        (51.45, -0.97, True),  # Reading
        (44.5, 11.35, True),  # Bologna
        (50.73, 7.1, True),  # Bonn
        (64.15, -21.9, True),  # Reykjavik
        (-18.9, 47.5, True),  # Antananarivo
        (66.0, 187.0, True),  # Chukotka, beyond 180 degrees
        (-89.0, 179.9, True),  # Antarctica
        (45.0, -30.0, False),
        (40.0, 6.0, False),
        (0.0, -150.0, False),
        (85.0, 0.0, False),
        (42.0, 51.0, False),  # the Caspian Sea
    ],
)
def test_land_is_where_it_is(
    world: dict[str, Any], lat: float, lon: float, *, is_land: bool
) -> None:
    """Known places are on land or at sea."""

    def holds(kind: str) -> bool:
        rings = (places(text, world["step"]) for text in world[kind])
        return any(shapely.Polygon(ring).contains(shapely.Point(lat, lon)) for ring in rings)

    assert (holds("land") and not holds("water")) is is_land


def test_the_map_reads_what_is_in_the_file(page: Tab, world: dict[str, Any]) -> None:
    """The map's reader and the one above agree on every point."""
    found = json.loads(page.page.evaluate(DECODE))
    for kind in ("land", "water", "borders"):
        expected = [places(text, world["step"]) for text in world[kind]]
        assert found[kind] == [[list(place) for place in line] for line in expected]


def test_a_closer_look_has_more_to_draw(page: Tab) -> None:
    """There are a few degrees of detail, each made once; from afar small islands are left out."""
    far, *nearer, nearest = page.page.evaluate(COUNTS)
    assert far[0] < nearest[0]
    assert far[1:3] == nearest[1:3]
    assert all(made_once for *_, made_once in [far, *nearer, nearest])
