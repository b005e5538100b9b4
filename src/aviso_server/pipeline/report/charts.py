"""Plots as inline SVG, drawn with classes so that the page's style decides their colours. Pure.

matplotlib writes SVG too, but with the colours in it, while this page is light or dark as its
reader is, and without titles to point at; and nothing else in the pipeline needs it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from aviso_server.pipeline.report.markup import tag
from aviso_server.pipeline.report.scale import ticks, time_ticks

WIDTH = 1080
_LEFT, _TOP, _BOTTOM = 66, 10, 26

Shown = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Frame:
    """The axes of a plot."""

    height: int
    marks: Sequence[tuple[float, str]]
    """Labels below, by position from 0 to 1."""
    shown: Shown
    """How a value of the vertical axis is written."""
    label: str
    """For those who cannot see it."""

    def x(self, share: float) -> float:
        """Horizontal position of a share of the width."""
        return _LEFT + share * (WIDTH - _LEFT)

    def y(self, value: float, top: float) -> float:
        """Vertical position of a value."""
        inner = self.height - _TOP - _BOTTOM
        return _TOP + inner * (1 - value / top)


def stacked(series: Mapping[str, Sequence[float]], frame: Frame, titles: Sequence[str]) -> Markup:
    """Bars, one for each position, of series on top of each other; colours by order."""
    count = len(titles)
    totals = [sum(values[n] for values in series.values()) for n in range(count)]
    lines = ticks(max(totals, default=0))
    width = (WIDTH - _LEFT) / max(count, 1)
    gap = min(2.0, width * 0.18)
    bars: list[Markup] = []
    for n in range(count):
        base = 0.0
        parts = []
        for number, values in enumerate(series.values()):
            if not values[n]:
                continue
            low, high = frame.y(base, lines[-1]), frame.y(base + values[n], lines[-1])
            base += values[n]
            parts.append(
                tag(
                    "rect",
                    x=frame.x(n / count) + gap / 2,
                    y=high,
                    width=max(width - gap, 0.5),
                    height=max(low - high, 0.3),
                    class_=f"f{number + 1}",
                )
            )
        if parts:
            bars.append(tag("g", tag("title", titles[n]), parts))
    return _plot(frame, lines, bars)


def band(
    low: Sequence[float | None],
    middle: Sequence[float | None],
    high: Sequence[float | None],
    frame: Frame,
) -> Markup:
    """Seconds: a line, a band from it up to a second line, and a third line above."""
    known = [value for value in (*low, *middle, *high) if value is not None]
    lines = time_ticks(max(known, default=0))
    count = len(low)

    def spots(values: Sequence[float | None]) -> list[tuple[float, float]]:
        return [
            (frame.x((n + 0.5) / count), frame.y(value, lines[-1]))
            for n, value in enumerate(values)
            if value is not None
        ]

    floor, roof, above = spots(low), spots(middle), spots(high)
    drawn = [
        tag("path", d=_line([*floor, *reversed(roof)]) + "z", class_="band"),
        tag("path", d=_line(above), class_="line faint"),
        tag("path", d=_line(roof), class_="line second"),
        tag("path", d=_line(floor), class_="line first"),
    ]
    dots = [tag("circle", cx=x, cy=y, r=2.4, class_="dot") for x, y in floor]
    return _plot(frame, lines, [*drawn, *dots])


def curves(series: Sequence[Sequence[tuple[float, float]]], frame: Frame) -> Markup:
    """Lines on one scale, of positions from 0 to 1 and values; colours by order."""
    lines = ticks(max((value for points in series for _, value in points), default=0))
    drawn = [
        tag(
            "path",
            d=_line([(frame.x(share), frame.y(value, lines[-1])) for share, value in points]),
            class_=f"l{number}",
        )
        for number, points in enumerate(series, 1)
    ]
    return _plot(frame, lines, drawn)


def spark(values: Sequence[float], number: int) -> Markup:
    """A small area on its own scale."""
    width, height = 168, 30
    most = max(values, default=0) or 1
    step = width / max(len(values) - 1, 1)
    line = [(n * step, height - 1 - (height - 4) * v / most) for n, v in enumerate(values)]
    area = [(0.0, float(height)), *line, (float(width), float(height))]
    return tag(
        "svg",
        tag("path", d=_line(area) + "z", class_=f"f{number} soft"),
        tag("path", d=_line(line), class_=f"l{number}"),
        view_box=f"0 0 {width} {height}",
        class_="spark",
        aria_hidden="true",
    )


def histogram(shares: Sequence[float], number: int, titles: Sequence[str]) -> Markup:
    """Adjacent bars, without axes."""
    width, height = 520, 44
    most = max(shares, default=0) or 1
    each = width / max(len(shares), 1)
    bars = [
        tag(
            "rect",
            tag("title", title),
            x=n * each + 1,
            y=height - 2 - max(1.5, (height - 4) * share / most),
            width=each - 2,
            height=max(1.5, (height - 4) * share / most),
            rx=1.5,
            class_=f"f{number}",
        )
        for n, (share, title) in enumerate(zip(shares, titles, strict=True))
        if share > 0
    ]
    ground = tag("path", d=f"M0 {height - 1.5}H{width}", class_="grid")
    return tag("svg", ground, bars, view_box=f"0 0 {width} {height}", class_="hist")


def interval(low: float, middle: float, high: float, most: float) -> Markup:
    """A dot with two whiskers, on a scale from 0 to ``most``."""
    width, height = 220, 18

    def x(value: float) -> float:
        return 4 + (width - 8) * value / (most or 1)

    return tag(
        "svg",
        tag("path", d=f"M0 9H{width}", class_="grid"),
        tag("path", d=f"M{x(low):.1f} 9H{x(high):.1f}", class_="whisker thin"),
        tag("path", d=f"M{x(low):.1f} 9H{x(middle):.1f}", class_="whisker"),
        tag("circle", cx=x(low), cy=9, r=4, class_="dot"),
        view_box=f"0 0 {width} {height}",
        class_="interval",
        aria_hidden="true",
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a heat map."""

    shade: str
    """Its class."""
    title: str


def heat(
    rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[int, int], Cell], label: str
) -> Markup:
    """A grid with labels; cells by row and column, those without stay empty."""
    side = min(64.0, (WIDTH - _LEFT) / max(len(columns), 1))
    tall = max(16.0, min(side, 24.0))
    every = max(1, math.ceil(44 / side))
    drawn: list[Markup] = []
    for row, name in enumerate(rows):
        middle = row * tall + tall / 2 + 4
        drawn.append(tag("text", name, x=_LEFT - 10, y=middle, class_="axis end"))
        for column in range(len(columns)):
            cell = cells.get((row, column))
            drawn.append(
                tag(
                    "rect",
                    tag("title", cell.title) if cell else None,
                    x=_LEFT + column * side + 1,
                    y=row * tall + 1,
                    width=max(side - 2, side * 0.8),
                    height=tall - 2,
                    rx=2.5,
                    class_=f"cell {cell.shade if cell else 'void'}",
                )
            )
    foot = len(rows) * tall + 16
    for column in range(0, len(columns), every):
        x = _LEFT + column * side + 1
        drawn.append(tag("text", columns[column], x=x, y=foot, class_="axis"))
    return tag(
        "svg",
        drawn,
        view_box=f"0 0 {WIDTH} {foot + 6:.0f}",
        role="img",
        aria_label=label,
        class_="plot",
    )


def _plot(frame: Frame, lines: Sequence[float], drawn: Sequence[Markup]) -> Markup:
    top = lines[-1]
    axes = []
    for value in lines:
        y = frame.y(value, top)
        axes.append(tag("path", d=f"M{_LEFT} {y:.1f}H{WIDTH}", class_="grid"))
        axes.append(tag("text", frame.shown(value), x=_LEFT - 10, y=y + 4, class_="axis end"))
    for share, text in frame.marks:
        axes.append(tag("text", text, x=frame.x(share), y=frame.height - 6, class_="axis"))
    return tag(
        "svg",
        axes,
        drawn,
        view_box=f"0 0 {WIDTH} {frame.height}",
        role="img",
        aria_label=frame.label,
        class_="plot",
    )


def _line(spots: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in spots) if spots else "M0 0"
