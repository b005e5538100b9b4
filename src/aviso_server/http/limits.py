"""Limits on what callers may do at the same time and per second; over them the answer is 429,
or 503 where it is too much of all callers together.

Everything is counted in one process: with several workers each has its own counts. Addresses are
those of the connections. What a proxy says about its clients is not trusted, since any client can
send such a header; behind a proxy all its clients are one address.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aviso_server.core.errors import RequestError

STREAM_RETRY_S = 10
"""For a client that gets no stream: it is unknown when others end, so this is a guess."""

OVERLOAD_RETRY_S = 2
"""For a producer while there are too many: what is in progress takes less than that."""

MAX_BUCKETS = 10_000
"""Callers whose rate is remembered; full buckets are forgotten first, which changes nothing."""


class TooManyRequests(RequestError):
    """A limit is reached; the same request may succeed later."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class BodyTooSlow(RequestError):
    """The body did not arrive in time."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"Request body did not arrive within {limit_s:g} seconds")


class Overloaded(RequestError):
    """There is more to do than can be done in time; nothing was done for this."""

    retry_after_s = OVERLOAD_RETRY_S

    def __init__(self) -> None:
        super().__init__("Too many notifications at once, nothing was stored. Try again later")


class HeadTooLarge(RequestError):
    """The head of a request is over its limits."""

    def __init__(self, max_bytes: int, max_fields: int) -> None:
        super().__init__(
            f"Request head exceeds the limit of {max_bytes} bytes or {max_fields} header fields"
        )


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much is allowed; 0 is no limit."""

    streams: int = 0
    """Open at the same time, watches and replays together."""
    streams_per_user: int = 0
    """Authenticated users only: anonymous ones cannot be distinguished."""
    streams_per_address: int = 0
    stream_bytes: int = 0
    """What open streams may take in memory, their filters included."""
    notifying: int = 0
    """Requests to notify in progress at the same time."""
    batch_bytes: int = 0
    """Of bodies of batches that arrive or are worked on."""
    notify_rate: int = 0
    """Notifications per second and caller, in the long run."""
    notify_burst: int = 1000
    """Notifications that a caller may send at once after a quiet time."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a request counts for."""

    address: str
    username: str | None = None
    """None for anonymous callers, who are distinguished by address."""

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the caller; no user name looks like an address."""
        return ("address", self.address) if self.username is None else ("user", self.username)


@dataclass(slots=True)
class _Bucket:
    """Tokens of one caller: one for each notification it may send now."""

    tokens: float
    seen_s: float


@dataclass(slots=True)
class Limiter:
    """Counts against the bounds, which may be replaced at any time."""

    bounds: Allowance
    clock: Callable[[], float]
    """Monotonic seconds."""
    _open: int = 0
    _bytes: int = 0
    _batch_bytes: int = 0
    _by_user: dict[str, int] = field(default_factory=dict)
    _by_address: dict[str, int] = field(default_factory=dict)
    _buckets: dict[tuple[str, str], _Bucket] = field(default_factory=dict)

    @property
    def open_streams(self) -> int:
        """How many are counted now."""
        return self._open

    @property
    def rated(self) -> bool:
        """Whether there is a rate at all: most servers have none, and need not find out who."""
        return self.bounds.notify_rate > 0

    def stream(self, caller: Caller, size: int = 0) -> "StreamCount":
        """Count one open stream and its bytes until the count is ended, or TooManyRequests."""
        self._check(caller)
        if 0 < self.bounds.stream_bytes < self._bytes + size:
            raise TooManyRequests(
                "Too many open streams: the limit of what they take together is "
                f"{self.bounds.stream_bytes} bytes",
                retry_after_s=STREAM_RETRY_S,
            )
        self._count(caller, size, 1)
        return StreamCount(self, caller, size)

    def _count(self, caller: Caller, size: int, by: int) -> None:
        self._open += by
        self._bytes += by * size
        _change(self._by_address, caller.address, by)
        if caller.username is not None:
            _change(self._by_user, caller.username, by)

    @contextmanager
    def batch(self) -> Iterator[Callable[[int], None]]:
        """Count the bytes of one batch until its block ends; Overloaded with the first too many.

        What has arrived is counted, not what was announced: a client that sends nothing blocks no
        one.
        """
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            if 0 < self.bounds.batch_bytes < self._batch_bytes + size:
                raise Overloaded
            held += size
            self._batch_bytes += size

        try:
            yield hold
        finally:
            self._batch_bytes -= held

    def _check(self, caller: Caller) -> None:
        bounds = self.bounds
        of_user = 0 if caller.username is None else self._by_user.get(caller.username, 0)
        of_address = self._by_address.get(caller.address, 0)
        for count, bound, whose in (
            (self._open, bounds.streams, "server"),
            (of_user, bounds.streams_per_user, "user"),
            (of_address, bounds.streams_per_address, "address"),
        ):
            if 0 < bound <= count:
                raise TooManyRequests(
                    f"Too many open streams: the limit per {whose} is {bound}",
                    retry_after_s=STREAM_RETRY_S,
                )

    def notify(self, caller: Caller, count: int = 1) -> None:
        """Let a caller send that many notifications now, or TooManyRequests.

        More than a burst can only be sent with a full bucket. What is taken beyond it is a debt
        that is waited off, so batches of any size pass and the rate holds in the long run.
        """
        rate, burst = self.bounds.notify_rate, self.bounds.notify_burst
        if not rate:
            return
        now = self.clock()
        bucket = self._bucket(caller.key, now)
        bucket.tokens = min(float(burst), bucket.tokens + (now - bucket.seen_s) * rate)
        bucket.seen_s = now
        missing = min(count, burst) - bucket.tokens
        if missing > 0:
            raise TooManyRequests(
                f"Too many notifications: the limit is {rate} per second",
                retry_after_s=max(1, math.ceil(missing / rate)),
            )
        bucket.tokens -= count

    def _bucket(self, key: tuple[str, str], now: float) -> _Bucket:
        found = self._buckets.get(key)
        if found is None:
            if len(self._buckets) >= MAX_BUCKETS:
                self._forget(now)
            found = self._buckets[key] = _Bucket(float(self.bounds.notify_burst), now)
        return found

    def _forget(self, now: float) -> None:
        """Drop the buckets that are full again, or else the oldest half: memory stays bounded."""
        rate, burst = self.bounds.notify_rate, self.bounds.notify_burst
        kept = {
            key: item
            for key, item in self._buckets.items()
            if item.tokens + (now - item.seen_s) * rate < burst
        }
        if len(kept) > MAX_BUCKETS // 2:
            recent = sorted(kept, key=lambda key: kept[key].seen_s)[-MAX_BUCKETS // 2 :]
            kept = {key: kept[key] for key in recent}
        self._buckets = kept


@dataclass(slots=True)
class StreamCount:
    """One open stream in the counts; its end is counted once."""

    limiter: Limiter
    caller: Caller
    size: int

    def shrink(self, by: int) -> None:
        """It takes that much less from now on."""
        self.limiter._bytes -= by  # noqa: SLF001
        self.size -= by

    def end(self) -> None:
        """Count it no more."""
        self.limiter._count(self.caller, self.size, -1)  # noqa: SLF001 - the other half of it

    def __enter__(self) -> None:
        """It is counted already."""

    def __exit__(self, *_: object) -> None:
        """End with the block."""
        self.end()


def _change(counts: dict[str, int], key: str, by: int) -> None:
    """Count up or down; nothing is kept of those who have nothing open."""
    left = counts.get(key, 0) + by
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)
