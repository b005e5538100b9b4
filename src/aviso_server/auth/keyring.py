"""Where keys come from, and how a rotated key is noticed.

A secret is fixed. A PEM file is read again when it changed. A key set is fetched again when it is
old, and when a token names a key that is not in it. A source that fails later on keeps what it had,
for a while: an outage of the key service must not be an outage of this one, and a withdrawn key
must not live for ever.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import structlog

from aviso_server.auth.keys import BadKey, Key, fitting, key_set, public_keys
from aviso_server.auth.outbound import Failed
from aviso_server.auth.refusal import AUTH_AWAY, Unavailable

LOOK_S = 5.0
"""Between two checks of a PEM file's time of change."""
FRESH_S = 300.0
"""How old a key set gets before it is fetched again: a new key is known that soon at the latest."""
STALE_S = 3600.0
"""How long an old set serves while it cannot be fetched; a withdrawn key lives no longer."""
PAUSE_S = 5.0
"""At least between two fetches: tokens with invented key ids must not cause a flood."""


class KeySource(Protocol):
    """Something that knows keys."""

    async def find(self, algorithm: str, kid: str | None) -> tuple[Key, ...]:
        """The keys a token may have been signed with; Unavailable if unknown."""
        ...

    def holds(self, key: Key) -> bool:
        """Whether a key that was found is still one; False also where one has to ask."""
        ...


class FixedKeys:
    """Keys that never change."""

    def __init__(self, *keys: Key) -> None:
        self._keys = keys

    async def find(self, algorithm: str, kid: str | None) -> tuple[Key, ...]:
        """Those that fit."""
        return fitting(self._keys, algorithm, kid)

    def holds(self, key: Key) -> bool:
        """Whether it is one of them."""
        return key in self._keys


class PemFile:
    """Public keys in a file; a replaced file is noticed within seconds."""

    def __init__(self, path: Path, *, clock: Callable[[], float]) -> None:
        """Read it; BadKey or OSError when that is not possible."""
        self._path = path
        self._clock = clock
        self._stamp = self._look()
        self._keys = public_keys(path.read_bytes())
        self._looked_at = clock()

    async def find(self, algorithm: str, kid: str | None) -> tuple[Key, ...]:
        """Those that fit, from the current file."""
        return fitting(self._current(), algorithm, kid)

    def holds(self, key: Key) -> bool:
        """Whether it is in the current file."""
        return key in self._current()

    def _current(self) -> tuple[Key, ...]:
        if self._clock() - self._looked_at >= LOOK_S:
            self._looked_at = self._clock()
            self._reload()
        return self._keys

    def _reload(self) -> None:
        try:
            stamp = self._look()
            if stamp == self._stamp:
                return
            self._keys = public_keys(self._path.read_bytes())
            self._stamp = stamp
        except (OSError, BadKey) as error:
            # Half-written files happen; the next look sees the rest.
            structlog.get_logger().warning(
                "The public key file cannot be read; the keys known so far stay",
                event_name="auth.keys.refresh.failed",
                error=str(error),
            )

    def _look(self) -> tuple[int, int, int]:
        found = self._path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino


class KeySet:
    """A JSON Web Key Set behind a URL."""

    def __init__(
        self, fetch: Callable[[], Awaitable[bytes]], *, clock: Callable[[], float]
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._turn = asyncio.Lock()
        self._keys: tuple[Key, ...] = ()
        self._fetched_at: float | None = None
        self._tried_at: float | None = None

    async def find(self, algorithm: str, kid: str | None) -> tuple[Key, ...]:
        """Those that fit; the set is fetched when it is old or does not have the key."""
        if algorithm not in ("RS256", "ES256"):
            return ()
        if self._age() >= FRESH_S and not self._bridged:
            await self._refresh()
        if self._age() >= STALE_S:
            raise Unavailable(AUTH_AWAY, details="key set")
        found = fitting(self._keys, algorithm, kid)
        if not found:
            await self._refresh()
            found = fitting(self._keys, algorithm, kid)
        return found

    def holds(self, key: Key) -> bool:
        """Whether it is in a set that need not be fetched again."""
        return self._age() < FRESH_S and key in self._keys

    @property
    def _bridged(self) -> bool:
        """True while another caller fetches and the keys known so far may serve.

        A key service that hangs then holds up one request at a time, not all of them.
        """
        return self._turn.locked() and self._age() < STALE_S

    def _age(self) -> float:
        return float("inf") if self._fetched_at is None else self._clock() - self._fetched_at

    async def _refresh(self) -> None:
        async with self._turn:
            # A caller that waited for its turn finds the work done.
            if self._tried_at is not None and self._clock() - self._tried_at < PAUSE_S:
                return
            try:
                self._keys = key_set(await self._fetch())
                self._fetched_at = self._clock()
            except (Failed, BadKey) as error:
                structlog.get_logger().warning(
                    "The key set cannot be fetched",
                    event_name="auth.keys.refresh.failed",
                    error=str(error),
                )
            # Only now: a caller that left in the middle has tried nothing.
            self._tried_at = self._clock()


_: tuple[type[KeySource], ...] = (FixedKeys, PemFile, KeySet)
