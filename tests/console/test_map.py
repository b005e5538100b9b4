"""The map in a browser, under the page's strict policy: what is drawn, chosen and handed out.

The host is 720 by 360 pixels, so that the whole world has two pixels to a degree and the place of
every pixel is known. Drawing a point tells the place below a pixel, whatever the map shows.
"""

from typing import Any

import pytest
from support.browser import Tab
from support.process import ServerProcess

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Map</title>
<link rel="stylesheet" href="/static/console/map/map.css"><body></body></html>"""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
MOUNT = """async (world) => {
  const { WorldMap } = await import("/static/console/map/map.js");
  const { loadWorld } = await import("/static/console/map/world.js");
  const host = document.createElement("div");
  host.style.width = "720px";
  host.style.height = "360px";
  document.body.append(host);
  const map = new WorldMap(host, { label: "Areas", world });
  window.heard = { picked: [], hovered: [], drawn: [], said: [] };
  map.onpick = (id) => window.heard.picked.push(id);
  map.onhover = (id) => window.heard.hovered.push(id);
  map.ondrawn = (drawn) => window.heard.drawn.push(drawn);
  map.onmessage = (text) => window.heard.said.push(text);
  window.map = map;
  await loadWorld(world).catch(() => {});
}"""
FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
PIXEL = """([x, y]) => {
  // A copy is read, since reading the map's own canvas would make it a slow one.
  const copy = new OffscreenCanvas(720, 360).getContext("2d", { willReadFrequently: true });
  copy.drawImage(document.querySelector("canvas"), 0, 0);
  return [...copy.getImageData(x, y, 1, 1).data];
}"""
BOX = [[0, 0], [0, 20], [20, 20], [20, 0], [0, 0]]


class Map:
    """A map on a page of its own."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.page = tab.page
        self.canvas = self.page.locator("canvas")

    def call(self, code: str, given: object = None) -> Any:
        """Run a method of the map and wait until it is painted."""
        answer = self.page.evaluate(f"(given) => window.map.{code}", given)
        self.page.evaluate(FRAME)
        return answer

    def add(self, **shapes: object) -> None:
        """Add polygons by their ids."""
        self.call("add(given)", [{"id": name, "polygon": ring} for name, ring in shapes.items()])

    def heard(self, what: str) -> list[Any]:
        """What the map told since the last time."""
        found: list[Any] = self.page.evaluate("(what) => window.heard[what].splice(0)", what)
        return found

    def click(self, x: float, y: float, **how: Any) -> None:
        """Click on a pixel of the map."""
        self.canvas.click(position={"x": x, "y": y}, **how)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press, move in a few steps and let go."""
        box = self.canvas.bounding_box()
        assert box
        self.page.mouse.move(box["x"] + start[0], box["y"] + start[1])
        self.page.mouse.down()
        self.page.mouse.move(box["x"] + end[0], box["y"] + end[1], steps=4)
        self.page.mouse.up()

    def press(self, *keys: str) -> None:
        """Press keys on the map."""
        for key in keys:
            self.canvas.press(key)

    def place(self, x: float, y: float) -> list[float]:
        """The place below a pixel."""
        self.call('draw("point")')
        self.click(x, y)
        (drawn,) = self.heard("drawn")
        found: list[float] = drawn["point"]
        return found

    def pixel(self, x: float, y: float) -> list[int]:
        """The colour of a pixel."""
        self.page.evaluate(FRAME)
        found: list[int] = self.page.evaluate(PIXEL, [x, y])
        return found


@pytest.fixture
def at(fresh: Tab, server: ServerProcess) -> Map:
    """A map of the whole world."""
    address = f"{server.url}/map-alone"
    headers = {"Content-Type": "text/html", "Content-Security-Policy": POLICY}
    fresh.page.route(address, lambda route: route.fulfill(body=PAGE, headers=headers))
    fresh.page.goto(address)
    fresh.page.evaluate(MOUNT, "/static/console/world.json")
    fresh.page.evaluate(FRAME)
    return Map(fresh)


def closed(corners: list[list[float]]) -> list[list[float]]:
    """A ring of these corners."""
    return [*corners, corners[0]]


# What is there


def test_the_newest_thousand_are_drawn(at: Map) -> None:
    """Older shapes are counted, not drawn; what was removed is neither."""
    shapes = [{"id": str(number), "polygon": BOX} for number in range(1500)]
    at.call("add(given)", shapes[:700])
    assert (at.call("shown"), at.call("total")) == (700, 700)
    at.call("add(given)", shapes[700:])
    assert (at.call("shown"), at.call("total")) == (1000, 1500)
    assert at.page.locator(".map-summary").text_content() == (
        "The newest 1,000 of 1,500 areas on the map"
    )
    at.click(370, 170)
    assert at.heard("picked") == ["1499"]
    at.call("remove(given)", ["0", "1499", "not there"])
    assert (at.call("shown"), at.call("total")) == (999, 1498)
    at.call("add(given)", [shapes[1498]])
    assert (at.call("shown"), at.call("total")) == (999, 1498)
    at.call("clear()")
    assert (at.call("shown"), at.call("total")) == (0, 0)
    assert at.page.locator(".map-summary").text_content() == "0 areas on the map"


def test_more_than_a_cap_at_once_keeps_the_newest(at: Map) -> None:
    """A long history in one go is bounded like the same one by one."""
    at.call("add(given)", [{"id": str(number), "polygon": BOX} for number in range(2500)])
    assert (at.call("shown"), at.call("total")) == (1000, 2500)
    at.click(370, 170)
    assert at.heard("picked") == ["2499"]


def test_points_are_bounded_too(at: Map) -> None:
    """Clouds with very many points leave room for fewer shapes; the newest is always there."""
    code = """add(Array.from({ length: 30 }, (_, id) => ({ id: String(id),
      points: Array.from({ length: 10_000 }, (_, i) => [i / 200, i / 100]) })))"""
    at.call(code)
    assert (at.call("shown"), at.call("total")) == (20, 30)
    at.call('add([{ id: "huge", points: Array.from({ length: 300_000 }, () => [-10, -10]) }])')
    assert (at.call("shown"), at.call("total")) == (1, 31)


def test_what_has_no_place_is_left_out(at: Map) -> None:
    """Whatever a producer sends, the map goes on."""
    geometries: list[dict[str, object]] = [
        {},
        {"polygon": []},
        {"polygon": None, "points": []},
        {"polygon": [[0, 0], ["x", 1], [1, 1], [0, 0]]},
        {"polygon": [[0, 0], None, [1, 1], [0, 0]]},
        {"points": [[None, 1], "text", []]},
        {"polygon": BOX},
    ]
    at.call("add(given)", [{"id": str(n), **given} for n, given in enumerate(geometries)])
    assert at.call("shown") == 1
    at.click(370, 170)
    assert at.heard("picked") == ["6"]


def test_the_map_is_seen_in_colours_of_the_style_sheet(at: Map) -> None:
    """Sea, land and shapes have theirs; new ones are taken when the map is told."""
    sea, land = at.pixel(130, 210), at.pixel(400, 150)
    assert sea[:3] == [0xE3, 0xEC, 0xF3]
    assert land[:3] == [0xFB, 0xFA, 0xF7]
    at.page.evaluate(
        """() => {
          const host = document.querySelector(".world-map");
          host.style.setProperty("--map-sea", "rgb(1 2 3)");
          host.style.setProperty("--map-land", "color-mix(in srgb, red, red)");
        }"""
    )
    assert at.pixel(130, 210) == sea
    at.call("refreshTheme()")
    assert at.pixel(130, 210)[:3] == [1, 2, 3]
    assert at.pixel(400, 150)[:3] == [255, 0, 0]


def test_a_highlight_is_in_front(at: Map) -> None:
    """The outline of the marked shape is hot, though a newer shape covers it."""
    at.add(old=BOX, new=BOX)
    before = at.pixel(380, 140)
    at.call('highlight("old")')
    assert at.pixel(380, 140)[:3] == [0xE8, 0x59, 0x0C]
    at.call("highlight(null)")
    assert at.pixel(380, 140) == before


def test_points_are_seen(at: Map) -> None:
    """A point is a dot in the colour of shapes, and hot when it is marked."""
    at.call('add([{ id: "cloud", points: [[-20, -120], [-40, -100]] }])')
    assert at.pixel(120, 220)[:3] == [0x14, 0x54, 0x8F]
    assert at.pixel(160, 260)[:3] == [0x14, 0x54, 0x8F]
    at.call('highlight("cloud")')
    assert at.pixel(120, 220)[:3] == [0xE8, 0x59, 0x0C]


def test_many_shapes_over_each_other_leave_the_map_readable(at: Map) -> None:
    """A hundred areas of either direction fill as one; a ring across itself leaves no hole."""
    ring = [[-50, -140], [-50, -100], [-30, -100], [-30, -140], [-50, -140]]
    bow = [[-50, -140], [-30, -100], [-50, -100], [-30, -140], [-50, -140]]
    west, east = (100, 260), (140, 260)
    sea = at.pixel(*west)
    at.add(one=ring)
    alone = at.pixel(*west)
    assert alone != sea
    at.call("clear()")
    at.add(**{f"a{n}": ring if n % 2 else ring[::-1] for n in range(90)})
    assert at.pixel(*west) == alone
    at.add(bow=bow)
    assert at.pixel(*west)[0] < alone[0]
    assert at.pixel(*east)[0] < alone[0]


def test_something_new_glows_for_a_while(at: Map) -> None:
    """The outline is hot first and fades to what it is; readers who want no motion see none."""
    at.add(calm=BOX)
    calm = at.pixel(380, 140)
    at.call("clear()")
    at.page.emulate_media(reduced_motion="no-preference")
    hot, later, over = at.page.evaluate(
        f"""async (ring) => {{
          const calmer = matchMedia("(prefers-reduced-motion: reduce)");
          while (calmer.matches) await new Promise(requestAnimationFrame);
          // A page that stands still for a second would never be seen to glow: its time is ours.
          const clock = performance.now, frame = requestAnimationFrame, began = performance.now();
          let age = 0;
          performance.now = () => began + age;
          globalThis.requestAnimationFrame = (paint) => frame(() => paint(began + age));
          const seen = [];
          try {{
            window.map.add([{{ id: "new", polygon: ring }}]);
            for (age of [0, 750, 1500]) {{
              await new Promise(requestAnimationFrame);
              await new Promise(requestAnimationFrame);
              seen.push(({PIXEL})([380, 140]));
            }}
          }} finally {{
            performance.now = clock;
            globalThis.requestAnimationFrame = frame;
          }}
          return seen;
        }}""",
        BOX,
    )
    assert hot[0] > 150
    assert hot[2] < 100
    assert hot[0] > later[0] > over[0]
    assert over == calm


def test_the_world_is_not_painted_anew_while_something_glows(at: Map) -> None:
    """A hundred shapes in two seconds: the coasts of the world are drawn a few times a second."""
    at.page.emulate_media(reduced_motion="no-preference")
    painted, frames = at.page.evaluate(
        """async (ring) => {
          const calmer = matchMedia("(prefers-reduced-motion: reduce)");
          while (calmer.matches) await new Promise(requestAnimationFrame);
          const clock = performance.now, frame = requestAnimationFrame, began = performance.now();
          const { drawImage, fillRect } = CanvasRenderingContext2D.prototype;
          let age = 0, grounds = 0, pictures = 0;
          performance.now = () => began + age;
          globalThis.requestAnimationFrame = (paint) => frame(() => paint(began + age));
          CanvasRenderingContext2D.prototype.fillRect = function (...given) {
            grounds += 1; // the sea, once for every painting of the ground
            return fillRect.apply(this, given);
          };
          CanvasRenderingContext2D.prototype.drawImage = function (...given) {
            pictures += 1;
            return drawImage.apply(this, given);
          };
          try {
            for (age = 0; age < 2000; age += 20) {
              window.map.add([{ id: `new ${age}`, polygon: ring }]);
              await new Promise(requestAnimationFrame);
            }
          } finally {
            performance.now = clock;
            globalThis.requestAnimationFrame = frame;
            Object.assign(CanvasRenderingContext2D.prototype, { drawImage, fillRect });
          }
          return [grounds, pictures];
        }""",
        BOX,
    )
    assert 1 <= painted <= 9
    assert painted < frames <= 41


def test_without_coastlines_the_map_still_works(fresh: Tab, server: ServerProcess) -> None:
    """It says so, and everything else is there."""
    fresh.expected.append("404")
    address = f"{server.url}/map-alone"
    fresh.page.route(address, lambda route: route.fulfill(body=PAGE, content_type="text/html"))
    fresh.page.goto(address)
    fresh.page.evaluate(MOUNT, "/static/console/none.json")
    without = Map(fresh)
    without.add(a=BOX)
    assert without.heard("said") == [
        "The coastlines could not be loaded; the map works without them."
    ]
    without.click(370, 170)
    assert without.heard("picked") == ["a"]


# Choosing


def test_a_click_takes_the_shape_below(at: Map) -> None:
    """The one there, the newest first; more clicks go down and around; none where there is none."""
    ground = at.pixel(390, 140)
    at.add(a=BOX, b=[[10, 10], [10, 30], [30, 30], [30, 10], [10, 10]])
    at.click(370, 170)
    assert at.heard("picked") == ["a"]
    for _ in range(3):
        at.click(390, 150)
    assert at.heard("picked") == ["b", "a", "b"]
    at.click(200, 300)
    assert at.heard("picked") == []
    # Added again it is the newest, and there only once.
    at.add(a=BOX)
    at.click(384, 156)
    assert at.heard("picked") == ["a"]
    at.call('remove(["a", "b"])')
    assert at.pixel(390, 140) == ground


def test_points_and_thin_areas_can_be_taken(at: Map) -> None:
    """A few pixels beside a point or a line still count."""
    at.call('add([{ id: "cloud", points: [[0, 0], [-40, -100]] }])')
    at.add(line=[[30, 30], [30, 60], [30, 30], [30, 30]])
    at.click(163, 262)
    at.click(450, 123)
    assert at.heard("picked") == ["cloud", "line"]


def test_the_world_repeats(at: Map) -> None:
    """Beyond 180 degrees it goes on: the same shapes are there, and can be taken there."""
    at.add(a=BOX)
    at.call('add([{ id: "cloud", points: [[-30, -20]] }])')
    shape, dot = at.pixel(370, 170), at.pixel(320, 240)
    at.drag((100, 150), (700, 150))
    assert at.place(360, 180) == [0, 60]
    assert (at.pixel(250, 170), at.pixel(200, 240)) == (shape, dot)
    at.click(250, 170)
    at.click(200, 240)
    assert at.heard("picked") == ["a", "cloud"]
    at.drag((700, 150), (100, 150))
    at.drag((700, 150), (100, 150))
    assert at.place(360, 180) == [0, -60]
    assert (at.pixel(490, 170), at.pixel(440, 240)) == (shape, dot)
    at.click(490, 170)
    at.click(440, 240)
    assert at.heard("picked") == ["a", "cloud"]


def test_a_ring_across_the_antimeridian_is_shown_the_short_way(at: Map) -> None:
    """It can be taken on both sides of 180 degrees and not in between."""
    at.add(fiji=[[-10, 170], [-10, -170], [-25, -170], [-25, 170], [-10, 170]])
    at.click(710, 210)
    at.click(10, 210)
    at.click(360, 210)
    assert at.heard("picked") == ["fiji", "fiji"]
    at.call('fit(["fiji"])')
    at.click(360, 180)
    assert at.heard("picked") == ["fiji"]


def test_what_is_below_the_pointer_is_reported(at: Map) -> None:
    """Once when the pointer comes and once when it leaves."""
    at.add(a=BOX)
    for x, y in [(200, 300), (370, 170), (375, 165), (200, 300)]:
        at.canvas.hover(position={"x": x, "y": y})
    assert at.heard("hovered") == ["a", None]


def test_the_wheel_zooms_where_the_pointer_is(at: Map) -> None:
    """The place below the pointer stays, and the map is closer."""
    at.canvas.hover(position={"x": 460, "y": 130})
    at.page.mouse.wheel(0, -400)
    at.page.evaluate(FRAME)
    assert at.place(460, 130) == pytest.approx([25, 50], abs=0.01)
    assert at.place(360, 180)[1] > 15
    at.canvas.hover(position={"x": 460, "y": 130})
    at.page.mouse.wheel(0, 9000)
    at.page.evaluate(FRAME)
    assert at.place(360, 180)[0] == 0


def test_buttons_keys_and_double_clicks_move_the_map(at: Map) -> None:
    """All ways to get closer, farther and back do the same."""
    at.page.get_by_role("button", name="Zoom in").click()
    assert at.place(480, 90) == pytest.approx([22.5, 30])
    at.page.get_by_role("button", name="Zoom out").click()
    assert at.place(480, 90) == pytest.approx([45, 60])
    at.click(480, 90, click_count=2)
    assert at.place(480, 90) == pytest.approx([45, 60])
    assert at.place(360, 180) == pytest.approx([22.5, 30])
    at.press("0")
    assert at.place(480, 90) == pytest.approx([45, 60])
    at.press("+", "ArrowRight", "ArrowUp")
    assert at.place(360, 180) == pytest.approx([15, 15])
    at.press("-", "ArrowLeft")
    assert at.place(360, 180)[1] == pytest.approx(-15)


def test_fitting_all_shows_shapes_and_the_area(at: Map) -> None:
    """With something there it is shown; with nothing the whole world."""
    at.add(a=BOX)
    at.page.get_by_role("button", name="Show everything").click()
    assert at.place(360, 180) == pytest.approx([10, 10], abs=0.01)
    at.call("setArea(given)", {"polygon": closed([[-20, -40], [-20, 0], [0, 0]])})
    at.call("fit()")
    assert at.place(360, 180) == pytest.approx([0, -10], abs=0.01)
    at.call("clear()")
    at.call("setArea(null)")
    at.call("fit()")
    assert at.place(0, 0) == [90, -180]


def test_a_key_takes_what_is_in_the_middle(at: Map) -> None:
    """Without a pointer: a cross in the middle, and Enter for what is below it."""
    at.add(a=[[-10, -10], [-10, 10], [10, 10], [10, -10], [-10, -10]])
    plain = at.pixel(360, 172)
    at.press("Enter")
    assert at.heard("picked") == ["a"]
    assert at.pixel(360, 172) != plain


# Drawing


def test_an_area_is_drawn_by_clicks(at: Map) -> None:
    """Corners are where the clicks were; the first one, a double click, Enter or a button ends."""
    expected = {"polygon": closed([[0, 0], [0, 30], [30, 30]])}
    hint = at.page.locator(".map-hint")

    def corners() -> None:
        at.call('draw("polygon")')
        assert hint.is_visible()
        at.click(360, 180)
        at.click(420, 180)

    corners()
    at.click(420, 120, click_count=2)
    corners()
    at.click(420, 120)
    at.click(362, 183)
    corners()
    at.click(420, 120)
    at.press("Enter")
    corners()
    at.click(420, 120)
    at.click(100, 300)
    at.page.get_by_role("button", name="Undo").click()
    at.page.get_by_role("button", name="Finish").click()
    assert at.heard("drawn") == [expected] * 4
    assert at.heard("picked") == []
    assert hint.is_hidden()
    # The button that had the focus is gone; the focus is not.
    assert at.canvas.evaluate("(canvas) => document.activeElement === canvas")


def test_a_box_is_drawn_with_shift(at: Map) -> None:
    """From corner to corner; without Shift the same drag pans."""
    at.call('draw("polygon")')
    at.page.keyboard.down("Shift")
    at.drag((420, 180), (360, 120))
    at.page.keyboard.up("Shift")
    assert at.heard("drawn") == [{"polygon": closed([[0, 0], [0, 30], [30, 30], [30, 0]])}]
    at.call('draw("polygon")')
    at.drag((420, 180), (360, 180))
    at.press("Escape")
    assert at.heard("drawn") == []
    assert at.place(360, 180) == [0, 30]


def test_an_area_is_drawn_by_keys(at: Map) -> None:
    """Space sets a corner in the middle, arrows move the world, Backspace takes back."""
    at.press("+")
    at.call('draw("polygon")')
    hint = at.page.locator(".map-hint")
    at.press("Space", "ArrowRight")
    # A line leads from the corner to where the next one would be.
    line = [at.pixel(x, 180)[:3] for x in range(310, 340)]
    assert [0x86, 0x2E, 0x9C] in line
    at.press("Space", "ArrowUp", "Space", "ArrowUp", "Space", "Backspace")
    assert "Space sets a corner" in (hint.text_content() or "")
    at.press("Enter")
    assert at.heard("drawn") == [{"polygon": closed([[0, 0], [0, 15], [15, 15]])}]
    at.call('draw("point")')
    at.press("ArrowLeft", "Shift+ArrowDown", "Space")
    assert at.heard("drawn") == [{"point": [28.5, 0]}]


def test_too_few_corners_are_not_an_area(at: Map) -> None:
    """Nothing is handed out, the reader is told, and can go on."""
    at.call('draw("polygon")')
    at.press("Space", "Enter")
    assert at.heard("said") == ["An area needs at least three corners."]
    at.click(420, 180)
    at.click(420, 120)
    at.press("Enter")
    assert at.heard("drawn") == [{"polygon": closed([[0, 0], [0, 30], [30, 30]])}]


@pytest.mark.parametrize("way", ["Escape", "Cancel", "draw(null)"])
def test_drawing_can_be_given_up(at: Map, way: str) -> None:
    """By key, by button or by the page; clicks choose again."""
    at.add(a=BOX)
    at.call('draw("polygon")')
    at.click(370, 170)
    at.click(390, 170)
    match way:
        case "Escape":
            at.press("Escape")
        case "Cancel":
            at.page.get_by_role("button", name="Cancel").click()
        case _:
            at.call(way)
    assert at.page.locator(".map-hint").is_hidden()
    at.click(370, 170)
    assert at.heard("drawn") == []
    assert at.heard("picked") == ["a"]


def test_an_area_across_the_antimeridian_is_cut(at: Map) -> None:
    """The larger side is kept, since the server does not match across, and the reader is told."""
    at.drag((400, 180), (60, 180))
    assert at.place(360, 180) == [0, 170]
    at.call('draw("polygon")')
    for x, y in [(340, 180), (440, 180), (440, 140), (340, 140)]:
        at.click(x, y)
    at.press("Enter")
    (drawn,) = at.heard("drawn")
    assert sorted(drawn["polygon"][:-1]) == [[0, -180], [0, -150], [20, -180], [20, -150]]
    (said,) = at.heard("said")
    assert said.startswith("The area crossed 180° and was cut there")


def test_a_wide_area_is_drawn_as_it_looks(at: Map) -> None:
    """An edge of more than half the world goes where it was drawn, not around the back."""
    at.call('draw("polygon")')
    for x, y in [(20, 200), (700, 200), (700, 140)]:
        at.click(x, y)
    at.press("Enter")
    assert at.heard("drawn") == [{"polygon": closed([[-10, -170], [-10, 170], [20, 170]])}]


def test_corners_of_the_area_can_be_dragged(at: Map) -> None:
    """The new area is handed out; the map does not pan; in another turn of the world as well."""
    area = {"polygon": closed([[0, 0], [0, 30], [30, 30], [30, 0]])}
    at.call("setArea(given)", area)
    at.drag((422, 121), (440, 100))
    assert at.heard("drawn") == [{"polygon": closed([[0, 0], [0, 30], [40, 40], [30, 0]])}]
    assert at.place(360, 180) == [0, 0]
    at.drag((100, 300), (700, 300))
    at.drag((240, 180), (220, 200))
    assert at.heard("drawn") == [{"polygon": closed([[-10, -10], [0, 30], [40, 40], [30, 0]])}]
    at.call("setArea(given)", {"point": [0, 0]})
    at.drag((240, 180), (260, 180))
    assert at.heard("drawn") == [{"point": [0, 10]}]


def test_a_corner_dragged_onto_another_is_put_back(at: Map) -> None:
    """What would be no area any more is not handed out."""
    at.call("setArea(given)", {"polygon": closed([[0, 0], [0, 30], [30, 30]])})
    at.drag((420, 120), (420, 180))
    assert at.heard("drawn") == []
    assert at.heard("said") == ["An area needs at least three corners."]
    at.drag((420, 120), (420, 140))
    assert at.heard("drawn") == [{"polygon": closed([[0, 0], [0, 30], [20, 30]])}]


def test_the_closer_the_finer(at: Map) -> None:
    """Drawn places have as many decimals as a pixel is worth."""
    assert at.place(361, 181) == [-0.5, 0.5]
    at.press(*["+"] * 6)
    assert at.place(361, 181) == [-0.0078, 0.0078]


# Sizes and ends


def test_the_map_follows_the_size_of_its_host(at: Map) -> None:
    """The canvas grows with it and the middle stays; a hidden map takes up where it was."""
    at.press("+", "ArrowRight")
    assert at.place(360, 180) == [0, 15]
    host = at.page.locator(".world-map")
    host.evaluate("(host) => { host.style.width = '400px'; host.style.height = '300px'; }")
    at.page.evaluate(FRAME)
    assert at.canvas.evaluate("(canvas) => [canvas.width, canvas.height]") == [400, 300]
    assert at.place(200, 150) == [0, 15]
    host.evaluate("(host) => { host.style.display = 'none'; }")
    at.page.evaluate(FRAME)
    at.add(a=BOX)
    host.evaluate("(host) => { host.style.display = ''; }")
    at.page.evaluate(FRAME)
    assert at.place(200, 150) == [0, 15]


def test_two_fingers_zoom(at: Map) -> None:
    """Apart is closer, about the middle between them; one finger pans."""
    touch = Fingers(at)
    touch.move([[(360, 180), (400, 180)], [(340, 180), (420, 180)]])
    at.page.evaluate(FRAME)
    assert at.place(380, 180) == pytest.approx([0, 10], abs=0.6)
    assert at.place(460, 180)[1] == pytest.approx(10 + 80 / 4, abs=1)
    touch.move([[(300, 300)], [(320, 300)], [(340, 300)]])
    at.page.evaluate(FRAME)
    assert at.place(420, 180) == pytest.approx([0, 10], abs=0.6)


class Fingers:
    """Touches on the map, through the browser's own protocol."""

    def __init__(self, at: Map) -> None:
        self._session = at.tab.context.new_cdp_session(at.page)
        box = at.canvas.bounding_box()
        assert box
        self._corner = (box["x"], box["y"])

    def move(self, steps: list[list[tuple[float, float]]]) -> None:
        """Put fingers down at the first places, move them through the others, lift them."""
        for number, places in enumerate(steps):
            self._send("touchMove" if number else "touchStart", places)
        self._send("touchEnd", [])

    def _send(self, kind: str, places: list[tuple[float, float]]) -> None:
        left, top = self._corner
        points = [{"x": left + x, "y": top + y, "id": n} for n, (x, y) in enumerate(places)]
        self._session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def test_a_map_that_is_not_needed_any_more_leaves_nothing(at: Map) -> None:
    """The host is empty, and late news does no harm."""
    at.call("destroy()")
    at.add(a=BOX)
    at.call("highlight('a')")
    assert at.page.locator("div").count() == 1
    assert at.page.locator("div > *").count() == 0


def test_a_screen_reader_is_told(at: Map) -> None:
    """The map has a name, a summary and a live line; its buttons say what they do."""
    assert at.page.get_by_role("application", name="Areas").count() == 1
    at.add(a=BOX)
    summary = at.page.locator(f"#{at.canvas.get_attribute('aria-describedby')}")
    assert summary.text_content() == "1 area on the map"
    assert at.page.get_by_role("button").all_text_contents() == ["+", "−", "⤢"]
    assert at.page.locator("[aria-live=polite]").text_content() == ""
    at.call('draw("point")')
    assert "sets the point" in (at.page.locator("[aria-live=polite]").text_content() or "")


def test_many_points_are_drawn_at_once(at: Map) -> None:
    """A hundred thousand points take a few drawing calls a frame, and look as a few points do."""
    at.call('add([{ id: "few", points: [[-20, -120], [-40, -100], [-90, 0], [-60, 180]] }])')
    places = [(120, 220), (123, 220), (160, 260), (360, 359), (0, 300), (719, 300), (140, 240)]
    few = [at.pixel(*place) for place in places]
    at.call("clear()")
    at.page.evaluate("""() => {
      window.calls = 0;
      const draw = CanvasRenderingContext2D.prototype.drawImage;
      CanvasRenderingContext2D.prototype.drawImage = function (...given) {
        window.calls += 1;
        draw.apply(this, given);
      };
    }""")
    at.call("""add([{ id: "many", points: Array.from({ length: 100_000 }, (_, i) => [
      [-20, -120], [-40, -100], [-90, 0], [-60, 180], [(i * 7) % 60, (i * 13) % 170],
    ][i % 5]) }])""")
    at.call("highlight(null)")
    assert 0 < at.page.evaluate("window.calls") < 50
    assert [at.pixel(*place) for place in places] == few
