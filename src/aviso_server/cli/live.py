"""The command ``aviso-server pipeline live``."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
import yaml
from rich.console import Console
from rich.live import Live as Display

from aviso_server.cli import sparked
from aviso_server.cli.loading import ConfigFile, load
from aviso_server.core.errors import AvisoError
from aviso_server.process import set_by_signals

if TYPE_CHECKING:
    from aviso_server.lake.layout import Place
    from aviso_server.pipeline.live.expected import CyclePart
    from aviso_server.pipeline.live.job import LiveOptions, LiveOutcome
    from aviso_server.pipeline.spark.session import Session
    from aviso_server.settings import Settings

EPILOG = """\
\b
Examples:
  aviso-server pipeline live --config examples/config.yaml
  aviso-server pipeline live --config examples/config.yaml --window 10m --slide 2m --above 500
  aviso-server pipeline live --config examples/config.yaml --expect cycles.yaml --no-learn
  aviso-server pipeline live --schema >> config.yaml

\b
Rates of all event types, and cycles that are late, are published as notifications of the event type
aviso_alert, which the server must have. Follow them like any other:
  curl -N http://127.0.0.1:8000/api/v1/watch -d '{"event_type": "aviso_alert",
      "identifier": {"severity": {"gte": 3}}}' -H 'Content-Type: application/json'

\b
Exit code 0: ended by a signal, or done with --once. 1: one line on stderr says what is wrong.
2: wrong usage.
"""

_Lake: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PATH", help="Lake to learn from; lake.path.")
]
_Url: TypeAlias = Annotated[
    str | None, typer.Option(metavar="URL", help="Server to publish to; application.base_url.")
]
_Token: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="T", envvar="AVISO_TOKEN", help="Bearer token for the server."),
]
_EventTypes: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="T", help="Only this one; may be repeated.")
]
_Window: TypeAlias = Annotated[str, typer.Option(metavar="5m", help="Length of a window.")]
_Slide: TypeAlias = Annotated[str, typer.Option(metavar="1m", help="From window to window.")]
_Watermark: TypeAlias = Annotated[
    str, typer.Option(metavar="1m", help="How much clocks may differ; results wait as long.")
]
_Interval: TypeAlias = Annotated[
    str, typer.Option(metavar="10s", help="How often the log is looked at.")
]
_Above: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="N", min=0, help="Rate per second from which severity is 3, not 1."),
]
_Expect: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="What is due when; wins over what is learned.")
]
_Learn: TypeAlias = Annotated[
    bool, typer.Option("--learn/--no-learn", help="Learn from the lake what is due when.")
]
_Group: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="FIELD", help="Tells cycles apart; may be repeated; stream."),
]
_Part: TypeAlias = Annotated[
    str, typer.Option(metavar="FIELD", help="Tells the parts of a cycle apart.")
]
_Days: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=3, max=400, help="How many days to learn from.")
]
_Tolerance: TypeAlias = Annotated[
    str, typer.Option(metavar="15m", help="How much later than usual is late.")
]
_Checkpoint: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PATH", help="Spark's bookkeeping; in the lake.")
]
_Once: TypeAlias = Annotated[
    bool, typer.Option("--once", help="Tell what there is to tell now, then end.")
]


def _print_schema(asked: bool) -> None:  # noqa: FBT001 - typer's way to call it
    if asked:
        from aviso_server.pipeline.live.alert import SCHEMA  # noqa: PLC0415 - loaded when used

        typer.echo(SCHEMA, nl=False)
        raise typer.Exit


_Schema: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--schema",
        callback=_print_schema,
        is_eager=True,
        help="Print the schema of aviso_alert, then end.",
    ),
]


def live(  # noqa: PLR0913 - the options of a command
    config: ConfigFile = None,
    *,
    lake: _Lake = None,
    url: _Url = None,
    token: _Token = None,
    event_type: _EventTypes = None,
    window: _Window = "5m",
    slide: _Slide = "1m",
    watermark: _Watermark = "1m",
    interval: _Interval = "10s",
    above: _Above = None,
    expect: _Expect = None,
    learn: _Learn = True,
    group: _Group = None,
    part: _Part = "step",
    days: _Days = 28,
    tolerance: _Tolerance = "15m",
    checkpoint: _Checkpoint = None,
    once: _Once = False,
    schema: _Schema = False,
    storage_option: sparked.StorageOption = None,
    master: sparked.Master = None,
    conf: sparked.Conf = None,
    packages: sparked.Packages = None,
    remote: sparked.Remote = None,
    verbose: sparked.Verbose = False,
) -> None:
    """Publish rates and late cycles as notifications, as they happen."""
    del schema  # done by its callback
    tolerance_s = sparked.seconds("--tolerance", tolerance)
    spark_options = sparked.spark_options(
        master=master, conf=conf, packages=packages, remote=remote, app_name="aviso-server live"
    )
    lengths = _lengths(window, slide, watermark, interval)
    settings = load(config)
    with sparked.told("live", verbose=verbose):
        place = sparked.configured_place(settings, lake, storage_option)
        options = replace(
            _options(settings, place, url, checkpoint, lengths),
            token=token,
            event_types=tuple(event_type or ()),
            fields=tuple(group or ["stream"]),
            part=part,
            limit=above,
            once=once,
            expected=_configured(expect, tuple(group or ["stream"])),
        )
        _check(options, place if lake is not None and learn else None)
        with sparked.session(spark_options) as spark:
            source = place if learn else None
            _run(spark, options, _lesson(spark, options, source, days, tolerance_s))


def _check(options: "LiveOptions", named: "Place | None") -> None:
    """Fail before Spark is started for nothing; also where a lake was named that is none."""
    from aviso_server.pipeline.history.files import look  # noqa: PLC0415 - loaded when used
    from aviso_server.pipeline.live.job import check  # noqa: PLC0415

    check(options)
    if named is not None:
        look(named)


def _options(
    settings: "Settings",
    place: "Place | None",
    url: str | None,
    checkpoint: str | None,
    lengths: dict[str, float],
) -> "LiveOptions":
    from aviso_server.lake.layout import CHECKPOINTS  # noqa: PLC0415
    from aviso_server.pipeline.live.job import LiveOptions  # noqa: PLC0415
    from aviso_server.server.joboptions import source_options  # noqa: PLC0415 - loaded when used

    if checkpoint is not None:
        where = sparked.absolute(checkpoint)
    elif place is not None:
        where = f"{place.table(CHECKPOINTS)}/live"
    else:
        raise AvisoError("there is no lake to keep a checkpoint in: give --checkpoint PATH")
    server = sparked.server(url or settings.application.base_url, token=None)
    return LiveOptions(
        source_options(settings),
        url=server.url,
        checkpoint=where,
        storage={} if place is None else place.options,
        **lengths,  # type: ignore[arg-type]
    )


def _configured(path: Path | None, fields: tuple[str, ...]) -> "tuple[CyclePart, ...]":
    if path is None:
        return ()
    from aviso_server.pipeline.live.expected import (  # noqa: PLC0415 - loaded when used
        BadExpectation,
        parse_expected,
    )
    from aviso_server.settings.literals import duration_s  # noqa: PLC0415

    try:
        document = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeError):
        raise BadExpectation(f"{path} is not YAML") from None
    return parse_expected(document, fields, duration_s)


def _lesson(
    spark: "Session", options: "LiveOptions", place: "Place | None", days: int, tolerance_s: int
) -> "Callable[[], tuple[CyclePart, ...]] | None":
    """What is learned from the lake, where the file says nothing else."""
    if place is None:
        return None
    from aviso_server.pipeline.live.learn import Lesson, learn_from_lake  # noqa: PLC0415 - as above

    lesson = Lesson(place, options.fields, options.part, days, tolerance_s)
    said = {(item.event_type, item.cycle, item.group) for item in options.expected}

    def learn() -> "tuple[CyclePart, ...]":
        more = [
            item
            for item in learn_from_lake(spark, lesson)
            if (item.event_type, item.cycle, item.group) not in said
            and item.event_type in (options.event_types or (item.event_type,))
        ]
        parts = (*options.expected, *more)
        cycles = len({(item.event_type, item.cycle, item.group) for item in parts})
        typer.echo(f"{cycles:,} cycles a day are expected", err=True)
        return parts

    return learn


def _run(
    spark: "Session",
    options: "LiveOptions",
    learn: "Callable[[], tuple[CyclePart, ...]] | None",
) -> None:
    from aviso_server.pipeline.live.job import LiveJob  # noqa: PLC0415 - as above

    stop = threading.Event()
    with _shown() as tell, set_by_signals(stop):
        outcome = LiveJob(spark, options, tell=tell, learn=learn, stop=stop).run()
    typer.echo(summary(outcome), err=True)


def summary(outcome: "LiveOutcome") -> str:
    """One line of what was done."""
    alerts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(outcome.alerts.items()))
    text = f"{outcome.notifications:,} notifications; alerts: {alerts or 'none'}"
    if outcome.late_rows:
        text += f"; {outcome.late_rows:,} notifications came behind the watermark"
    return text


@contextmanager
def _shown() -> "Iterator[Callable[[LiveOutcome], None]]":
    """A line that changes on a terminal; in a pipe only what went wrong, once."""
    if sys.stderr.isatty():
        with Display(console=Console(stderr=True), refresh_per_second=4) as display:
            yield lambda outcome: display.update(_line(outcome))
        return
    before: list[str | None] = [None]

    def tell(outcome: "LiveOutcome") -> None:
        if outcome.trouble is not None and outcome.trouble != before[0]:
            typer.echo(_line(outcome), err=True)
        before[0] = outcome.trouble

    yield tell


def _line(outcome: "LiveOutcome") -> str:
    return summary(outcome) if outcome.trouble is None else outcome.trouble


def _lengths(window: str, slide: str, watermark: str, interval: str) -> dict[str, float]:
    return {
        "window_s": sparked.seconds("--window", window),
        "slide_s": sparked.seconds("--slide", slide),
        "watermark_s": sparked.seconds("--watermark", watermark),
        "interval_s": float(sparked.seconds("--interval", interval)),
    }
