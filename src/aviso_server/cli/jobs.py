"""What the commands of the pipeline's jobs share: groups of options, and a bar."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

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

from aviso_server.cli.options import option
from aviso_server.core.errors import AvisoError
from aviso_server.lake.layout import Place
from aviso_server.pipeline.delivery.target import Target
from aviso_server.pipeline.sink.options import BadSinkOptions, absolute, parse_options
from aviso_server.pipeline.spark.session import SparkOptions
from aviso_server.settings import Settings
from aviso_server.settings.literals import LiteralError, duration_s

_Default = TypeVar("_Default", bool, bool | None)

FINDINGS = 3
"""The exit code of a command that compared, and found what should not be."""


def event_type_option() -> list[str] | None:
    """``--event-type``, of a job for some of them."""
    text = "Only this event type. May be repeated."
    return option(None, "EVENT_TYPE", text, "--event-type", otherwise="all")


def token_option() -> str | None:
    """``--token``."""
    return option(None, "TOKEN", "Bearer token for the server.", envvar="AVISO_TOKEN")


def metrics_port_option() -> int | None:
    """``--metrics-port``, of a job that runs until it is stopped."""
    return option(None, "PORT", "Serve Prometheus metrics on this port.", min=0, max=65_535)


def data_loss_option(default: _Default) -> _Default:
    """``--fail-on-data-loss``."""
    text = "Fail if the log was trimmed before all of it was archived."
    return option(default, None, text, "--fail-on-data-loss/--no-fail-on-data-loss")


@dataclass(frozen=True, kw_only=True)
class LakeGroup:
    """Which lake is meant."""

    lake: str | None = option(None, "PATH", "Folder or URL of the lake.", otherwise="lake.path")
    storage_option: list[str] | None = option(
        None, "NAME=VALUE", "Option of the object store, as delta-rs names it. May be repeated."
    )

    @property
    def storage(self) -> Mapping[str, str]:
        """Options of the object store."""
        return pairs("--storage-option", self.storage_option)

    def place(self, settings: Settings | None = None) -> Place | None:
        """The lake of the settings, with what the command line says on top; None without a path."""
        configured = None if settings is None else settings.lake.path
        return self.place_of(self.lake or configured, settings)

    def place_of(self, path: str | None, settings: Settings | None) -> Place | None:
        """Another place, reached as the lake is; None without a path."""
        chosen, configured = self.storage, {}
        if settings is not None:
            configured = {
                name: value.get_secret_value()
                for name, value in settings.lake.storage_options.items()
            }
        return None if path is None else Place(absolute(path), {**configured, **chosen})

    def existing(self, settings: Settings | None = None, *, purpose: str = "read") -> Place:
        """The lake of a command that cannot do without one."""
        place = self.place(settings)
        if place is None:
            raise AvisoError(f"there is no lake to {purpose}: set lake.path, or give --lake PATH")
        return place


@dataclass(frozen=True, kw_only=True)
class SparkGroup:
    """Which Spark is meant, and whether errors come with stack traces."""

    master: str | None = option(
        None,
        "MASTER",
        "Spark master to run on: local[*], spark://HOST:PORT, yarn, k8s://...",
        otherwise="local[*]; for archive, lake.spark_master",
    )
    conf: list[str] | None = option(None, "NAME=VALUE", "Setting of Spark. May be repeated.")
    packages: str | None = option(
        None, "PACKAGES", "Maven packages for Spark to load, separated by commas."
    )
    remote: str | None = option(
        None, "sc://HOST:PORT", "Spark Connect server to run on, instead of starting Spark."
    )

    def options(self, command: str, settings: Settings | None = None) -> SparkOptions:
        """With defaults from the settings, if they are given; ends the command if it cannot be."""
        if self.remote and (self.master or self.packages):
            raise typer.BadParameter(
                "names a Spark that runs already: --master and --packages go without it",
                param_hint="--remote",
            )
        app_name, conf = f"aviso-server {command}", pairs("--conf", self.conf)
        if self.remote:
            # What a session is started with is not the business of one that runs already.
            return SparkOptions(conf=conf, remote=self.remote, app_name=app_name)
        named = (part.strip() for part in (self.packages or "").split(","))
        packages = tuple(part for part in named if part)
        if settings is None:
            return SparkOptions(self.master or "local[*]", conf, packages, app_name=app_name)
        lake = settings.lake
        return SparkOptions(
            self.master or lake.spark_master,
            {**lake.spark_conf, **conf},
            packages or tuple(lake.spark_packages),
            app_name=app_name,
        )


def target(url: str, *, token: str | None, rate: float | None = None) -> Target:
    """A server that notifications are published to; ends the command if the address is bad."""
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
    try:
        length = duration_s(text)
    except LiteralError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    if length == 0:
        raise typer.BadParameter("must be at least 1s", param_hint=option)
    return length


def pairs(option: str, given: list[str] | None) -> Mapping[str, str]:
    """Options of the form NAME=VALUE."""
    values = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter("must look like NAME=VALUE", param_hint=option)
        values[name.strip()] = value
    return values


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
