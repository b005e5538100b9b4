"""The command ``aviso-server pipeline synth``."""

import datetime as dt
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from aviso_server.cli import sparked

if TYPE_CHECKING:
    from aviso_server.pipeline.synth.job import Options

EPILOG = """\
\b
Examples:
  aviso-server pipeline synth --lake var/lake --count 1000000 --seed 7
  aviso-server pipeline synth --lake var/lake --days 30 --start 2026-01-01
  aviso-server pipeline synth --ndjson requests.ndjson --count 10000
  aviso-server pipeline synth --url http://127.0.0.1:8000 --count 10000 --rate 500

\b
The event types are those of examples/config.yaml. The same arguments give the same history, byte
for byte, however many processes make it. A lake needs no Java unless --master or --remote is given.

\b
Exit code 0: all of it is there. 1: nothing of it is visible, and one line on stderr says why
(a server keeps what it has taken). 2: wrong usage.
"""


_Lake: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PATH", help="Folder or URL of a lake of its own.")
]
_Ndjson: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Requests, one a line, in time order.")
]
_Url: TypeAlias = Annotated[str | None, typer.Option(metavar="URL", help="Publish to this server.")]
_Count: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Notifications; 300000 for each day.")
]
_Days: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Days; as many as the count needs.")
]
_Start: TypeAlias = Annotated[
    dt.datetime, typer.Option(metavar="DAY", formats=["%Y-%m-%d"], help="The first day.")
]
_Seed: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=0, help="Another one, another past.")
]
_Processes: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, max=256, help="Side by side; all processors.")
]
_Rate: TypeAlias = Annotated[
    float | None, typer.Option(metavar="N", min=0.001, help="Per second, to a server.")
]
_Token: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="T", envvar="AVISO_TOKEN", help="Bearer token for the server."),
]


def synth(  # noqa: PLR0913 - the options of a command
    *,
    lake: _Lake = None,
    ndjson: _Ndjson = None,
    url: _Url = None,
    count: _Count = None,
    days: _Days = None,
    start: _Start = dt.datetime(2026, 1, 1),  # noqa: DTZ001 - a day, as it is typed
    seed: _Seed = 0,
    processes: _Processes = None,
    rate: _Rate = None,
    token: _Token = None,
    storage_option: sparked.StorageOption = None,
    master: sparked.Master = None,
    conf: sparked.Conf = None,
    packages: sparked.Packages = None,
    remote: sparked.Remote = None,
    verbose: sparked.Verbose = False,
) -> None:
    """Make a realistic synthetic history: forecasts, products, warnings, storms."""
    if sum(way is not None for way in (lake, ndjson, url)) != 1:
        raise typer.BadParameter("give one of --lake, --ndjson and --url")
    if (master or remote) and lake is None:
        raise typer.BadParameter("Spark writes lakes only", param_hint="--master")
    from aviso_server.pipeline.synth import Plan  # noqa: PLC0415 - loaded when it is used
    from aviso_server.pipeline.synth.crew import cores  # noqa: PLC0415
    from aviso_server.pipeline.synth.job import Options, run  # noqa: PLC0415

    with sparked.told("synth", verbose=verbose), ExitStack() as stack:
        options = Options(
            plan=Plan.of(start.date(), days=days, count=count, seed=seed),
            lake=None if lake is None else sparked.place(lake, storage_option),
            ndjson=ndjson,
            server=None if url is None else sparked.server(url, token=token, rate=rate),
            processes=cores() if processes is None else processes,
        )
        spark = None
        if master or remote:
            chosen = sparked.spark_options(
                master=master,
                conf=conf,
                packages=packages,
                remote=remote,
                app_name="aviso-server synth",
            )
            spark = stack.enter_context(sparked.session(chosen))
        advance = stack.enter_context(sparked.bar("synth", options.plan.count))
        outcome = run(options, spark=spark, told=advance)
    for name, made in outcome.counts.items():
        typer.echo(f"{name:<16}{made:>12,}")
    typer.echo(
        f"{'all':<16}{outcome.count:>12,}  from {options.plan.start} to {options.plan.end}"
        f" in {outcome.seconds:.1f} s{_into(options)}"
    )


def _into(options: "Options") -> str:
    if options.lake is not None:
        return f", in the lake {options.lake.path}"
    return f", in {options.ndjson}" if options.ndjson is not None else ""
