"""Requests to the services that decide about access; one pool of connections, made when needed."""

from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
from aiohttp.hdrs import ACCEPT, ACCEPT_ENCODING, USER_AGENT
from yarl import URL


class Failed(Exception):
    """No usable answer: not reached, too slow, or not what was asked for."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait, in seconds."""

    total_s: float
    connect_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def good(self) -> bool:
        """True for 2xx."""
        return 200 <= self.status < 300


class Outbound:
    """A client for GET requests. Cookies are never kept: they would mix up the callers."""

    def __init__(self, patience: Timeouts, *, max_bytes: int) -> None:
        self._timeout = aiohttp.ClientTimeout(
            total=patience.total_s, connect=patience.connect_s, sock_connect=patience.connect_s
        )
        self._max_bytes = max_bytes
        self._session: aiohttp.ClientSession | None = None

    async def get(
        self, url: URL, headers: Mapping[str, str] | None = None, *, redirects: bool = True
    ) -> Reply:
        """Ask once; Failed when there is no whole answer in time.

        aiohttp takes ``Authorization`` off a request that is redirected to another origin.
        """
        try:
            async with self._open().get(url, headers=headers, allow_redirects=redirects) as reply:
                body = await reply.content.read(self._max_bytes + 1)
                while len(body) <= self._max_bytes and (
                    piece := await reply.content.read(self._max_bytes + 1 - len(body))
                ):
                    body += piece
                if len(body) > self._max_bytes:
                    raise Failed(f"the answer has more than {self._max_bytes} bytes")
                return Reply(reply.status, reply.headers, body)
        except TimeoutError as error:
            raise Failed("no answer in time") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Failed(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=(ACCEPT, ACCEPT_ENCODING, USER_AGENT),
            )
        return self._session


async def fetch(outbound: Outbound, url: URL) -> bytes:
    """A document that must be there; Failed otherwise. Redirects are not followed."""
    reply = await outbound.get(url, redirects=False)
    if not reply.good:
        raise Failed(f"status {reply.status}")
    return reply.body
