"""What things cost in memory: the one accounting that every limit uses.

Costs are computed from lengths alone, so that counting is cheap and a limit can be checked before
anything is kept. The numbers are what CPython 3.11 takes for the objects, measured with
tracemalloc. tests/core/test_footprint.py compares them with the memory of a process, using the
objects that cost most for their size.

Shared objects count for each holder: a field's name, a text that is both a topic token and an
identifier value. So usually more is counted than is taken, but never far less.
"""

from collections.abc import Iterable

from aviso_server.core.constraint import Choice
from aviso_server.core.filter import Filter
from aviso_server.core.notification import Entry, Notification, Record, Unreadable

TEXT = 57
"""A text besides its characters, and the place that holds it."""

RECORD = 560
"""A record without texts: the notification, its tuple and dictionary, sequence and time, and its
places in a log."""

POINT = 130
"""A point of a place: a tuple of two numbers."""

PLACE = 400
"""An area or a cloud without points: itself, its box."""

TOPIC = 600
"""A topic of which only the newest notifications are kept."""

KEY = 380
"""An idempotency key without its characters: the entry that leads to its sequence and time."""

FRAME = 130
"""A frame in a queued chunk besides its bytes."""

COPIES = 3
"""The bytes of a frame, as they are and encoded, and what the allocator loses between the two."""

CHUNK = 700
"""A queued chunk without its frames."""

FILTER = 2000
"""A filter without what it asks for, and its group in the index."""

CHOICE = 250
"""A value of an ``in`` list, in the filter and in the index."""

FILTER_POINT = 220
"""A point of the area of a filter, as it was sent and as arrays to compare with."""

STREAM = 24_000
"""An open watch or replay without its filter: connection, request, feed, tasks, buffers."""

RESTING = 4000
"""The same while it only waits for notifications: connection and feed."""


def of_entry(entry: Entry) -> int:
    """Bytes that a stored notification takes, or its substitute."""
    if isinstance(entry, Record):
        return of_notification(entry.notification)
    return RECORD + len(entry.topic) + len(entry.reason)


def of_notification(notification: Notification) -> int:
    """Bytes that a notification takes once it is stored."""
    tokens, identifier = notification.tokens, notification.identifier
    size = RECORD + len(notification.payload) + TEXT * (len(tokens) + 2 * len(identifier))
    # Joined, for that is done in one go: this is asked about every notification.
    size += len("".join(tokens)) + len("".join(identifier)) + len("".join(identifier.values()))
    if (place := notification.geometry) is not None:
        size += PLACE + POINT * len(place.points) + len(place.text)
    return size


def of_key(key: str) -> int:
    """Bytes that an idempotency key takes while it is remembered."""
    return KEY + len(key)


def of_frames(frames: Iterable[bytes | Unreadable]) -> int:
    """Bytes that a chunk of frames takes while it is queued."""
    return CHUNK + sum(FRAME + COPIES * len(f) for f in frames if isinstance(f, bytes))


def of_stream(wanted: Filter) -> int:
    """Bytes that a stream takes while it is open, its queue aside."""
    size = STREAM + FILTER + sum(2 * TEXT + 2 * len(text) for _, text in wanted.exact)
    for constraint in wanted.constraints:
        size += TEXT
        if isinstance(constraint, Choice):
            size += CHOICE * len(constraint.choices)
    if wanted.spatial is not None:
        from aviso_server.core.spatial import Intersects  # noqa: PLC0415 - loaded by now

        if isinstance(wanted.spatial, Intersects):
            area = wanted.spatial.area
            size += PLACE + FILTER_POINT * len(area.points) + len(area.text)
    return size
