"""The parts of the page, from figures to markup. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby

from aviso_server.pipeline.report import charts, globe
from aviso_server.pipeline.report.areas import CELL
from aviso_server.pipeline.report.figures import Figures, Row
from aviso_server.pipeline.report.markup import Markup, cut, tag
from aviso_server.pipeline.report.scale import count, duration, percent, size

COLOURS = 7
"""Event types with a colour of their own; the others share one more."""
OTHER = "others"

_BARS = 124
_STEPS_H = (1, 2, 3, 6, 12, 24, 48, 168, 336, 720, 2160, 8760)


def colour(name: str, names: Sequence[str]) -> int:
    """The number of the colour of an event type, 1 to COLOURS + 1."""
    place = names.index(name) if name in names else COLOURS
    return min(place, COLOURS) + 1


def names_of(figures: Figures) -> list[str]:
    """Event types, the busiest first."""
    found: list[str] = figures.tables["sizes"]["event_type"].to_pylist()
    return found


def volume(figures: Figures) -> list[Markup]:
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
    legend = [
        tag("span", tag("i", class_=f"swatch f{n + 1}"), cut(name, 40))
        for n, name in enumerate(series)
    ]
    return [
        tag("p", legend, class_="legend spaced"),
        charts.stacked(series, frame, titles),
        tag("p", f"Notifications in {_span(each)}.", class_="note"),
    ]


def event_types(figures: Figures) -> list[Markup]:
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
        lines.append(
            tag(
                "tr",
                tag("td", tag("i", class_=f"swatch f{colour(name, names)}"), cut(name, 60)),
                tag("td", charts.spark(shapes[name], colour(name, names)) if peak else None),
                tag("td", f"{row['notifications']:,}", class_="num strong"),
                tag("td", percent(row["notifications"], total), class_="num"),
                tag("td", count(row["notifications"] / hours), class_="num"),
                tag(
                    "td",
                    f"{count(peak['notifications'])} on {peak['start']:%d %b %H:%M}"
                    if peak
                    else "",
                    class_="num nowrap",
                ),
                tag("td", size(row["payload_bytes"]), class_="num nowrap"),
                tag("td", f"{row['newest']:%d %b %H:%M}", class_="num nowrap"),
            )
        )
    busiest = "Busiest hour" if figures.bucket == timedelta(hours=1) else "Busiest day"
    heads = ("Event type", "", "Notifications", "Share", "Per hour", busiest, "Payload", "Newest")
    return [_table(heads, lines, left=2)]


def _peak(row: Row) -> str:
    return f"{count(row['notifications'])} on {row['start']:%d %b %H:%M}"


def delays(figures: Figures) -> list[Markup]:
    """How long it takes into the lake."""
    rows = figures.rows("delays")
    every = next((r for r in rows if r["event_type"] is None and r["day"] is None), None)
    if every is None:
        return [tag("p", IMPORTED, class_="quiet")]
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
    kinds = (("first", "median"), ("second", "95 %"), ("faint", "99 %"))
    legend = [tag("span", tag("i", class_=f"stroke {kind}"), text) for kind, text in kinds]
    made = [
        tag("p", legend, class_="legend spaced"),
        charts.band(of("p50_s"), of("p95_s"), of("p99_s"), frame),
        _delay_table(figures, [r for r in rows if r["event_type"] and r["day"] is None]),
    ]
    left_out = figures.notifications - every["notifications"]
    if left_out > 0:
        made.append(tag("p", f"Without {left_out:,} notifications. {IMPORTED}", class_="note"))
    return made


IMPORTED = (
    "What was imported, or archived more than a day after it was stored, or whose commit is no "
    "longer in the log of the table (30 days), has no delay."
)


def _delay_table(figures: Figures, rows: list[Row]) -> Markup:
    names = names_of(figures)
    most = max((row["p99_s"] for row in rows), default=1.0)
    lines = [
        tag(
            "tr",
            tag("td", tag("i", class_=f"swatch f{colour(name, names)}"), cut(name, 60)),
            tag("td", charts.interval(row["p50_s"], row["p95_s"], row["p99_s"], most)),
            *(
                tag("td", duration(row[column]), class_="num nowrap")
                for column in ("p50_s", "p90_s", "p95_s", "p99_s", "longest_s")
            ),
        )
        for row in sorted(rows, key=lambda row: colour(row["event_type"], names))
        for name in (row["event_type"],)
    ]
    heads = ("Event type", "Median to 99 %", "Median", "90 %", "95 %", "99 %", "Longest")
    return _table(heads, lines, left=2)


def sizes(figures: Figures) -> list[Markup]:
    """How large payloads are."""
    classes, names = figures.rows("size_classes"), names_of(figures)
    if not classes:
        return []
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
        told = [size(row[c]) for c in ("p50", "p95", "p99", "largest")] if row else [""] * 4
        line = tag(
            "tr",
            tag("td", tag("i", class_=f"swatch f{number}"), cut(name, 60)),
            tag("td", bars),
            *(tag("td", text, class_="num nowrap") for text in told),
        )
        lines.append((number, name, line))
    scale = tag(
        "span", tag("span", size(2**low)), tag("span", size(2 ** (high + 1))), class_="ends"
    )
    heads = ("Event type", scale, "Median", "95 %", "99 %", "Largest")
    return [_table(heads, [line for _, _, line in sorted(lines)], left=2)]


def values(figures: Figures) -> list[Markup]:
    """The busiest values of the fields."""
    names, blocks = names_of(figures), []
    by_type: dict[str, list[Row]] = {}
    for row in figures.rows("values"):
        by_type.setdefault(row["event_type"], []).append(row)
    totals = {r["event_type"]: r["notifications"] for r in figures.rows("sizes")}
    for name in sorted(by_type, key=names.index)[:12]:
        number = colour(name, names)
        fields = [list(group) for _, group in groupby(by_type[name], key=lambda r: r["field"])]
        bars = [_field(rows, totals[name], number) for rows in fields if not _even(rows)]
        title = tag(
            "h3",
            tag("i", class_=f"swatch f{number}"),
            cut(name, 60),
            tag("span", _rest(fields), class_="note"),
        )
        shown = tag("div", bars, class_="fields") if bars else None
        blocks.append(tag("div", title, shown, class_="block"))
    return blocks or [tag("p", "No notification has an identifier.", class_="quiet")]


def _even(rows: list[Row]) -> bool:
    """Whether no value stands out: there is one only, or many that are alike."""
    most, least = rows[0]["notifications"], rows[-1]["notifications"]
    return len(rows) == 1 or (rows[0]["different"] > len(rows) and least > 0.9 * most)


def _rest(fields: list[list[Row]]) -> str:
    """Fields that need no bars, in words."""
    fixed = [cut(f"{r[0]['field']} {r[0]['value']}", 60) for r in fields if len(r) == 1]
    even = [
        f"{cut(r[0]['field'], 40)} ({r[0]['different']:,} values)"
        for r in fields
        if len(r) > 1 and _even(r)
    ]
    told = [f"always {', '.join(fixed)}"] if fixed else []
    told += [f"evenly over {', '.join(even)}"] if even else []
    return "; ".join(told)


def _field(rows: list[Row], total: int, number: int) -> Markup:
    most = rows[0]["notifications"]
    bars = [
        tag(
            "li",
            tag(
                "b", style=f"width:{100 * r['notifications'] / most:.1f}%", class_=f"bar g{number}"
            ),
            tag(
                "span", cut(r["value"] or "(empty)", 34), class_="value", title=cut(r["value"], 300)
            ),
            tag("span", percent(r["notifications"], total), class_="share"),
            title=f"{r['notifications']:,} notifications",
        )
        for r in rows
    ]
    head = tag(
        "h4",
        cut(rows[0]["field"], 40),
        tag("span", f" {rows[0]['different']:,} values", class_="note"),
    )
    return tag("div", head, tag("ol", bars), class_="field")


def areas(figures: Figures) -> list[Markup]:
    """Where on the globe."""
    cells: defaultdict[tuple[int, int], int] = defaultdict(int)
    for row in figures.rows("areas"):
        cells[row["lat"], row["lon"]] += row["notifications"]
    if not cells:
        return [tag("p", "No notification of the period has a place.", class_="quiet")]
    kinds = sorted({str(row["event_type"]) for row in figures.rows("areas")})
    words = f"From {', '.join(kinds)}. Cells of {CELL} by {CELL} degrees."
    return [globe.world(cells, side=CELL), globe.legend(cells), tag("p", words, class_="note")]


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


def _table(heads: Sequence[str], lines: Sequence[Markup], *, left: int) -> Markup:
    """A table whose columns after the first ones are numbers."""
    row = [tag("th", h, class_=None if n < left else "num") for n, h in enumerate(heads)]
    body = tag("table", tag("thead", tag("tr", row)), tag("tbody", lines))
    return tag("div", body, class_="scroll")
