"""The parts of the page, from figures to what its template shows. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from aviso_server.pipeline.report import charts, globe
from aviso_server.pipeline.report.areas import CELL
from aviso_server.pipeline.report.figures import Figures, Row
from aviso_server.pipeline.report.markup import cut
from aviso_server.pipeline.report.scale import count, duration, percent, size

COLOURS = 7
"""Event types with their own colour; the others share one more."""
OTHER = "others"

Part = dict[str, object]
"""What the template shows of a section, by name."""

_BARS = 124
_STEPS_H = (1, 2, 3, 6, 12, 24, 48, 168, 336, 720, 2160, 8760)


class ChartLine(NamedTuple):
    """A line of a table: an event type in its colour, a small picture, and numbers."""

    number: int
    name: str
    picture: Markup | str
    texts: Sequence[str]


def colour(name: str, names: Sequence[str]) -> int:
    """The number of the colour of an event type, 1 to COLOURS + 1."""
    place = names.index(name) if name in names else COLOURS
    return min(place, COLOURS) + 1


def names_of(figures: Figures) -> list[str]:
    """Event types, the busiest first."""
    found: list[str] = figures.tables["sizes"]["event_type"].to_pylist()
    return found


def volume(figures: Figures) -> Part:
    """Notifications over time."""
    names, (starts, each) = names_of(figures), buckets(figures)
    series: dict[str, list[float]] = {name: [0.0] * len(starts) for name in names[:COLOURS]}
    for row in figures.rows("volume"):
        name = row["event_type"] if row["event_type"] in series else OTHER
        values = series.setdefault(name, [0.0] * len(starts))
        values[_place(row["start"], starts[0], each, len(starts))] += row["notifications"]
    titles = [
        f"{start:%d %b %H:%M}: {sum(v[n] for v in series.values()):,.0f}"
        for n, start in enumerate(starts)
    ]
    total = figures.notifications
    frame = charts.Frame(
        260,
        _dates(starts, each),
        count,
        f"Notifications over time, {total:,} in all",
    )
    return {
        "legend": [(f"f{number}", name) for number, name in enumerate(series, 1)],
        "chart": charts.stacked(series, frame, titles),
        "each": _span(each),
    }


def event_types(figures: Figures) -> Part:
    """A line for each event type."""
    names, (starts, each) = names_of(figures), buckets(figures)
    shapes: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * len(starts))
    peaks: dict[str, Row] = {}
    for row in figures.rows("volume"):
        name = row["event_type"]
        shapes[name][_place(row["start"], starts[0], each, len(starts))] += row["notifications"]
        if name not in peaks or row["notifications"] > peaks[name]["notifications"]:
            peaks[name] = row
    hours = max(figures.period.length / timedelta(hours=1), 1e-9)
    total = figures.notifications
    lines = []
    for row in figures.rows("sizes")[:60]:
        name, peak = row["event_type"], peaks.get(row["event_type"])
        number = colour(name, names)
        texts = (
            f"{row['notifications']:,}",
            percent(row["notifications"], total),
            count(row["notifications"] / hours),
            f"{count(peak['notifications'])} on {peak['start']:%d %b %H:%M}" if peak else "",
            size(row["payload_bytes"]),
            f"{row['newest']:%d %b %H:%M}",
        )
        picture = charts.spark(shapes[name], number) if peak else ""
        lines.append(ChartLine(number, name, picture, texts))
    busiest = "Busiest hour" if figures.bucket == timedelta(hours=1) else "Busiest day"
    return {"busiest": busiest, "lines": lines}


def whole_delay(figures: Figures) -> Row | None:
    """The delay of all event types over the whole period."""
    rows = figures.rows("delays")
    return next((r for r in rows if r["event_type"] is None and r["day"] is None), None)


def delays(figures: Figures) -> Part | None:
    """How long it takes into the lake; None where nothing is known of it."""
    rows, every = figures.rows("delays"), whole_delay(figures)
    if every is None:
        return None
    days = {r["day"]: r for r in rows if r["event_type"] is None and r["day"] is not None}
    first, last = min(days), max(days)
    line = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    step = max(1, len(line) // 10)
    marks = [
        ((n + 0.5) / len(line) - 0.015, f"{day.day} {day:%b}")
        for n, day in enumerate(line)
        if n % step == 0
    ]

    def of(name: str) -> list[float | None]:
        return [days[day][name] if day in days else None for day in line]

    frame = charts.Frame(220, marks, duration, "Delay by day: median, 95th and 99th percentile")
    return {
        "chart": charts.band(of("p50_s"), of("p95_s"), of("p99_s"), frame),
        "lines": _delay_lines(figures, [r for r in rows if r["event_type"] and r["day"] is None]),
        "without": figures.notifications - every["notifications"],
    }


def _delay_lines(figures: Figures, rows: list[Row]) -> list[ChartLine]:
    names = names_of(figures)
    most = max((row["p99_s"] for row in rows), default=1.0)
    columns = ("p50_s", "p90_s", "p95_s", "p99_s", "longest_s")
    lines = [
        ChartLine(
            colour(row["event_type"], names),
            row["event_type"],
            charts.interval(row["p50_s"], row["p95_s"], row["p99_s"], most),
            [duration(row[column]) for column in columns],
        )
        for row in rows
    ]
    return sorted(lines, key=lambda line: line.number)


def sizes(figures: Figures) -> Part | None:
    """How large payloads are."""
    classes, names = figures.rows("size_classes"), names_of(figures)
    if not classes:
        return None
    low, high = min(r["exponent"] for r in classes), max(r["exponent"] for r in classes)
    low, high = min(low, high - 7 if high > 7 else 0), max(high, low + 7)
    edges = range(low, high + 1)
    by_name = {r["event_type"]: r for r in figures.rows("sizes")}
    lines = []
    for name, group in groupby(classes, key=lambda r: str(r["event_type"])):
        counts = {r["exponent"]: r["notifications"] for r in group}
        titles = [f"{size(2**n)} to {size(2 ** (n + 1))}: {counts.get(n, 0):,}" for n in edges]
        row, number = by_name.get(name), colour(name, names)
        bars = charts.histogram([counts.get(n, 0) for n in edges], number, titles)
        texts = [size(row[c]) for c in ("p50", "p95", "p99", "largest")] if row else [""] * 4
        lines.append(ChartLine(number, name, bars, texts))
    lines.sort(key=lambda line: (line.number, line.name))
    return {"low": 2**low, "high": 2 ** (high + 1), "lines": lines}


def values(figures: Figures) -> list[Part]:
    """The busiest values of the fields, by event type."""
    names, blocks = names_of(figures), []
    by_type: dict[str, list[Row]] = {}
    for row in figures.rows("values"):
        by_type.setdefault(row["event_type"], []).append(row)
    totals = {r["event_type"]: r["notifications"] for r in figures.rows("sizes")}
    for name in sorted(by_type, key=names.index)[:12]:
        fields = [list(group) for _, group in groupby(by_type[name], key=lambda r: r["field"])]
        blocks.append(
            {
                "number": colour(name, names),
                "name": name,
                "total": totals[name],
                "rest": _rest(fields),
                "fields": [rows for rows in fields if not _even(rows)],
            }
        )
    return blocks


def _even(rows: list[Row]) -> bool:
    """Whether no value stands out: there is one only, or many that are alike."""
    most, least = rows[0]["notifications"], rows[-1]["notifications"]
    return len(rows) == 1 or (rows[0]["different"] > len(rows) and least > 0.9 * most)


def _rest(fields: list[list[Row]]) -> str:
    """Fields that need no bars, as text."""
    fixed = [cut(f"{r[0]['field']} {r[0]['value']}", 60) for r in fields if len(r) == 1]
    even = [
        f"{cut(r[0]['field'], 40)} ({r[0]['different']:,} values)"
        for r in fields
        if len(r) > 1 and _even(r)
    ]
    words = [f"always {', '.join(fixed)}"] if fixed else []
    words += [f"evenly over {', '.join(even)}"] if even else []
    return "; ".join(words)


def areas(figures: Figures) -> Part | None:
    """Where on the globe; None if nowhere."""
    cells: defaultdict[tuple[int, int], int] = defaultdict(int)
    for row in figures.rows("areas"):
        cells[row["lat"], row["lon"]] += row["notifications"]
    if not cells:
        return None
    return {
        "map": globe.world(cells, side=CELL),
        "least": count(min(cells.values())),
        "most": count(max(cells.values())),
        "shades": globe.STEPS,
        "kinds": ", ".join(sorted({str(row["event_type"]) for row in figures.rows("areas")})),
        "side": CELL,
    }


def buckets(figures: Figures) -> tuple[list[datetime], timedelta]:
    """Beginnings of the bars of the period, and how long each is."""
    period = figures.period
    wanted = period.length / _BARS
    least = max(wanted, figures.bucket)
    hours = next((h for h in _STEPS_H if timedelta(hours=h) >= least), _STEPS_H[-1])
    each = timedelta(hours=hours)
    first = period.start.replace(minute=0, second=0, microsecond=0)
    if hours >= 24:
        first = first.replace(hour=0)
    else:
        first = first.replace(hour=first.hour - first.hour % min(hours, 24))
    starts = [first]
    while starts[-1] + each < period.end:
        starts.append(starts[-1] + each)
    return starts, each


def _place(start: datetime, first: datetime, each: timedelta, most: int) -> int:
    return min(max((start - first) // each, 0), most - 1)


def _dates(starts: Sequence[datetime], each: timedelta) -> list[tuple[float, str]]:
    """Some eight labels, at midnight where bars are shorter than a day."""
    whole = len(starts) * each
    midnights = [n for n, start in enumerate(starts) if start.hour == 0]
    if len(midnights) < 2:
        step = max(1, len(starts) // 8)
        return [(n / len(starts), f"{s:%H:%M}") for n, s in enumerate(starts) if n % step == 0]
    step = max(1, -(-len(midnights) // 12))
    style = "%b %Y" if whole > timedelta(days=700) else "%d %b"
    return [(n / len(starts), f"{starts[n]:{style}}".lstrip("0")) for n in midnights[::step]]


def _span(each: timedelta) -> str:
    hours = each // timedelta(hours=1)
    if hours == 1:
        return "an hour"
    if hours < 24:
        return f"{hours} hours"
    return "a day" if hours == 24 else f"{hours // 24} days"
