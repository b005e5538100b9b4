"""Checks on the lake: it archives a log that outlives the process, and has a place."""

from collections.abc import Iterator

from aviso_server.settings.faults import Fault
from aviso_server.settings.model import Document


def lake(document: Document) -> Iterator[Fault]:
    """The lake and its archive job; without a path there is none."""
    section = document.lake
    if section.archive_interval_seconds <= 0:
        where = "lake.archive_interval_seconds"
        yield Fault(where, f"{where} must be greater than zero")
    if section.cache_bytes < 0:
        yield Fault("lake.cache_bytes", "lake.cache_bytes must not be negative")
    if section.path is None:
        if section.archive == "managed":
            yield Fault("lake.archive", "lake.archive managed needs lake.path")
    elif not section.path.strip():
        yield Fault("lake.path", "lake.path must not be empty")
    elif document.notification_backend.kind == "in_memory":
        # Sequences restart with every process, so they could not be distinguished in the lake.
        yield Fault("lake.path", "lake needs notification_backend.kind jetstream")
