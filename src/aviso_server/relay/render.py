"""Entries as a client sees them: the frame of each, or a substitute, joined into writes."""

from collections.abc import Iterable, Iterator

from aviso_server.core.cloudevent import Renderer
from aviso_server.core.frame import notification_frame
from aviso_server.core.notification import Entry, Unreadable

PIECE_BYTES = 256 * 1024
"""History is written in pieces of about this size: large enough to be rare, and what a stalled
reader holds of a batch of large notifications stays bounded."""


def render(renderer: Renderer, entry: Entry, name: bytes) -> bytes | Unreadable:
    """The frame of an entry. One that cannot be rendered must not end all streams."""
    if isinstance(entry, Unreadable):
        return entry
    try:
        return notification_frame(name, renderer.render(entry))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it is one entry only
        topic = entry.notification.topic
        reason = f"Failed to render notification: {type(error).__name__}"
        return Unreadable(entry.sequence, entry.stored_at_ns, topic, reason)


def pieces(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Frames joined into writes of a bounded size."""
    waiting: list[bytes] = []
    size = 0
    for frame in frames:
        waiting.append(frame)
        size += len(frame)
        if size >= PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
