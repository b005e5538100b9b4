"""From settings to the pipeline's jobs, with what the command line says on top."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aviso_server.core.declaration import declaration
from aviso_server.core.errors import AvisoError
from aviso_server.lake.layout import Place
from aviso_server.pipeline.archive.job import (
    ArchiveFailed,
    ArchiveJob,
    ArchiveOptions,
    wait_for_log,
)
from aviso_server.pipeline.archive.progress import ArchiveSnapshot, ArchiveTally
from aviso_server.pipeline.source.options import read_options
from aviso_server.pipeline.spark.session import SparkOptions, job_session
from aviso_server.process import set_by_signals
from aviso_server.settings import Settings


class JobRefused(AvisoError):
    """The settings do not describe a job; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the command line says; None or empty leaves it to the settings."""

    lake: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    event_types: tuple[str, ...] = ()
    once: bool = False
    interval_s: float | None = None
    checkpoint: str | None = None
    max_records: int | None = None
    fail_on_data_loss: bool | None = None
    wait_s: float | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    packages: tuple[str, ...] = ()
    remote: str | None = None


def archive_options(settings: Settings, chosen: Chosen) -> ArchiveOptions:
    """What the archive job does."""
    lake = settings.lake
    path = chosen.lake or lake.path
    if path is None:
        raise JobRefused("there is no lake to write to: set lake.path, or give --lake PATH")
    known = {name: value.get_secret_value() for name, value in lake.storage_options.items()}
    defaults = ArchiveOptions(Place(""), {})
    return ArchiveOptions(
        place=Place(_absolute(path), {**known, **chosen.storage_options}),
        source=source_options(settings),
        event_types=chosen.event_types,
        once=chosen.once,
        interval_s=chosen.interval_s or lake.archive_interval_seconds,
        checkpoint=None if chosen.checkpoint is None else _absolute(chosen.checkpoint),
        max_records=chosen.max_records or defaults.max_records,
        fail_on_data_loss=_first(chosen.fail_on_data_loss, lake.fail_on_data_loss),
        wait_s=chosen.wait_s or defaults.wait_s,
    )


def spark_options(settings: Settings, chosen: Chosen) -> SparkOptions:
    """Which Spark runs it."""
    lake = settings.lake
    if chosen.remote and (chosen.master or chosen.packages):
        raise JobRefused(
            "--remote names a Spark that runs already: --master and --packages go without it"
        )
    return SparkOptions(
        master=chosen.master or lake.spark_master,
        # What a session is started with is not the business of one that runs already.
        conf={**({} if chosen.remote else lake.spark_conf), **chosen.conf},
        packages=() if chosen.remote else chosen.packages or lake.spark_packages,
        remote=chosen.remote,
        app_name="aviso-server archive",
    )


def run_archive(
    options: ArchiveOptions, spark: SparkOptions, *, tell: Callable[[ArchiveSnapshot], None]
) -> None:
    """Run the job until it is done or the process is asked to end; AvisoError if it fails."""
    stop = threading.Event()
    try:
        with set_by_signals(stop):
            # Through Connect, log and lake are for the server to reach, and may not be for us.
            known = None if spark.remote else wait_for_log(options, stop, tell=tell)
            if stop.is_set():
                tell(ArchiveTally(known).snapshot("stopped", time.time()))
                return
            tell(ArchiveTally(known).snapshot("starting", time.time()))
            with job_session(spark) as session, set_by_signals(stop):
                ArchiveJob(session, options, tell=tell, known=known, stop=stop).run()
    except AvisoError as error:
        if not isinstance(error, ArchiveFailed):  # which has already reported, and knows more
            tell(ArchiveSnapshot("failed", error=error.message))
        raise


def source_options(settings: Settings) -> dict[str, str]:
    """Where the log is, as options of the Spark source."""
    backend = settings.notification_backend
    if backend.kind != "jetstream":
        raise JobRefused(
            "there is no log to archive: notification_backend.kind is "
            f"{backend.kind}, and only jetstream keeps one that a job can read"
        )
    jetstream = backend.jetstream
    declared = [declaration(schema) for schema in settings.catalogue.schemas.values()]
    schemas = {"schemas": json.dumps(declared)}
    if jetstream.embedded:
        # Read again at every connection: address and token change when the server restarts.
        return {"addressFile": str(Path(jetstream.store_dir).resolve() / "address"), **schemas}
    servers = jetstream.servers
    if jetstream.tls_required:
        servers = tuple(f"tls://{address.rpartition('://')[2]}" for address in servers)
    given = {
        "servers": ",".join(servers),
        "token": jetstream.token.get_secret_value() if jetstream.token else None,
        "username": jetstream.username,
        "password": jetstream.password.get_secret_value() if jetstream.password else None,
    }
    # Credentials inside an address become separate options: Spark hides those in its plans.
    access = read_options({**_present(given), "eventType": "*"}).access
    reached = {
        "servers": ",".join(access.addresses),
        "token": access.token,
        "username": access.username,
        "password": access.password,
        "credentialsFile": jetstream.credentials_file,
        "tlsCaFile": jetstream.tls_ca_file,
        "tlsCertFile": jetstream.tls_cert_file,
        "tlsKeyFile": jetstream.tls_key_file,
    }
    return {**_present(reached), **schemas}


def _first(chosen: bool | None, configured: bool) -> bool:  # noqa: FBT001 - the two of them
    return configured if chosen is None else chosen


def _present(options: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


def _absolute(path: str) -> str:
    """Tasks and the JVM may have other working folders."""
    return path if "://" in path else str(Path(path).resolve())
