"""Files that the settings name: whether they can be read, for a check before a start."""

from collections.abc import Iterator
from pathlib import Path

from aviso_server.settings.faults import Fault
from aviso_server.settings.model import Section, Settings


def unreadable(settings: Settings) -> list[Fault]:
    """A fault for every file that is named and cannot be read by this user."""
    found = []
    for path, name in _files(settings):
        try:
            Path(name).open("rb").close()
        except OSError as error:
            found.append(Fault(path, f"{name} cannot be read: {error.strerror}"))
    return found


def _files(settings: Settings) -> Iterator[tuple[str, str]]:
    jetstream = settings.notification_backend.jetstream
    if settings.notification_backend.kind == "jetstream" and not jetstream.embedded:
        keys = ("credentials_file", "tls_ca_file", "tls_cert_file", "tls_key_file")
        yield from _given("notification_backend.jetstream", jetstream, keys)
    if settings.application.tls is not None:
        tls = settings.application.tls
        yield from _given("application.tls", tls, ("certificate", "key", "client_ca"))
    if settings.auth.enabled:
        yield from _given("auth", settings.auth, ("public_key_file",))


def _given(path: str, section: Section, keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for key in keys:
        if name := getattr(section, key):
            yield f"{path}.{key}", name
