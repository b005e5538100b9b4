"""Where places are on the map's screen, and what becomes of rings: the laws of the pure parts."""

import math
from itertools import pairwise
from typing import Any, TypeAlias

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.browser import Tab

Place: TypeAlias = list[float]
View: TypeAlias = dict[str, float]

CALL = """async ({module, name, many}) => {
  const found = await import(`/static/console/map/${module}.js`);
  return many.map((given) => found[name](...given));
}"""

QUICK = settings(max_examples=15, phases=[Phase.explicit, Phase.reuse, Phase.generate])
"""Every example is a batch of some ten: the way to the browser is the slow part. For the same
reason a failure is shown as it was found; making it smaller would take minutes."""

VIEWS = st.builds(
    lambda width, height, zoom, lat, lon: {
        "width": width,
        "height": height,
        "scale": width / 360 * 2**zoom,
        "lat": lat,
        "lon": lon,
    },
    st.integers(40, 3000),
    st.integers(40, 2000),
    st.floats(0, 6),
    st.floats(-90, 90),
    st.floats(-900, 900),
)
LATS, LONS = st.floats(-90, 90), st.floats(-180, 180)
PLACES = st.tuples(LATS, LONS).map(list)
RINGS = st.lists(PLACES, min_size=3, max_size=12).map(lambda corners: [*corners, corners[0]])
DRAWN = st.lists(st.tuples(st.floats(-100, 100), st.floats(-600, 600)).map(list), max_size=12)
BOXES = st.builds(
    lambda west, south, wide, tall: [west, south, west + wide, south + tall],
    st.floats(-540, 540),
    st.floats(-90, 0),
    st.floats(0, 360),
    st.floats(0, 90),
)


def many(page: Tab, module: str, name: str, given: list[list[Any]]) -> list[Any]:
    """What a function of the map gives for each of these arguments."""
    found: list[Any] = page.page.evaluate(CALL, {"module": module, "name": name, "many": given})
    return found


def one(page: Tab, module: str, name: str, *given: object) -> Any:
    """What a function of the map gives."""
    return many(page, module, name, [list(given)])[0]


def clamped(page: Tab, views: list[View]) -> list[View]:
    """Views that a map can have."""
    return many(page, "projection", "clamped", [[view] for view in views])


@QUICK
@given(
    st.lists(st.tuples(VIEWS, st.floats(-180, 180), st.floats(-180, 180)), min_size=5, max_size=15)
)
def test_pixels_and_places_are_each_others_inverse(
    page: Tab, given: list[tuple[View, float, float]]
) -> None:
    """A place near the view, put on the screen and read back, is the same place."""
    places = [(view, view["lat"] + up, view["lon"] + east) for view, up, east in given]
    pixels = many(page, "projection", "project", [list(place) for place in places])
    back = many(
        page,
        "projection",
        "unproject",
        [[view, x, y] for (view, _, _), (x, y) in zip(places, pixels, strict=True)],
    )
    for (_, lat, lon), found in zip(places, back, strict=True):
        assert found == pytest.approx([lat, lon], abs=1e-6)


@QUICK
@given(st.lists(VIEWS, min_size=5, max_size=15))
def test_a_view_stays_within_the_world(page: Tab, views: list[View]) -> None:
    """It is never wider than the world, and the poles never leave the edge while they can reach."""
    for view in clamped(page, views):
        assert view["width"] / view["scale"] <= 360 * (1 + 1e-9)
        assert view["scale"] <= view["width"] / 360 * 64 * (1 + 1e-9)
        top = view["lat"] + view["height"] / 2 / view["scale"]
        if view["height"] <= 180 * view["scale"]:
            assert top - view["height"] / view["scale"] >= -90 - 1e-9
            assert top <= 90 + 1e-9
        else:
            assert view["lat"] == 0


@QUICK
@given(
    st.lists(
        st.tuples(VIEWS, st.floats(0.2, 5), st.floats(0, 1), st.floats(0, 1)),
        min_size=5,
        max_size=15,
    )
)
def test_zooming_keeps_the_longitude_under_the_pointer(
    page: Tab, given: list[tuple[View, float, float, float]]
) -> None:
    """What is under the pointer stays there; only the poles may shift it up or down."""
    views = clamped(page, [view for view, *_ in given])
    at = [
        (view, factor, x * view["width"], y * view["height"])
        for view, (_, factor, x, y) in zip(views, given, strict=True)
    ]
    closer = many(page, "projection", "zoomed", [list(arguments) for arguments in at])
    before = many(page, "projection", "unproject", [[view, x, y] for view, _, x, y in at])
    after = many(
        page,
        "projection",
        "unproject",
        [[view, x, y] for view, (_, _, x, y) in zip(closer, at, strict=True)],
    )
    for view, then, now in zip(closer, before, after, strict=True):
        assert now[1] == pytest.approx(then[1], abs=1e-6)
        reach = 90 - view["height"] / 2 / view["scale"]
        if abs(view["lat"]) < reach - 1e-9:
            assert now[0] == pytest.approx(then[0], abs=1e-6)


@QUICK
@given(st.lists(st.lists(BOXES, min_size=1, max_size=6), min_size=5, max_size=15))
def test_a_cover_has_every_box_in_some_turn(page: Tab, given: list[list[list[float]]]) -> None:
    """The box around boxes holds each, moved by whole turns, and is no wider than needed."""
    for boxes, cover in zip(
        given, many(page, "projection", "covering", [[boxes] for boxes in given]), strict=True
    ):
        west, south, east, north = cover
        assert east - west <= 360 + 1e-9
        for box in boxes:
            turn = 360 * math.ceil((west - box[0] - 1e-9) / 360)
            assert east - west >= 360 - 1e-9 or box[2] + turn <= east + 1e-6
            assert south <= box[1] <= box[3] <= north
        # What the cover would be without going around the back is never narrower.
        plain = max(box[2] for box in boxes) - min(box[0] for box in boxes)
        assert east - west <= plain + 1e-6


def test_the_cover_goes_over_the_antimeridian_where_that_is_shorter(page: Tab) -> None:
    """Two areas on both sides of 180 degrees are close to each other."""
    table = [
        ([[-10, 0, 10, 5]], [-10, 0, 10, 5]),
        ([[170, 0, 175, 5], [-175, -5, -170, 0]], [170, -5, 190, 5]),
        ([[170, 0, 190, 5], [-175, -5, -165, 0]], [170, -5, 195, 5]),
        ([[-180, -90, 180, 90]], [-180, -90, 180, 90]),
        ([[-110, 0, -100, 1], [80, 0, 100, 1]], [80, 0, 260, 1]),
    ]
    found = many(page, "projection", "covering", [[boxes] for boxes, _ in table])
    assert found == [cover for _, cover in table]


def test_fitting_shows_all_with_room_to_spare(page: Tab) -> None:
    """The corners of what is fitted are on the screen, not at its edge; nothing means the world."""
    view = one(page, "projection", "whole", 800, 400)
    fitted = one(page, "projection", "fitted", view, [[170, -20, 190, -10]])
    corners = [[-20, 170], [-10, 190]]
    turn = 360 * round((fitted["lon"] - 180) / 360)
    for lat, lon in corners:
        x, y = one(page, "projection", "project", fitted, lat, lon + turn)
        assert 20 <= x <= 780
        assert 20 <= y <= 380
    world = one(page, "projection", "fitted", fitted, [])
    assert {**world, "lon": world["lon"] % 360} == view
    point = one(page, "projection", "fitted", view, [[10, 50, 10, 50]])
    assert point["scale"] == pytest.approx(16 * 800 / 360)


def test_both_poles_can_be_seen(page: Tab) -> None:
    """On a map of any shape: by fitting what is there, and by stepping back."""
    for width, height in ((1440, 400), (1000, 200), (390, 600)):
        view = one(page, "projection", "whole", width, height)
        caps = one(page, "projection", "fitted", view, [[-10, 70, 10, 90], [0, -90, 10, -80]])
        back = one(page, "projection", "zoomed", view, 0.01)
        for seen in (caps, back):
            top, bottom = (
                one(page, "projection", "project", seen, lat, seen["lon"])[1] for lat in (90, -90)
            )
            assert top >= -1e-6
            assert bottom <= height + 1e-6


@QUICK
@given(st.lists(RINGS, min_size=5, max_size=15))
def test_a_ring_that_runs_on_has_no_long_edge(page: Tab, rings: list[list[Place]]) -> None:
    """Unwrapped, every edge is at most 180 degrees, and every corner is where it was."""
    found = many(page, "rings", "unwrapped", [[ring] for ring in rings])
    for ring, running in zip(rings, found, strict=True):
        assert all(abs(b[1] - a[1]) <= 180 + 1e-9 for a, b in pairwise(running))
        for (lat, lon), (now_lat, now_lon) in zip(ring, running, strict=True):
            assert now_lat == lat
            assert (now_lon - lon) % 360 == pytest.approx(0, abs=1e-9) or (
                now_lon - lon
            ) % 360 == pytest.approx(360, abs=1e-9)


def test_a_ring_is_shown_the_short_way_if_it_has_one(page: Tab) -> None:
    """Only what was meant to cross 180 degrees is shown so, and stays closed."""
    across = [[10, 170], [10, -170], [20, -170], [20, 170], [10, 170]]
    plain = [
        [[10, -20], [10, 20], [20, 20], [20, -20], [10, -20]],
        # As wide as the world: it has no short way, or one that nobody means.
        [[-90, -180], [-90, 180], [90, 180], [90, -180], [-90, -180]],
        [[-90, -179.5], [-90, 179.5], [90, 179.5], [90, -179.5], [-90, -179.5]],
        # Around a pole.
        [[60, 0], [60, 120], [60, -120], [60, 0]],
    ]
    shown = many(page, "rings", "displayed", [[across], *([ring] for ring in plain)])
    assert shown == [
        {"ring": [[10, 170], [10, 190], [20, 190], [20, 170], [10, 170]], "crossing": True},
        *({"ring": ring, "crossing": False} for ring in plain),
    ]


@QUICK
@given(st.lists(st.tuples(DRAWN, st.integers(2, 4)), min_size=5, max_size=15))
def test_a_drawn_ring_is_one_that_the_server_takes(
    page: Tab, given: list[tuple[list[Place], int]]
) -> None:
    """It is within the world, closed, rounded, has three corners and none twice in a row."""
    found = many(page, "rings", "finished", [list(drawn) for drawn in given])
    for (_, decimals), made in zip(given, found, strict=True):
        ring = made["ring"]
        if ring is None:
            continue
        assert len(ring) >= 4
        assert ring[0] == ring[-1]
        assert all(a != b for a, b in pairwise(ring))
        assert all(-90 <= lat <= 90 and -180 <= lon <= 180 for lat, lon in ring)
        assert all(round(value, decimals) == value for place in ring for value in place)


def test_drawn_corners_are_cut_and_closed(page: Tab) -> None:
    """A ring across 180 degrees keeps the side with more of it."""
    table: list[tuple[list[Place], list[Place] | None, bool]] = [
        # Nothing to do but closing.
        ([[0, 0], [0, 10], [10, 10]], [[0, 0], [0, 10], [10, 10], [0, 0]], False),
        # Drawn in another turn of the world.
        ([[0, 350], [0, 370], [10, 370]], [[0, -10], [0, 10], [10, 10], [0, -10]], False),
        # More of it in the west, then more in the east.
        (
            [[0, 170], [0, 185], [10, 185], [10, 170]],
            [[0, 170], [0, 180], [10, 180], [10, 170], [0, 170]],
            True,
        ),
        (
            [[0, 175], [0, 190], [10, 190], [10, 175]],
            [[0, -180], [0, -170], [10, -170], [10, -180], [0, -180]],
            True,
        ),
        # Up to 180 degrees is not across.
        ([[0, 170], [0, 180], [9, 180]], [[0, 170], [0, 180], [9, 180], [0, 170]], False),
        # Beyond the pole, and corners that fall together when rounded.
        (
            [[80, 0], [95, 0], [95, 5], [80.0001, 5], [80.0001, 5.0001]],
            [[80, 0], [90, 0], [90, 5], [80, 5], [80, 0]],
            False,
        ),
        # Too few.
        ([[0, 0], [0, 0.001], [10, 10]], None, False),
        ([], None, False),
    ]
    found = many(page, "rings", "finished", [[corners, 2] for corners, *_ in table])
    assert [made["cut"] for made in found] == [cut for *_, cut in table]
    assert [_edges(made["ring"]) for made in found] == [_edges(ring) for _, ring, _ in table]


def _edges(ring: list[Place] | None) -> set[tuple[tuple[float, ...], ...]]:
    """The edges, for it does not matter with which corner a ring begins."""
    return {(tuple(a), tuple(b)) for a, b in pairwise(ring or [])}


@QUICK
@given(st.lists(st.tuples(RINGS, LATS, LONS), min_size=5, max_size=15))
def test_inside_is_by_winding(page: Tab, given: list[tuple[list[Place], float, float]]) -> None:
    """A place is inside if the angles to it add up to a turn; places near edges may be either."""
    found = many(page, "rings", "inside", [list(arguments) for arguments in given])
    for (ring, lat, lon), is_inside in zip(given, found, strict=True):
        turned, clear = 0.0, True
        for a, b in pairwise(ring):
            first = math.atan2(a[0] - lat, a[1] - lon)
            swing = (math.atan2(b[0] - lat, b[1] - lon) - first + math.pi) % math.tau - math.pi
            turned += swing
            clear = clear and abs(swing) < math.pi - 1e-3 and math.dist(a, (lat, lon)) > 1e-6
        if clear:
            assert is_inside is (round(turned / math.tau) != 0)


def test_crossings_are_found(page: Tab) -> None:
    """A bow tie crosses itself; a box does not; of a very long ring nobody knows."""
    bow = [[0, 0], [10, 10], [10, 0], [0, 10], [0, 0]]
    box = [[0, 0], [0, 10], [10, 10], [10, 0], [0, 0]]
    long = [[0, i / 10] for i in range(300)] + [[1, 0], [0, 0]]
    found = many(page, "rings", "mayCross", [[bow], [box], [long]])
    assert found == [True, False, True]


def test_lines_are_closer_the_closer_one_looks(page: Tab) -> None:
    """There is always room for the names between two lines."""
    table = {1: 90, 1.1: 60, 4: 30, 7: 10, 15: 5, 64: 1, 250: 1}
    found = many(page, "graticule", "stepAt", [[scale] for scale in table])
    assert found == list(table.values())


def test_lines_have_names(page: Tab) -> None:
    """Degrees with their side, in every turn of the world; none at the lines without sides."""
    lons = many(page, "graticule", "nameOfLongitude", [[v] for v in (-30, 0, 180, 190, -540, 390)])
    assert lons == ["30°W", "0°", "180°", "170°W", "180°", "30°E"]
    lats = many(page, "graticule", "nameOfLatitude", [[v] for v in (-30, 0, 5)])
    assert lats == ["30°S", "0°", "5°N"]
    assert one(page, "graticule", "multiples", -31, 30, 30) == [-30, 0, 30]
