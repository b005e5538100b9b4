"""Delivers notifications to a server: in order, each once, even if it is killed on the way.

Theory of operation
One process sends, one request after the other, so that order is kept. After each request the ledger
says how far it came, durably. A run that was killed may have sent one request more than its ledger
knows, and the next run finds out:

- The same notification has the same idempotency key in every run. While the server remembers keys
  (120 s), whatever is sent again is not stored again. That covers a request that is still on its
  way when the next run begins.
- Before it sends anything, a run checks what the server stored after the last line of the ledger,
  and skips what is there (reconcile.py). That covers everything older.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from types import TracebackType
from typing import Self

from aviso_server.core.errors import AvisoError
from aviso_server.core.json import Json, compact, parse
from aviso_server.pipeline.delivery.batches import SendingPace, batches
from aviso_server.pipeline.delivery.client import Accepted, Client, Rejected
from aviso_server.pipeline.delivery.ledger import DeliveryLedger, LedgerLine
from aviso_server.pipeline.delivery.reconcile import Forgotten, TargetStream
from aviso_server.pipeline.delivery.target import Target
from aviso_server.pipeline.source.failure import QuestionRefused

UNSEEN = -1
"""Where the server's stream ended, if our credentials may not read it."""


class TooManyRejected(AvisoError):
    """More notifications are rejected than may be."""


@dataclass(frozen=True, slots=True)
class Item:
    """A notification on its way."""

    position: int
    """In the order of the delivery; positions may be left out."""
    body: bytes
    """The request, with its idempotency key; empty if there is a problem."""
    problem: Rejected | None = None
    """Why it cannot be put into a request."""
    about: Mapping[str, Json] = field(default_factory=dict)
    """What a person needs to find it, if it is rejected."""


class Delivery:
    """One run of a delivery, from where its ledger is; closes the ledger with itself."""

    def __init__(
        self,
        target: Target,
        event_type: str,
        ledger: DeliveryLedger,
        *,
        most_rejected: int | None,
        show: Callable[[LedgerLine], None] = lambda _: None,
    ) -> None:
        self._target = target
        self._event_type = event_type
        self._ledger = ledger
        self._most_rejected = most_rejected
        self._show = show
        self._client = Client(target)
        self._pace = SendingPace(target.rate)
        self._stream = TargetStream(target, event_type)
        self._unsure = ledger.resumed and ledger.line.target is not None
        """Whether the next notifications may be at the server already."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._client.close()
        self._ledger.close()

    def send(self, items: Iterator[Item]) -> None:
        """Send items that follow those in the ledger; NotSent, TooManyRejected, Forgotten."""
        # The size of requests is that of the first run: what any killed run may have sent beyond
        # its ledger fits into one of them.
        size = self._ledger.head.batch
        if self._unsure and (batch := list(islice(items, size))):
            self._send(batch)
            self._unsure = False
        for batch in batches(items, size):
            self._send(batch)

    def reach(self, through: int) -> None:
        """Note that nothing is left up to a position."""
        self._note(replace(self._ledger.line, through=through))

    def finish(self) -> None:
        """Note that nothing is left at all."""
        self._note(replace(self._ledger.line, complete=True))

    def _send(self, batch: list[Item]) -> None:
        line = self._ledger.line
        sound = [item for item in batch if item.problem is None]
        bodies = [item.body for item in sound]
        target, held = line.target, [False] * len(sound)
        if sound and target is None:
            target = self._end(bodies)
            self._ledger.note(replace(line, target=target))
        elif sound and self._unsure and target is not None:
            held, target = self._held(bodies, above=target)
        left = [item for item, is_held in zip(sound, held, strict=True) if not is_held]
        self._pace.wait(len(left))
        results = self._client.post([item.body for item in left]) if left else []
        rejected = [(item, item.problem) for item in batch if item.problem is not None]
        sequences = []
        for item, result in zip(left, results, strict=True):
            if isinstance(result, Accepted):
                sequences.append(result.sequence)
            else:
                rejected.append((item, result))
        lines = self._rejected_lines(sorted(rejected, key=lambda pair: pair[0].position))
        self._note(
            LedgerLine(
                batch[-1].position,
                target if not sequences else max(target or 0, *sequences),
                line.published + len(batch) - len(rejected),
                line.rejected + len(rejected),
                line.rejected_bytes + len(lines),
                added=line.added + len({n for n in sequences if n > (target or 0)}),
            ),
            lines,
        )

    def _end(self, bodies: list[bytes]) -> int | None:
        try:
            return self._stream.end(bodies)
        except QuestionRefused as error:
            if error.status == 400:  # it does not know the event type, so nothing of ours is there
                return None
            if error.status not in {401, 403}:
                raise
            # Credentials that may not read will do, unless the delivery is killed: then what is not
            # known now is the reason why it cannot continue.
            return UNSEEN

    def _held(self, bodies: list[bytes], *, above: int) -> tuple[list[bool], int]:
        if above == UNSEEN:
            raise Forgotten(
                f"the credentials for {self._target.url} could not read '{self._event_type}', so "
                "it is unknown which of the first notifications were published. Check its "
                "end, and start again after it with another state folder"
            )
        return self._stream.holds(bodies, above=above)

    def _rejected_lines(self, rejected: list[tuple[Item, Rejected]]) -> bytes:
        """Lines about rejected items; TooManyRejected."""
        most, lines = self._most_rejected, b""
        for count, (item, why) in enumerate(rejected, self._ledger.line.rejected + 1):
            if most is not None and count > most:
                name = " ".join(str(value) for value in item.about.values())
                limit = f" ({count} are rejected, {most} may be)" if most else ""
                raise TooManyRejected(
                    f"{self._target.url} does not take {name}: {why.code}: {why.message}{limit}"
                )
            request = parse(item.body) if item.body else None
            reason = {"code": why.code, "field": why.field, "problem": why.message}
            lines += compact({**item.about, **reason, "request": request}) + b"\n"
        return lines

    def _note(self, line: LedgerLine, rejected: bytes = b"") -> None:
        self._ledger.note(line, rejected)
        self._show(line)
