"""The disk below the embedded NATS server: how much is on it, and whether it can be written."""

import os
from pathlib import Path

ROOM_BYTES = 1 << 20
"""Less than this is no room: NATS writes blocks, and keeps the error of one that did not fit."""

SHARE = 0.9
"""Of the disk, how much the store may take where no limit is set. The rest is for the files around
the messages: at a limit NATS refuses in order, on a full disk it does not."""

_AMPLE_BYTES = 16 * ROOM_BYTES
"""With this much free there is no need to try."""

_PROBE = "room.probe"


def free_bytes(folder: Path) -> int:
    """What we may still write."""
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


def default_limit(folder: Path) -> int:
    """How much a store without a limit may grow to.

    NATS would take three quarters of what is free when it starts, and count what is stored against
    it: a store that is most of its disk would then take nothing after a restart. And what others
    have on the disk may go again, while a limit stays.
    """
    state = os.statvfs(folder)
    usable = state.f_blocks - (state.f_bfree - state.f_bavail)  # without what is kept for root
    return int(usable * state.f_frsize * SHARE)


def lack_of_room(folder: Path) -> str | None:
    """Why nothing can be written here, found by reserving some room for real; None if it can."""
    path = folder / _PROBE
    try:
        handle = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.posix_fallocate(handle, 0, ROOM_BYTES)
        finally:
            os.close(handle)
            path.unlink()
    except OSError as error:
        return os.strerror(error.errno or 0).lower()
    return None


def shortage(folder: Path) -> str | None:
    """The same, tried only if little is free: for callers that check every few seconds."""
    return None if free_bytes(folder) >= _AMPLE_BYTES else lack_of_room(folder)


def shown_bytes(count: int) -> str:
    """A number of bytes for people, in the units of the settings."""
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}" if unit != "bytes" else f"{count} bytes"
