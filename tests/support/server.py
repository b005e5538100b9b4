"""A server in this process, on a real socket."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp
from support.sse import Stream, opened

from aviso_server.backends.jetstream.options import Pace
from aviso_server.server.build import open_backend
from aviso_server.server.serve import Running, serving
from aviso_server.settings import Settings


@dataclass(frozen=True)
class Client:
    """A plain HTTP client of a running server."""

    running: Running
    session: aiohttp.ClientSession

    async def notify(
        self, event_type: str, identifier: Mapping[str, Any], **rest: Any
    ) -> dict[str, Any]:
        """Publish, which must succeed; the answer."""
        body = {"event_type": event_type, "identifier": identifier, **rest}
        async with self.session.post(
            f"{self.running.url}/api/v1/notification", json=body
        ) as response:
            answer: dict[str, Any] = await response.json()
            assert response.status == 200, answer
            return answer

    async def delete(self, notification_id: str) -> int:
        """Delete one notification; the status."""
        url = f"{self.running.url}/api/v1/admin/notification/{notification_id}"
        async with self.session.delete(url) as response:
            return response.status

    async def stores(self, event_type: str, identifier: Mapping[str, Any], payload: Any) -> bool:
        """Publish once; whether it succeeded."""
        body = {"event_type": event_type, "identifier": dict(identifier), "payload": payload}
        url = f"{self.running.url}/api/v1/notification"
        async with self.session.post(url, json=body) as response:
            return response.status == 200

    async def payloads(self, event_type: str = "ev", **identifier: Any) -> list[Any]:
        """The payloads that the server has, in order."""
        async with self.replay(event_type, identifier, from_id="1") as stream:
            return [e.data["data"]["payload"] for e in await stream.rest() if e.kind == "replay"]

    def watch(
        self, event_type: str, identifier: Mapping[str, Any], **rest: Any
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a watch."""
        body = {"event_type": event_type, "identifier": identifier, **rest}
        return opened(f"{self.running.url}/api/v1/watch", body)

    def replay(
        self, event_type: str, identifier: Mapping[str, Any], **rest: Any
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a replay."""
        body = {"event_type": event_type, "identifier": identifier, **rest}
        return opened(f"{self.running.url}/api/v1/replay", body)


@asynccontextmanager
async def connected(settings: Settings, *, pace: Pace | None = None) -> AsyncIterator[Client]:
    """Run a server with these settings and a client of it."""
    timeout = aiohttp.ClientTimeout(total=60)
    async with (
        serving(settings, opened=partial(open_backend, pace=pace)) as running,
        aiohttp.ClientSession(timeout=timeout) as session,
    ):
        yield Client(running, session)
