"""``aviso-server serve``: run the server."""

import os
import re
import signal
import time
from dataclasses import dataclass

import typer

from aviso_server.cli.banner import banner
from aviso_server.cli.options import option
from aviso_server.cli.shared import ConfigGroup
from aviso_server.core.json import Json
from aviso_server.server.serve import Running, run
from aviso_server.settings import Fault, Origin, SettingsError
from aviso_server.telemetry import log

EPILOG = """\
\b
Examples:
  aviso-server serve --config examples/config.yaml
  aviso-server serve --config examples/config.yaml --host 0.0.0.0 --port 8080
  aviso-server serve --config examples/config.yaml --port 0     (picks a free port, prints it)

\b
--host and --port win over the environment, which wins over the file.
SIGTERM or Ctrl-C ends every stream cleanly and exits with 0.
"""

_EVENTS = (
    (r"auth(\.|$)", "startup.auth.validation.failed"),
    (r"notification_schema\..*\.auth\.plugins", "startup.auth.plugin_validation.failed"),
    (r"notification_schema\..*\.auth(\.|$)", "startup.auth.stream_validation.failed"),
    (r"metrics(\.|$)", "startup.metrics.validation.failed"),
    (r"ecpds(\.|$)", "startup.ecpds.validation.failed"),
)


@dataclass(frozen=True, kw_only=True)
class ServeGroup:
    """What wins over the settings, and how many processes serve."""

    host: str | None = option(None, "HOST", "Address to listen on.", otherwise="application.host")
    port: int | None = option(
        None,
        "PORT",
        "Port to listen on; 0 picks a free one and prints it.",
        otherwise="application.port",
        min=0,
        max=65_535,
    )
    workers: int = option(
        1,
        "N",
        "Number of processes that share the port; more than one needs JetStream.",
        min=1,
        max=256,
    )


def serve(config: ConfigGroup, chosen: ServeGroup) -> None:
    """Serve with the settings, and with what the command line says on top."""
    # Until the server can reload, a request to do so must not end it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    named: dict[str, Json] = {"host": chosen.host, "port": chosen.port}
    given: Json = {key: value for key, value in named.items() if value is not None}
    overrides = {"application": given}
    settings = config.load(overrides, failed=log_faults)
    origin = Origin(config.config, overrides)

    def started(running: Running) -> None:
        # On stderr: stdout belongs to the log.
        text = banner(running.url, settings.catalogue, kept=running.kept, archive=running.archive)
        typer.echo(text, err=True)

    if chosen.workers > 1:
        # One process needs neither a supervisor nor, with everything in memory, a NATS client.
        from aviso_server.server import workers as crew  # noqa: PLC0415

        raise typer.Exit(crew.run(settings, chosen.workers, started=started, origin=origin))
    raise typer.Exit(run(settings, started=started, origin=origin))


def log_faults(error: SettingsError) -> None:
    """One ERROR record per fault, for those who only see the log.

    The configured logger does not exist, so the default one does it.
    """
    import structlog  # noqa: PLC0415 - the package of servers is the first to load it

    log.configure("info", environ=os.environ, now_ns=time.time_ns)
    for fault in error.faults:
        structlog.get_logger().error(
            "Invalid configuration",
            event_name=event_of(fault),
            path=fault.path,
            error=fault.message,
        )


def event_of(fault: Fault) -> str:
    """The event a fault is logged as: by the section it is in."""
    for pattern, event in _EVENTS:
        if re.match(pattern, fault.path):
            return event
    return "startup.configuration.validation.failed"
