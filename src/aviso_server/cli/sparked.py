"""What the commands of the pipeline's jobs share: options for Spark and the lake, how they end."""

import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeAlias

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from aviso_server.core.errors import AvisoError

if TYPE_CHECKING:
    from aviso_server.lake.layout import Place
    from aviso_server.pipeline.delivery.target import Target
    from aviso_server.pipeline.spark.session import Session, SparkOptions
    from aviso_server.settings import Settings

Master: TypeAlias = Annotated[
    str | None, typer.Option(metavar="M", help="Spark master: local[*], spark://..., yarn.")
]
Conf: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="K=V", help="Spark setting; may be repeated.")
]
Packages: TypeAlias = Annotated[
    str | None, typer.Option(metavar="C", help="Maven packages for Spark, with commas.")
]
Remote: TypeAlias = Annotated[
    str | None, typer.Option(metavar="sc://...", help="Spark Connect server to run on.")
]
StorageOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="K=V", help="Option of the object store, as delta-rs calls it."),
]
Verbose: TypeAlias = Annotated[bool, typer.Option("--verbose", help="Show stack traces of errors.")]


def spark_options(
    *,
    master: str | None,
    conf: list[str] | None,
    packages: str | None,
    remote: str | None,
    app_name: str,
) -> "SparkOptions":
    """Which Spark is meant; ends the command if the options contradict each other."""
    from aviso_server.pipeline.spark.session import SparkOptions  # noqa: PLC0415 - loaded when used

    if remote and (master or packages):
        raise typer.BadParameter(
            "names a Spark that runs already: --master and --packages go without it",
            param_hint="--remote",
        )
    return SparkOptions(
        master=master or "local[*]",
        conf=pairs("--conf", conf),
        packages=tuple(part.strip() for part in (packages or "").split(",") if part.strip()),
        remote=remote,
        app_name=app_name,
    )


def session(options: "SparkOptions") -> "AbstractContextManager[Session]":
    """A Spark session for one job."""
    from aviso_server.pipeline.spark.session import job_session  # noqa: PLC0415

    return job_session(options)


def place(path: str, storage_option: list[str] | None) -> "Place":
    """A lake by path or URL."""
    from aviso_server.lake.layout import Place  # noqa: PLC0415

    return Place(absolute(path), pairs("--storage-option", storage_option))


def configured_place(
    settings: "Settings", path: str | None, storage_option: list[str] | None
) -> "Place | None":
    """The lake of the settings, with what the command line says on top; None without a path."""
    chosen = path or settings.lake.path
    if chosen is None:
        return None
    made = place(chosen, storage_option)
    known = {
        name: value.get_secret_value() for name, value in settings.lake.storage_options.items()
    }
    return replace(made, options={**known, **made.options})


def place_to_read(
    settings: "Settings | None", path: str | None, storage_option: list[str] | None
) -> "Place":
    """The lake of a command that needs no configuration where it is told a path."""
    if settings is None:
        assert path is not None  # noqa: S101 - such a command asks for one of the two
        return place(path, storage_option)
    found = configured_place(settings, path, storage_option)
    if found is None:
        raise AvisoError("there is no lake to read: set lake.path, or give --lake PATH")
    return found


def absolute(path: str) -> str:
    """A path or URL that means the same to tasks, whose working folders may be others."""
    return path if "://" in path else str(Path(path).absolute())


def server(url: str, *, token: str | None, rate: float | None = None) -> "Target":
    """A server that notifications are published to; ends the command if the address is bad."""
    from aviso_server.pipeline.sink.options import BadSinkOptions, parse_options  # noqa: PLC0415

    given = {"url": url, "onReject": "fail"}
    if token is not None:
        given["token"] = token
    if rate is not None:
        given["rate"] = str(rate)
    try:
        return parse_options(given)
    except BadSinkOptions as error:
        raise typer.BadParameter(str(error), param_hint="--url") from None


def seconds(option: str, text: str) -> int:
    """A duration such as 10s; ends the command if it is none, or nothing."""
    from aviso_server.settings.literals import LiteralError, duration_s  # noqa: PLC0415

    try:
        found = duration_s(text)
    except LiteralError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    if found == 0:
        raise typer.BadParameter("must be at least 1s", param_hint=option)
    return found


def pairs(option: str, given: list[str] | None) -> Mapping[str, str]:
    """Options of the form NAME=VALUE."""
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter("must look like NAME=VALUE", param_hint=option)
        found[name.strip()] = value
    return found


@contextmanager
def told(command: str, *, verbose: bool = False) -> Iterator[None]:
    """Errors on purpose become one line and exit code 1; SIGTERM ends the block as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except (AvisoError, OSError) as error:
        if verbose:
            typer.echo("".join(traceback.format_exception(error)), err=True)
        typer.echo(f"aviso-server pipeline {command}: {error}", err=True)
        raise typer.Exit(1) from None
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        typer.echo(
            f"aviso-server pipeline {command}: PySpark is not installed; install it with: "
            "pip install 'aviso-server[spark]'",
            err=True,
        )
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo(f"aviso-server pipeline {command}: interrupted", err=True)
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A function that takes steps; a bar on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
