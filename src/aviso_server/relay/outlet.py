"""Where a feed's bytes go: the seam between the relay and a connection."""

from typing import Protocol

from aviso_server.relay.subscription import Chunk


class Outlet(Protocol):
    """One client's connection."""

    async def send(self, frames: bytes) -> None:
        """Write, and return when the client can take more: this sets the feed's pace."""
        ...

    async def deliver(self, chunk: Chunk) -> None:
        """Write a chunk shared by all, without copying it; then as ``send``."""
        ...

    def pass_on(self, chunk: Chunk) -> bool:
        """Write a chunk at once if nothing at all is waiting to be written; else False.

        Called for each watcher of each chunk: no task is woken, and little else is done.
        """
        ...
