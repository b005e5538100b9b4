"""What a watch or replay asks for, once it has been checked, and the rules it is served by."""

from collections.abc import Callable
from dataclasses import dataclass
from weakref import ReferenceType, WeakKeyDictionary, ref

from aviso_server.core.cursor import FromSequence, FromTime, ToTime, Window, refuse_ends, window
from aviso_server.core.filter import Filter
from aviso_server.core.frame import Established, Frame, ReplayStarted
from aviso_server.core.identifier import check_spatial, compile_filter
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Schema
from aviso_server.core.topic import pattern
from aviso_server.core.wire import NotificationRequest
from aviso_server.relay.readers import NOBODY, Caller


@dataclass(frozen=True, slots=True)
class Query:
    """A checked request for a stream."""

    operation: Operation
    schema: Schema
    filter: Filter
    window: Window
    request_id: str
    topic: str
    """The request pattern shown to people."""
    expires_at_ns: int | None = None
    """End of the caller's token: no stream outlives it."""
    caller: Caller = NOBODY
    """Whom history is read for."""

    @property
    def event_type(self) -> str:
        """The event type asked for."""
        return self.schema.event_type


@dataclass(frozen=True, slots=True)
class StreamRules:
    """The settings of ``watch_endpoint``."""

    heartbeat_s: float = 30.0
    max_duration_s: float = 3600.0
    batch_size: int = 100
    """Announced to clients, and how much is read at a time unless ``read_size`` says otherwise."""
    read_size: int | None = None
    batch_delay_s: float = 0.0
    read_attempts: int = 1
    """How often a batch of history is asked for before the stream ends with an error."""
    read_delay_s: float = 2.0
    """Waited before the second attempt; the n-th waits n - 1 times as long."""
    history_cap: int = 10_000
    queue_size: int = 1000


_filters: WeakKeyDictionary[Filter, ReferenceType[Filter]] = WeakKeyDictionary()


def _share(request: Filter) -> Filter:
    """One object for all equal filters in use: a thousand watchers of one area hold it once."""
    known = _filters.get(request)
    shared = None if known is None else known()
    if shared is None:
        _filters[request] = ref(request)
        return request
    return shared


def query_of(
    schema: Schema,
    request: NotificationRequest,
    operation: Operation,
    *,
    request_id: str,
    expires_at_ns: int | None = None,
) -> Query:
    """Check a watch or replay request (docs/protocol.md#order-of-checks, 10 to 15)."""
    refuse_ends(request, operation)
    check_spatial(request.identifier)
    asked = window(request, operation)
    wanted = _share(compile_filter(schema, request.identifier, operation))
    return Query(
        operation,
        schema,
        wanted,
        asked,
        request_id,
        pattern(schema, wanted),
        expires_at_ns,
    )


def opening_of(
    query: Query, rules: StreamRules, end: int | None, now_ns: Callable[[], int]
) -> Frame:
    """The first frame of a stream; ``end`` is the effective end of its history."""
    start, until = query.window.start, query.window.end
    if start is None:
        closes_in_s = int(rules.max_duration_s)
        if query.expires_at_ns is not None:
            left_ns = query.expires_at_ns - now_ns()
            closes_in_s = max(0, min(closes_in_s, left_ns // 1_000_000_000))
        return Established(closes_in_s)
    return ReplayStarted(
        batch_size=rules.batch_size,
        from_sequence=start.sequence if isinstance(start, FromSequence) else None,
        from_ns=start.ns if isinstance(start, FromTime) else None,
        end_sequence=end,
        to_ns=until.ns if isinstance(until, ToTime) else None,
    )
