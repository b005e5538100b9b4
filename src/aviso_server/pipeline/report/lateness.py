"""The part of the page about late and missing products. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from aviso_server.pipeline.report.charts import Cell, heat
from aviso_server.pipeline.report.expect import LATE, MISSING
from aviso_server.pipeline.report.figures import Figures, Row
from aviso_server.pipeline.report.markup import Markup, cut, tag
from aviso_server.pipeline.report.scale import duration

FIRST = 10
"""Groups that are shown at once; the others open on demand."""
MOST = 150
MAPS = 12
"""Event types with a heat map."""
DAYS, CYCLES = 92, 24
"""Columns and rows of one, at most."""

_FEW = 3
_EDGES = (0.01, 0.05, 0.3)
"""Shares of a cycle's products at which its shade becomes stronger."""


@dataclass(slots=True)
class Group:
    """Findings of one kind in one cycle."""

    event_type: str
    day: date
    time: str
    kind: str
    count: int = 0
    worst_s: float = 0.0
    """Beyond the usual delay."""
    fields: dict[str, set[str]] = field(default_factory=dict)


def grouped(findings: Iterable[Row]) -> list[Group]:
    """Findings by cycle and kind, those with most products first, then the newest."""
    groups: dict[tuple[str, date, str, str], Group] = {}
    for row in findings:
        key = (row["event_type"], row["day"], row["time"], row["kind"])
        group = groups.setdefault(key, Group(*key))
        group.count += 1
        if row["delay_s"] is not None and row["usual_s"] is not None:
            group.worst_s = max(group.worst_s, row["delay_s"] - row["usual_s"])
        for item in row["product"].split(", ") if row["product"] else ():
            name, _, value = item.partition("=")
            group.fields.setdefault(name, set()).add(value)
    return sorted(groups.values(), key=lambda g: (-g.count, -g.day.toordinal(), g.time, g.kind))


def described(fields: dict[str, set[str]], different: Mapping[str, int]) -> str:
    """Which products: what they have in common, or what they range over.

    ``different`` is how many values a field has; where all are affected it tells nothing.
    """
    words = []
    for name, values in fields.items():
        if len(values) >= different.get(name, len(values) + 1):
            continue
        if len(values) <= _FEW:
            words.append(f"{name} {', '.join(sorted(values, key=_numeric))}")
        elif all(value.isdecimal() for value in values):
            numbers = sorted(map(int, values))
            words.append(f"{name} {numbers[0]} to {numbers[-1]} ({len(numbers)})")
        else:
            words.append(f"{len(values)} values of {name}")
    return cut("; ".join(words) or "of every kind", 160)


def section(figures: Figures) -> list[Markup]:
    """Heat maps and findings."""
    cycles = figures.rows("cycles")
    expected = [row for row in cycles if _known(row)]
    if not expected:
        return [tag("p", NOTHING_LEARNED, class_="quiet")]
    names = _worst_first(expected)
    maps = [_map(name, [row for row in cycles if row["event_type"] == name]) for name in names]
    return [_key(), *maps[:MAPS], *_findings(figures, cycles)]


NOTHING_LEARNED = (
    "Nothing is expected yet: products are learned from identifiers with a date, over at least "
    "a week."
)


def _known(row: Row) -> int:
    """Products of a cycle that were expected."""
    return int(row["on_time"] + row["late"] + row["missing"] + row["due"])


def _worst_first(rows: Sequence[Row]) -> list[str]:
    bad: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        bad[row["event_type"]] += row["late"] + row["missing"]
    return sorted(bad, key=lambda name: (-bad[name], name))


def _map(event_type: str, rows: Sequence[Row]) -> Markup:
    times = _worst_times(rows)
    last = max(row["day"] for row in rows)
    first = max(min(row["day"] for row in rows), last - timedelta(days=DAYS - 1))
    days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    cells = {
        (times.index(row["time"]), (row["day"] - first).days): Cell(_shade(row), _title(row))
        for row in rows
        if row["day"] >= first and row["time"] in times
    }
    labels = [f"{day.day} {day:%b}" for day in days]
    late, missing = (sum(row[name] for row in rows) for name in ("late", "missing"))
    words = f"{late:,} late, {missing:,} missing" if late or missing else "all on time"
    label = f"Cycles of {event_type} by day: {words}"
    return tag(
        "div",
        tag("h3", event_type, " ", tag("span", words, class_="note")),
        heat(times, labels, cells, label),
        class_="heat",
    )


def _worst_times(rows: Sequence[Row]) -> list[str]:
    """Base times in order; of many those with most findings."""
    bad: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        bad[row["time"]] += row["late"] + row["missing"]
    return sorted(sorted(bad, key=lambda time: (-bad[time], time))[:CYCLES])


def _shade(row: Row) -> str:
    known = _known(row)
    if not known:
        return "unknown"
    if not row["late"] and not row["missing"]:
        return "due" if row["due"] == known else "good"
    kind = "miss" if row["missing"] >= row["late"] else "late"
    share = (row["missing"] + row["late"]) / known
    return f"{kind}{sum(share >= edge for edge in _EDGES)}"


def _title(row: Row) -> str:
    known = _known(row)
    head = f"{row['day']} {row['time']}"
    if not known:
        return f"{head}: {row['new']:,} products, nothing learned yet"
    told = [f"{row['on_time']:,} of {known:,} on time"]
    if row["late"]:
        told.append(f"{row['late']:,} late, by up to {duration(row['worst_s'])}")
    told += [f"{row[name]:,} {name}" for name in ("missing", "due") if row[name]]
    return f"{head}: " + ", ".join(told)


def _key() -> Markup:
    shown = (
        ("good", "on time"),
        ("late0", "some late"),
        ("late3", "many late"),
        ("miss0", "some missing"),
        ("miss3", "many missing"),
        ("due", "still due"),
        ("unknown", "nothing learned yet"),
    )
    items = [tag("span", tag("i", class_=f"swatch {shade}"), text) for shade, text in shown]
    return tag("p", items, class_="legend spaced")


def _findings(figures: Figures, cycles: Sequence[Row]) -> list[Markup]:
    groups = grouped(figures.rows("findings"))
    if not groups:
        return [tag("p", "Every expected product arrived on time.", class_="quiet")]
    known = {(r["event_type"], r["day"], r["time"]): _known(r) for r in cycles}
    different: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for row in figures.rows("values"):
        different[row["event_type"]][row["field"]] = row["different"]
    lines = [
        _line(
            group,
            known.get((group.event_type, group.day, group.time), 0),
            described(group.fields, different[group.event_type]),
        )
        for group in groups[:MOST]
    ]
    made = [_table(lines[:FIRST])]
    if rest := lines[FIRST:]:
        made.append(
            tag("details", tag("summary", f"{len(rest)} more cycles with findings"), _table(rest))
        )
    hidden = len(groups) - len(lines)
    total = sum(row["late"] + row["missing"] for row in cycles)
    if hidden or total > figures.tables["findings"].num_rows:
        made.append(tag("p", f"{total:,} findings in all; not every one is listed.", class_="note"))
    return made


def _line(group: Group, known: int, which: str) -> Markup:
    which = "all of them" if group.count >= known else which
    beyond = f"up to {duration(group.worst_s)}" if group.kind == LATE else None
    badge = "bad" if group.kind == MISSING else "warn"
    return tag(
        "tr",
        tag("td", tag("span", group.kind, class_=f"badge {badge}")),
        tag("td", f"{group.day} {group.time}", class_="nowrap"),
        tag("td", group.event_type),
        tag("td", f"{group.count:,}", tag("span", f" of {known:,}", class_="note"), class_="num"),
        tag("td", beyond, class_="num nowrap"),
        tag("td", which, class_="wide"),
    )


def _table(lines: Sequence[Markup]) -> Markup:
    heads = [
        tag("th", text, class_=kind)
        for text, kind in (
            ("", None),
            ("Cycle", None),
            ("Event type", None),
            ("Products", "num"),
            ("Later than usual", "num"),
            ("Which", "wide"),
        )
    ]
    return tag("table", tag("thead", tag("tr", heads)), tag("tbody", lines))


def _numeric(value: str) -> tuple[int, str]:
    return (int(value) if value.isdecimal() else -1, value)
