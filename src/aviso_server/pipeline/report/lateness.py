"""The part of the page about late and missing products. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from aviso_server.pipeline.report.charts import Cell, heat
from aviso_server.pipeline.report.figures import Figures, Row
from aviso_server.pipeline.report.markup import cut
from aviso_server.pipeline.report.scale import duration

MOST = 150
"""Groups that are shown."""
MAPS = 12
"""Event types with a heat map."""
DAYS, CYCLES = 92, 24
"""Columns and rows of one, at most."""

_FEW = 3
_EDGES = (0.01, 0.05, 0.3)
"""Shares of a cycle's products at which its shade becomes stronger."""


@dataclass(slots=True)
class FindingGroup:
    """Findings of one kind in one cycle."""

    event_type: str
    day: date
    time: str
    kind: str
    count: int = 0
    worst_s: float = 0.0
    """Beyond the usual delay."""
    fields: dict[str, set[str]] = field(default_factory=dict)
    expected: int = 0
    """Products of the cycle."""
    which: str = "all of them"


def group_findings(findings: Iterable[Row]) -> list[FindingGroup]:
    """Findings by cycle and kind, those with most products first, then the newest."""
    groups: dict[tuple[str, date, str, str], FindingGroup] = {}
    for row in findings:
        key = (row["event_type"], row["day"], row["time"], row["kind"])
        group = groups.setdefault(key, FindingGroup(*key))
        group.count += 1
        if row["delay_s"] is not None and row["usual_s"] is not None:
            group.worst_s = max(group.worst_s, row["delay_s"] - row["usual_s"])
        for item in row["product"].split(", ") if row["product"] else ():
            name, _, value = item.partition("=")
            group.fields.setdefault(name, set()).add(value)
    return sorted(groups.values(), key=lambda g: (-g.count, -g.day.toordinal(), g.time, g.kind))


def describe_products(fields: dict[str, set[str]], different: Mapping[str, int]) -> str:
    """Which products: what they have in common, or what they range over.

    ``different`` is how many values a field has; if all are affected it says nothing.
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


def section(figures: Figures) -> dict[str, object] | None:
    """Heat maps and findings; None where nothing is expected yet."""
    cycles = figures.rows("cycles")
    names = _worst_first([row for row in cycles if _known(row)])
    if not names:
        return None
    groups = _describe_groups(figures, cycles)
    total = sum(row["late"] + row["missing"] for row in cycles)
    listed = figures.tables["findings"].num_rows
    return {
        "maps": [_map(n, [r for r in cycles if r["event_type"] == n]) for n in names[:MAPS]],
        "groups": groups[:MOST],
        "total": total,
        "unlisted": len(groups) > MOST or total > listed,
    }


def _describe_groups(figures: Figures, cycles: Sequence[Row]) -> list[FindingGroup]:
    expected = {(r["event_type"], r["day"], r["time"]): _known(r) for r in cycles}
    different: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for row in figures.rows("values"):
        different[row["event_type"]][row["field"]] = row["different"]
    groups = group_findings(figures.rows("findings"))
    for group in groups:
        group.expected = expected.get((group.event_type, group.day, group.time), 0)
        if group.count < group.expected:
            group.which = describe_products(group.fields, different[group.event_type])
    return groups


def _known(row: Row) -> int:
    """Products of a cycle that were expected."""
    return int(row["on_time"] + row["late"] + row["missing"] + row["due"])


def _worst_first(rows: Sequence[Row]) -> list[str]:
    bad: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        bad[row["event_type"]] += row["late"] + row["missing"]
    return sorted(bad, key=lambda name: (-bad[name], name))


def _map(event_type: str, rows: Sequence[Row]) -> dict[str, object]:
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
    return {"event_type": event_type, "words": words, "chart": heat(times, labels, cells, label)}


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


def _numeric(value: str) -> tuple[int, str]:
    return (int(value) if value.isdecimal() else -1, value)
