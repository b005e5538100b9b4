"""What the embedded NATS server writes about itself, in our own log.

It writes to a pipe instead of a file: a file beside the store is full when the store is, and then
hides the reason. Its errors and warnings are logged as ours, a few a minute; the rest at debug.
"""

import asyncio
import contextlib
import os
import re
import time
from collections import deque
from collections.abc import Callable

import structlog

_LINE = re.compile(r"(?:\[\d+\] )?\S+ \S+ \[(?P<level>[A-Z]{3})\] (?P<text>.*)")
_CANNOT_WRITE = re.compile(
    r"critical write error|failed to store a msg|no space left|out of .{0,40}resources",
    re.IGNORECASE,
)
"""How NATS reports that it could not write. There is nothing but its text to recognise it by: the
publisher gets no answer at all."""

_WINDOW_S = 60.0
_PER_WINDOW = 10
"""Records of one level in a minute; a full disk makes one for every notification."""
_KEPT = 20
"""Newest lines, for the message of a start that failed."""


class ServerLog:
    """Reads what one server writes to ``descriptor``; ``failed`` hears what it could not write."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._failed = failed
        self._newest: deque[str] = deque(maxlen=_KEPT)
        self._budgets = {"warning": _Budget(), "error": _Budget()}
        self._source, self.descriptor = os.pipe()
        self._reading: asyncio.Task[None] | None = None

    @property
    def descriptors(self) -> tuple[int, int]:
        """Both ends, for the server to inherit.

        With the reading end in its own hands it survives our death for as long as it takes to close
        its store: writing to a pipe without a reader would kill it.
        """
        return self._source, self.descriptor

    @property
    def complaint(self) -> str:
        """The last error it reported, else the last thing it said."""
        lines = [line for line in self._newest if "[ERR]" in line or "[FTL]" in line]
        last = (lines or list(self._newest) or ["nothing was said"])[-1]
        found = _LINE.fullmatch(last)
        return found["text"] if found else last

    async def start(self) -> None:
        """Begin to read; the server has its ends by now."""
        os.close(self.descriptor)
        reader = asyncio.StreamReader()
        pipe = os.fdopen(self._source, "rb", 0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._reading = asyncio.create_task(self._read(reader, transport), name="log of NATS")

    async def end(self) -> None:
        """Read the remaining output of a server that has ended, and close."""
        if self._reading is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._reading

    async def _read(self, reader: asyncio.StreamReader, pipe: asyncio.ReadTransport) -> None:
        try:
            while True:
                try:
                    line = await reader.readline()
                except ValueError:
                    continue  # far too long for a line of a log; the rest of it follows
                if not line:
                    return
                self._take(line.decode(errors="replace").rstrip())
        finally:
            pipe.close()

    def _take(self, line: str) -> None:
        self._newest.append(line)
        found = _LINE.fullmatch(line)
        level, text = (found["level"], found["text"]) if found else ("INF", line)
        journal = structlog.get_logger()
        if level in {"ERR", "FTL"} and self._budgets["error"].allows():
            journal.error(
                "NATS server reports an error",
                event_name="backend.jetstream.embedded.error",
                error=text,
                suppressed=self._budgets["error"].take_suppressed(),
            )
        elif level == "WRN" and self._budgets["warning"].allows():
            journal.warning(
                "NATS server reports a warning",
                event_name="backend.jetstream.embedded.warning",
                error=text,
                suppressed=self._budgets["warning"].take_suppressed(),
            )
        else:
            journal.debug("NATS server", event_name="backend.jetstream.embedded.said", text=text)
        if level in {"ERR", "FTL"} and _CANNOT_WRITE.search(text):
            # What comes last is what the system said; before it stand files and names.
            self._failed(text.rpartition(": ")[2])


class _Budget:
    """How many records there may be in a minute."""

    def __init__(self) -> None:
        self._since = 0.0
        self._logged = 0
        self._suppressed = 0

    def allows(self) -> bool:
        now = time.monotonic()
        if now - self._since >= _WINDOW_S or not self._logged:
            self._since, self._logged = now, 0
        if self._logged >= _PER_WINDOW:
            self._suppressed += 1
            return False
        self._logged += 1
        return True

    def take_suppressed(self) -> int:
        """How many were left out since the last record."""
        count, self._suppressed = self._suppressed, 0
        return count
