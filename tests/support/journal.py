"""The server's log as a test reads it: to wait until the server has done something.

The client has no hook that says it is connected; the server's own log says so.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from logging import INFO
from typing import Any

import structlog

WATCHING = "api.watch.stream.established"
"""Logged when a watch has its live subscription: what is published now reaches it."""


class Journal:
    """Every record logged while it is open."""

    def __init__(self) -> None:
        self._records: list[dict[str, Any]] = []
        self._grown = asyncio.Event()

    def all(self, event_name: str) -> list[dict[str, Any]]:
        """The records of one kind, so far."""
        return [record for record in self._records if record.get("event_name") == event_name]

    async def seen(self, event_name: str, times: int = 1, *, timeout_s: float = 20) -> None:
        """Wait until records of one kind were logged that many times."""
        async with asyncio.timeout(timeout_s):
            while len(self.all(event_name)) < times:
                self._grown.clear()
                await self._grown.wait()

    def record(self, _: object, level: str, record: Any) -> str:
        """Take one record: the only structlog processor while the journal is open."""
        self._records.append({"log_level": level, **record})
        self._grown.set()
        return ""


@contextmanager
def recorded() -> Iterator[Journal]:
    """Record what servers of this process log."""
    journal = Journal()
    before = structlog.get_config()
    structlog.configure(
        processors=[journal.record],
        wrapper_class=structlog.make_filtering_bound_logger(INFO),
        logger_factory=structlog.ReturnLoggerFactory(),
    )
    try:
        yield journal
    finally:
        structlog.configure(**before)
