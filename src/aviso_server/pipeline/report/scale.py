"""Round numbers for axes, and numbers as people read them. Pure.

Axes and narrow columns need fewer characters than humanize gives: "2 h 3 min" for "2 hours and 3
minutes", "34 k" for "34.0 k".
"""

import math
from collections.abc import Sequence

_TIMES_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def ticks(most: float, *, wanted: int = 4) -> list[float]:
    """Round values from 0 to at least ``most``."""
    if not math.isfinite(most) or most < 1e-9:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10(most / wanted))
    for factor in (1, 2, 2.5, 5, 10):
        if most / (step * factor) <= wanted:
            step *= factor
            break
    return [step * number for number in range(math.ceil(most / step - 1e-9) + 1)]


def time_ticks(most: float, *, wanted: int = 5) -> list[float]:
    """Lengths of time from 0 to at least ``most`` seconds, in steps that clocks have."""
    step = next((s for s in _TIMES_S if most / s <= wanted), None)
    if step is None or most < 1:
        return ticks(most, wanted=wanted)
    return [float(step * number) for number in range(max(1, math.ceil(most / step - 1e-9)) + 1)]


def count(number: float) -> str:
    """A number with a unit: 1.2 M, 34 k, 567."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= limit:
            return f"{_short(number / limit)} {unit}"
    return _short(number)


def size(octets: float) -> str:
    """Bytes, in powers of a thousand."""
    power = 0
    while abs(octets) >= 999.5 and power < len(_UNITS) - 1:
        octets, power = octets / 1000, power + 1
    return f"{_short(octets)} {_UNITS[power]}"


def duration(seconds: float) -> str:
    """A length of time in the two units that matter."""
    total = abs(seconds)
    sign = "-" if seconds < 0 else ""
    if total < 1:
        return f"{sign}{total * 1000:.0f} ms"
    if total < 60:
        return f"{sign}{_short(total)} s"
    if total < 3600:
        return sign + _two(round(total), 60, ("min", "s"))
    if total < 2 * 86_400:
        return sign + _two(round(total / 60), 60, ("h", "min"))
    return sign + _two(round(total / 3600), 24, ("d", "h"))


def percent(part: float, whole: float) -> str:
    """A share; what is not nothing is not shown as nothing."""
    if not whole or not part:
        return "0 %"
    share = 100 * part / whole
    if share < 0.1:
        return "< 0.1 %"
    return f"{share:.1f} %" if share < 10 else f"{share:.0f} %"


def shades(values: Sequence[float], *, steps: int) -> list[int]:
    """For each value the number of its shade, 1 to ``steps``, on a logarithmic scale; 0 for 0."""
    some = [value for value in values if value > 0]
    if not some:
        return [0] * len(values)
    low, high = math.log(min(some)), math.log(max(some))

    def shade(value: float) -> int:
        share = (math.log(value) - low) / (high - low) if high > low else 1.0
        return min(steps, 1 + int(share * steps))

    return [shade(value) if value > 0 else 0 for value in values]


def _two(number: int, each: int, units: tuple[str, str]) -> str:
    large, small = divmod(number, each)
    return f"{large} {units[0]}" + (f" {small} {units[1]}" if small else "")


def _short(number: float) -> str:
    if abs(number) >= 99.5 or number == int(number):
        return f"{number:.0f}"
    return f"{number:.1f}" if abs(number) >= 9.95 else f"{number:.2f}".rstrip("0").rstrip(".")
