"""The disk below the embedded NATS server: how much is on it, and whether it can be written."""

import os
from pathlib import Path

ROOM_BYTES = 1 << 20
"""Less than this is no room: NATS writes blocks, and keeps the error of one that did not fit."""

SHARE = 0.9
"""Of what the store has and what is free, how much it may take where no limit is set. The rest is
for the files around the messages, and for whoever else writes to the disk. A limit is refused in
order; a full disk is not."""

_AMPLE_BYTES = 16 * ROOM_BYTES
"""With so much free nobody has to try."""

_PROBE = "room.probe"


def free_bytes(folder: Path) -> int:
    """What we may still write."""
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


def default_limit(folder: Path) -> int:
    """How much a store without a limit may grow to.

    NATS would take three quarters of what is free when it starts, and count what is stored against
    it: a store that is more than half of its disk would then take nothing after a restart.
    """
    stored = sum(path.stat().st_size for path in (folder / "store").rglob("*") if path.is_file())
    return int((stored + free_bytes(folder)) * SHARE)


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
    """The same, tried only where little is free: for those who look every few seconds."""
    return None if free_bytes(folder) >= _AMPLE_BYTES else lack_of_room(folder)


def shown_bytes(count: int) -> str:
    """A number of bytes for people, in the units of the settings."""
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}" if unit != "bytes" else f"{count} bytes"
