"""An entry as a client sees it: its frame, or a substitute."""

from aviso_server.core.cloudevent import Renderer
from aviso_server.core.frame import notification_frame
from aviso_server.core.notification import Entry, Unreadable


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
