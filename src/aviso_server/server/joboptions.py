"""From settings to the pipeline's jobs: where the log is."""

import json
from collections.abc import Mapping
from pathlib import Path

from aviso_server.core.declaration import declaration
from aviso_server.core.errors import AvisoError
from aviso_server.pipeline.source.options import read_options
from aviso_server.settings import Settings


class JobRefused(AvisoError):
    """The settings do not describe a job; the message says what is missing."""


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


def _present(options: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}
