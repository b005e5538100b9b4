"""Reading SSE as a client would: frames as they arrive, with their exact bytes."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp


@dataclass(frozen=True)
class Event:
    """One frame."""

    raw: bytes

    @property
    def name(self) -> str:
        """The ``event:`` line."""
        return self.raw.split(b"\n", 1)[0].removeprefix(b"event: ").decode()

    @property
    def data(self) -> dict[str, Any]:
        """The ``data:`` line."""
        decoded: dict[str, Any] = json.loads(self.raw.split(b"\n")[1].removeprefix(b"data: "))
        return decoded

    @property
    def kind(self) -> str:
        """The control type or close reason where there is one, else the event name."""
        if self.name == "connection-closing":
            return str(self.data["reason"])
        if self.name in {"live-notification", "replay"} and "specversion" in self.data:
            return self.name
        return str(self.data.get("type", self.name))


class Stream:
    """An open watch or replay."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self._buffer = b""

    async def next(self) -> Event | None:
        """The next frame; None at the end of the body."""
        while b"\n\n" not in self._buffer:
            piece = await self.response.content.readany()
            if not piece:
                assert self._buffer == b"", "the body ended inside a frame"
                return None
            self._buffer += piece
        frame, self._buffer = self._buffer.split(b"\n\n", 1)
        return Event(frame + b"\n\n")

    async def until(self, kind: str) -> list[Event]:
        """Frames up to and including the first of that kind."""
        seen = []
        while (event := await self.next()) is not None:
            seen.append(event)
            if event.kind == kind:
                return seen
        raise AssertionError(f"no {kind!r} in {[e.kind for e in seen]}")

    async def rest(self) -> list[Event]:
        """All frames to the end."""
        seen = []
        while (event := await self.next()) is not None:
            seen.append(event)
        return seen


@asynccontextmanager
async def opened(
    url: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> AsyncIterator[Stream]:
    """POST a watch or replay request and read its frames."""
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session,
        session.post(url, json=body, headers=headers) as response,
    ):
        assert response.status == 200, await response.text()
        yield Stream(response)


def sequences(events: list[Event], name: str | None = None) -> list[int]:
    """The sequences of the notifications among frames."""
    return [
        e.data["sequence"]
        for e in events
        if e.kind in ({name} if name else {"replay", "live-notification"})
    ]
