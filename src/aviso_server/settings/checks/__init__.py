"""Start-up checks (docs/configuration.md#start-up-checks): each yields faults, in that order."""

from collections.abc import Iterator

from aviso_server.settings.checks.access import admins, plugins, streams
from aviso_server.settings.checks.application import application
from aviso_server.settings.checks.backend import backend
from aviso_server.settings.checks.ecpds import ecpds
from aviso_server.settings.checks.expectations import expectations
from aviso_server.settings.checks.sections import lake, logging, metrics, streaming
from aviso_server.settings.checks.storage import storage
from aviso_server.settings.checks.topics import fields, spatial, topics
from aviso_server.settings.faults import Fault
from aviso_server.settings.model import Document

CHECKS = (
    application,
    storage,
    topics,
    spatial,
    fields,
    expectations,
    streaming,
    admins,
    plugins,
    streams,
    metrics,
    logging,
    ecpds,
    backend,
    lake,
)


def check(document: Document) -> Iterator[Fault]:
    """Every fault of a document."""
    for part in CHECKS:
        yield from part(document)
