"""Pictures as SVG: a soak second by second, and servers side by side."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from markupsafe import Markup

from aviso_server.pipeline.report.charts import WIDTH, Frame, curves
from aviso_server.pipeline.report.markup import tag
from aviso_server.pipeline.report.scale import count, time_ticks

HEIGHT = 190
"""Of a panel."""
_TITLE = 30
_BAR = 22
_NAMES, _NUMBERS = 170, 70
"""Room beside bars."""
_STYLE = """
svg { font: 12px system-ui, sans-serif; }
.paper { fill: #fff; } .axis { fill: #6b7280; } .end { text-anchor: end; }
.title { font-size: 14px; fill: #111827; white-space: pre; }
.grid { stroke: #e5e7eb; fill: none; }
.l1, .l2, .l3 { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.l1 { stroke: #2563eb; } .l2 { stroke: #dc2626; } .l3 { stroke: #059669; }
.others { fill: #9ca3af; }
.f1 { fill: #2563eb; } .f2 { fill: #dc2626; } .f3 { fill: #059669; }
"""


@dataclass(slots=True)
class Track:
    """What was seen, by panel and by name, with the time of each look."""

    began_at: float = field(default_factory=monotonic)
    panels: dict[str, dict[str, list[tuple[float, float]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def note(self, panel: str, name: str, value: float, *, at: float | None = None) -> None:
        """Note a value, of now unless said otherwise."""
        now = monotonic() if at is None else at
        self.panels[panel][name].append((now - self.began_at, value))

    def most(self, panel: str, name: str) -> float:
        """The highest value; 0 of nothing."""
        return max((value for _, value in self.panels[panel][name]), default=0.0)

    def draw(self, path: Path) -> None:
        """Write the picture."""
        drawn = [self._panel(name, place) for place, name in enumerate(self.panels)]
        _write(path, drawn, len(drawn) * (HEIGHT + _TITLE) + 8)

    def _panel(self, name: str, place: int) -> Markup:
        series = self.panels[name]
        end = max(
            (at for panel in self.panels.values() for line in panel.values() for at, _ in line),
            default=1,
        )
        scale = time_ticks(end)
        marks = [(at / end, f"{at:.0f} s") for at in scale if at <= end * 0.97]
        frame = Frame(
            HEIGHT, marks, lambda value: count(value) if value >= 1 else f"{value:g}", name
        )
        shares = [[(max(0.0, at) / end, value) for at, value in line] for line in series.values()]
        top = place * (HEIGHT + _TITLE)
        plot = tag("svg", curves(shares, frame), x=0, y=top + _TITLE, width=WIDTH, height=HEIGHT)
        return _title(name, list(series), top + 20) + plot


def growth(panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]], path: Path) -> None:
    """Write a picture of values by size, panel below panel; each size is as far from the next."""
    drawn = []
    for place, (name, series) in enumerate(panels.items()):
        sizes = sorted({size for line in series.values() for size, _ in line})
        share = {size: 0.04 + 0.9 * n / max(1, len(sizes) - 1) for n, size in enumerate(sizes)}
        marks = [(share[size], count(size)) for size in sizes]
        frame = Frame(HEIGHT, marks, lambda value: f"{value:g}", name)
        shares = [[(share[size], value) for size, value in line] for line in series.values()]
        top = place * (HEIGHT + _TITLE)
        plot = tag("svg", curves(shares, frame), x=0, y=top + _TITLE, width=WIDTH, height=HEIGHT)
        drawn.append(_title(name, list(series), top + 20) + plot)
    _write(path, drawn, len(drawn) * (HEIGHT + _TITLE) + 8)


def bars(panels: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Write a picture of values by name, panel below panel, each with a scale of its own."""
    drawn, y = [], 0
    for title, values in panels.items():
        drawn.append(tag("text", title, x=4, y=y + 20, class_="title"))
        y += _TITLE
        most = max(values.values())
        for place, (name, value) in enumerate(values.items()):
            width = (WIDTH - _NAMES - _NUMBERS) * value / most
            drawn += [
                tag("text", name, x=_NAMES - 8, y=y + 13, class_="axis end"),
                tag(
                    "rect",
                    x=_NAMES,
                    y=y,
                    width=max(width, 1.0),
                    height=_BAR - 5,
                    class_=_fill(place),
                ),
                tag("text", count(value), x=_NAMES + width + 6, y=y + 13, class_="axis"),
            ]
            y += _BAR
    _write(path, drawn, y + 8)


def _fill(place: int) -> str:
    """The first is the one that others are compared with."""
    return "f1" if place == 0 else "others"


def _write(path: Path, drawn: list[Markup], height: int) -> None:
    whole = tag(
        "svg",
        tag("style", Markup(_STYLE)),  # noqa: S704 - ours
        tag("rect", width="100%", height="100%", class_="paper"),
        drawn,
        xmlns="http://www.w3.org/2000/svg",
        view_box=f"0 0 {WIDTH} {height}",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(whole + "\n")


def _title(name: str, series: Sequence[str], y: int) -> Markup:
    """The panel's name and, in their colours, those of its lines."""
    words = [tag("tspan", name)]
    if len(series) > 1:
        words += [tag("tspan", f"   {each}", class_=f"f{n}") for n, each in enumerate(series, 1)]
    return tag("text", words, x=66, y=y, class_="title")
