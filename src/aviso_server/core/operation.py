"""The three things a client does with notifications."""

from enum import Enum


class Operation(Enum):
    """An endpoint's operation; the value is its name in messages."""

    NOTIFY = "notify"
    WATCH = "watch"
    REPLAY = "replay"
