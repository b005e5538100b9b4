"""The page: one document that needs nothing else, neither network nor scripts. Pure but its style.

Its content security policy forbids scripts and everything from elsewhere, so that even a mistake
in escaping would not run what a producer wrote.
"""

from datetime import datetime
from functools import lru_cache
from importlib.resources import files

from aviso_server import __version__
from aviso_server.pipeline.report import lateness, sections
from aviso_server.pipeline.report.figures import Figures
from aviso_server.pipeline.report.markup import Markup, join, tag
from aviso_server.pipeline.report.scale import count, duration, size

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(figures: Figures) -> str:
    """The whole document."""
    period = figures.period
    title = f"Notifications, {_moment(period.start)} to {_moment(period.end)}"
    head = [
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        tag("title", title),
        tag("style", Markup(_style())),
    ]
    body = tag("main", _header(figures), _content(figures), _footer(figures))
    document = tag("html", tag("head", head), tag("body", body), lang="en")
    return f"<!doctype html>\n{document}\n"


def _content(figures: Figures) -> list[Markup]:
    if not figures.notifications:
        return [
            tag(
                "section",
                tag("h2", "Nothing was announced"),
                tag("p", "The lake has no notifications in this period.", class_="quiet"),
            )
        ]
    return [
        _numbers(figures),
        _section("Volume", "How much was announced, and when.", sections.volume(figures)),
        _section("Event types", "Each on a scale of its own.", sections.event_types(figures)),
        _section("Late and missing", _LATENESS, lateness.section(figures)),
        _section("Into the lake", _DELAYS, sections.delays(figures)),
        _section("Announced areas", "How often each part of the globe was announced.",
                 sections.areas(figures)),
        _section("Busiest identifiers", _VALUES, sections.values(figures)),
        _section("Payload sizes", "Bytes of JSON, by powers of two.", sections.sizes(figures)),
    ]  # fmt: skip


_LATENESS = (
    "Products by the day and time of their identifier. Which are due, and how long after their "
    "base time, is learned from up to 28 days before. Late is later than the median by more than "
    "15 minutes and three times the usual spread."
)
_DELAYS = (
    "From when a notification was stored to when the commit that archived it was made. It is in "
    "the log, and can be replayed, all the while."
)
_VALUES = "The most frequent values of every field, and their share of the event type."


def _header(figures: Figures) -> Markup:
    period = figures.period
    shown = f"{_moment(period.start)} to {_moment(period.end)} UTC"
    return tag(
        "header",
        tag("p", "Aviso notifications", class_="eyebrow"),
        tag("h1", _days(figures)),
        tag("p", shown, class_="lead"),
    )


def _moment(at: datetime) -> str:
    return f"{at.day} {at:%B %Y, %H:%M}"


def _days(figures: Figures) -> str:
    days = figures.period.length.total_seconds() / 86_400
    if days >= 1.5:
        return f"{days:.0f} days of notifications"
    return f"{days * 24:.0f} hours of notifications"


def _numbers(figures: Figures) -> Markup:
    """What matters most, large."""
    cycles, every = figures.tables["cycles"], _all_delays(figures)
    late, missing = (sum(cycles[name].to_pylist()) for name in ("late", "missing"))
    payload = sum(figures.tables["sizes"]["payload_bytes"].to_pylist())
    judged = cycles.num_rows > 0
    tiles = [
        ("notifications", count(figures.notifications), f"{figures.notifications:,}", None),
        ("event types", f"{figures.tables['sizes'].num_rows}", f"{size(payload)} of payload", None),
        (
            "median into the lake",
            duration(every["p50_s"]) if every else "none",
            f"95 % within {duration(every['p95_s'])}" if every else "nothing archived live",
            None,
        ),
        ("products late", f"{late:,}" if judged else "none", "beyond their usual time",
         "warn" if late else None),
        ("products missing", f"{missing:,}" if judged else "none", "expected, never there",
         "bad" if missing else None),
    ]  # fmt: skip
    return tag(
        "div",
        [
            tag(
                "div",
                tag("strong", value, class_=kind),
                tag("span", name),
                tag("small", more),
                class_="tile",
            )
            for name, value, more, kind in tiles
        ],
        class_="tiles",
    )


def _all_delays(figures: Figures) -> dict[str, float] | None:
    rows = figures.rows("delays")
    return next((r for r in rows if r["event_type"] is None and r["day"] is None), None)


def _section(title: str, text: str, content: list[Markup]) -> Markup:
    return tag("section", tag("h2", title), tag("p", text, class_="lede"), content)


def _footer(figures: Figures) -> Markup:
    return tag(
        "footer",
        tag("p", f"Made {figures.made_at:%d %b %Y %H:%M} UTC from version {figures.version} of "
            f"{figures.lake} by aviso-server {__version__}. All times are UTC."),
        tag("p", "Coastlines: Natural Earth, public domain.") if figures.notifications else None,
    )  # fmt: skip


@lru_cache(maxsize=1)
def _style() -> str:
    text = files("aviso_server.pipeline.report").joinpath("page.css").read_text()
    return join(Markup(text))
