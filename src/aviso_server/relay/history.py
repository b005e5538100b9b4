"""The past of a stream as one thing to read, whichever tiers it is made of.

Today there is one tier, the backend's log, which is itself a ``History``. The memory tail in
front of it and the lake behind it join here, by sequence (design.md 2).
"""

from typing import Protocol

from aviso_server.backends.backend import Batch, Bounds


class History(Protocol):
    """Reading the past by sequence or by time; the duties are those stated at ``Backend``."""

    async def bounds(self, event_type: str) -> Bounds:
        """The bounds now."""
        ...

    async def read(self, event_type: str, first: int, last: int, *, limit: int) -> Batch:
        """Up to ``limit`` entries of ``first..last``."""
        ...

    async def first_since(self, event_type: str, ns: int) -> int:
        """Lowest stored sequence at or after a storage time."""
        ...

    async def last_until(self, event_type: str, ns: int) -> int:
        """Highest stored sequence at or before a storage time."""
        ...
