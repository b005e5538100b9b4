"""``python -m tools.synth``: makes a synthetic history (docs/synth.md)."""

import datetime as dt
import sys
from pathlib import Path
from typing import Annotated

import typer

from aviso_server.core.errors import AvisoError
from aviso_server.lake.layout import Place
from aviso_server.pipeline.delivery.target import Target
from aviso_server.pipeline.sink.options import BadSinkOptions, parse_options
from tools.synth.job import Options, run
from tools.synth.parallel import cores
from tools.synth.plan import Plan

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command()
def synth(  # noqa: PLR0913 - the options of a command
    *,
    lake: Annotated[str | None, typer.Option(metavar="PATH", help="Folder for a new lake.")] = None,
    ndjson: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File of requests, one per line, by time.")
    ] = None,
    url: Annotated[str | None, typer.Option(metavar="URL", help="Server to publish to.")] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Notifications; by default 300000 for each day.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, help="Days; by default as many as the count needs.")
    ] = None,
    start: Annotated[dt.datetime, typer.Option(formats=["%Y-%m-%d"], help="The first day.")] = (
        dt.datetime(2026, 1, 1)  # noqa: DTZ001 - a day, as it is typed
    ),
    seed: Annotated[int, typer.Option(min=0, help="Each seed makes another history.")] = 0,
    processes: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes; by default one per processor.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Notifications per second, to a server.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="AVISO_TOKEN", help="Bearer token for the server.")
    ] = None,
) -> None:
    """Make a realistic synthetic history: forecasts, products, warnings, storms.

    The event types are those of examples/config.yaml. The same arguments make the same history,
    byte for byte, however many processes make it.
    """
    if sum(way is not None for way in (lake, ndjson, url)) != 1:
        raise typer.BadParameter("give one of --lake, --ndjson and --url")
    try:
        options = Options(
            plan=Plan.of(start.date(), days=days, count=count, seed=seed),
            lake=None if lake is None else Place(str(Path(lake).absolute())),
            ndjson=ndjson,
            server=None if url is None else _server(url, token=token, rate=rate),
            processes=cores() if processes is None else processes,
        )
        outcome = run(options)
    except AvisoError as error:
        typer.echo(f"tools.synth: {error}", err=True)
        sys.exit(1)
    for name, made in outcome.counts.items():
        typer.echo(f"{name:<16}{made:>12,}")
    typer.echo(
        f"{'all':<16}{outcome.count:>12,}  from {options.plan.start} to {options.plan.end}"
        f" in {outcome.seconds:.1f} s, in {lake or ndjson or url}"
    )


def _server(url: str, *, token: str | None, rate: float | None) -> Target:
    given = {"url": url, "onReject": "fail", "token": token or "", "rate": f"{rate or 0}"}
    try:
        return parse_options(given)
    except BadSinkOptions as error:
        raise typer.BadParameter(str(error), param_hint="--url") from None


if __name__ == "__main__":
    app()
