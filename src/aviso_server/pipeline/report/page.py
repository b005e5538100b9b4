"""The page: figures into ``page.html``, whose text is escaped whatever it holds. Pure."""

from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from aviso_server import __version__
from aviso_server.pipeline.report import lateness, sections
from aviso_server.pipeline.report.figures import Figures, Row
from aviso_server.pipeline.report.markup import clean, cut
from aviso_server.pipeline.report.scale import count, duration, percent, size


class Tile(NamedTuple):
    """A number that matters, large."""

    name: str
    value: str
    more: str
    kind: str = ""
    """How bad it is."""


def page(figures: Figures) -> str:
    """The whole document."""
    parts: dict[str, object] = {}
    if figures.notifications:
        parts = {
            "tiles": _tiles(figures),
            "volume": sections.volume(figures),
            "event_types": sections.event_types(figures),
            "lateness": lateness.section(figures),
            "delays": sections.delays(figures),
            "areas": sections.areas(figures),
            "blocks": sections.values(figures),
            "sizes": sections.sizes(figures),
        }
    return _template().render(
        figures=figures, length=_length(figures), version=__version__, **parts
    )


@lru_cache(maxsize=1)
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("aviso_server.pipeline.report", ""),
        autoescape=True,
        finalize=clean,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "cut": cut,
        "duration": duration,
        "grouped": "{:,}".format,
        "moment": _moment,
        "percent": percent,
        "size": size,
    }
    return environment.get_template("page.html")


def _moment(at: datetime) -> str:
    return f"{at.day} {at:%B %Y, %H:%M}"


def _length(figures: Figures) -> str:
    days = figures.period.length.total_seconds() / 86_400
    return f"{days:.0f} days" if days >= 1.5 else f"{days * 24:.0f} hours"


def _delay_tile(every: Row | None, notifications: int) -> Tile:
    """The median of most notifications; that of a few would be taken for it."""
    title = "median into the lake"
    if every is None:
        return Tile(title, "none", "nothing archived live")
    known = every["notifications"]
    if 2 * known < notifications:
        return Tile(title, "unknown", f"for all but {known:,} of {notifications:,}")
    within = f"95 % within {duration(every['p95_s'])}"
    rest = "" if known == notifications else f", of {known:,} known"
    return Tile(title, duration(every["p50_s"]), within + rest)


def _tiles(figures: Figures) -> list[Tile]:
    cycles, every = figures.tables["cycles"], sections.whole_delay(figures)
    late, missing = (sum(cycles[name].to_pylist()) for name in ("late", "missing"))
    payload = sum(figures.tables["sizes"]["payload_bytes"].to_pylist())
    known = cycles.num_rows > 0
    return [
        Tile("notifications", count(figures.notifications), f"{figures.notifications:,}"),
        Tile("event types", f"{figures.tables['sizes'].num_rows}", f"{size(payload)} of payload"),
        _delay_tile(every, figures.notifications),
        Tile(
            "products late",
            f"{late:,}" if known else "none",
            "beyond their usual time",
            "warn" if late else "",
        ),
        Tile(
            "products missing",
            f"{missing:,}" if known else "none",
            "expected, never arrived",
            "bad" if missing else "",
        ),
    ]
