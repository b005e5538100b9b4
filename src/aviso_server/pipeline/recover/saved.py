"""Stored messages in a file, unchanged: what is only in a log, before the log drops it.

One JSON object per line: where the message was, when it was stored, and the message itself, which
is enough to store it again as it was sent. A file that exists is complete and on disk.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from aviso_server.backends.jetstream.messages import Stored
from aviso_server.core.errors import AvisoError
from aviso_server.core.json import UNREADABLE
from aviso_server.core.moment import rfc3339
from aviso_server.process import sync_folder

DONE, SUPERSEDED = ".done", ".superseded"
"""End the name of a file whose messages are stored again, or are in a newer file."""


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """One message."""

    event_type: str
    sequence: int
    time: str
    time_ns: int
    subject: str
    headers: dict[str, str]
    body: bytes
    """In base64."""

    @property
    def message_id(self) -> str:
        """Identifies copies for ever: it is stored with the copy."""
        return f"recovered/{self.sequence}/{self.time_ns}"


class Saving:
    """A file being written; ``keep`` makes it whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._partial = path.with_name(f".{path.name}.partial")
        self._stream = self._partial.open("wb")

    def add(self, event_type: str, message: Stored) -> None:
        """Write one message."""
        # What NATS itself adds to a message is not part of it.
        headers = {k: v for k, v in message.headers.items() if not k.startswith("Nats-")}
        line = Line(
            event_type,
            message.sequence,
            rfc3339(message.time_ns),
            message.time_ns,
            message.subject,
            headers,
            message.body,
        )
        self._stream.write(msgspec.json.encode(line) + b"\n")
        self.count += 1

    def keep(self) -> None:
        """Make the file whole and durable; without messages there is none."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        if self.count == 0:
            self._partial.unlink()
            return
        self._partial.replace(self.path)
        sync_folder(self.path.parent)


def set_aside(path: Path, why: str) -> None:
    """Keep a file that nothing is to be done with any more."""
    path.rename(path.with_name(path.name + why))


def read_saved(path: Path) -> Iterator[Line]:
    """The messages of a file, in their order."""
    decoder = msgspec.json.Decoder(Line)
    with path.open("rb") as stream:
        for number, text in enumerate(stream, 1):
            try:
                line = decoder.decode(text)
            except UNREADABLE as error:
                raise AvisoError(f"line {number} of {path} cannot be read: {error}") from None
            if any(blank in line.subject for blank in " \t\r\n"):
                raise AvisoError(f"line {number} of {path} has a blank in its subject")
            yield line
