"""What a stream holds until it ends, which may be long after its handler has returned."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from aiohttp import web

from aviso_server.http.gzip import Gzip


class Held:
    """What is released when a stream ends, the latest first; at the end of a block, or later."""

    __slots__ = ("_releases",)

    def __init__(self) -> None:
        self._releases: list[Callable[[], None]] = []

    def add(self, release: Callable[[], None]) -> None:
        """Hold something else."""
        self._releases.append(release)

    def keep(self) -> "Held":
        """All of it, to be released by the caller; this one holds nothing any more."""
        kept = Held()
        kept._releases, self._releases = self._releases, []
        return kept

    def release(self) -> None:
        """Release everything; harmless when done twice."""
        while self._releases:
            self._releases.pop()()

    def __enter__(self) -> Self:
        """Hold until the block ends, unless it is kept."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release what was not kept."""
        self.release()


class StreamAnswer(web.StreamResponse):
    """The answer to a watch or replay; the stream may go on after its handler has returned."""

    held: Held | None = None
    """Of a stream that goes on: what outlasts the handler is added to it."""
    gzip: Gzip | None = None
    """Of a stream that is compressed."""

    async def write_eof(self, data: bytes = b"") -> None:
        """End the body, unless the stream goes on."""
        if self.held is None:
            await super().write_eof(data if self.gzip is None else self.gzip.end())


def outlast(response: web.StreamResponse, release: Callable[[], None]) -> None:
    """Release something when the answer has ended: now, or with the stream that goes on."""
    if isinstance(response, StreamAnswer) and response.held is not None:
        response.held.add(release)
    else:
        release()
