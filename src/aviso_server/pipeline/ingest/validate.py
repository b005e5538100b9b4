"""Validating claims by the very rules of the server: core's, in core's order. Pure.

Histories say the same thing again and again: the same identifier with another payload. The result
for an event type and an identifier, as spelled, is remembered; only the payload is then validated
again. core itself finds the faults, so messages are the server's.
"""

import re
from dataclasses import dataclass

from aviso_server.core.announcement import notification_of
from aviso_server.core.errors import AvisoError, RequestError
from aviso_server.core.json import compact, parse, refuse_excess
from aviso_server.core.notification import Notification
from aviso_server.core.schema import Catalogue
from aviso_server.core.wire import parse_request
from aviso_server.pipeline.ingest.claim import Claim

REMEMBERED = 100_000
"""Identifiers; some 100 MB of the largest usual ones."""

_SMALL, _FLAT = 300, 100
"""Bytes and brackets of a payload that need not be measured (core/json.py has the limits)."""

_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a row is not a notification."""

    code: str
    """The kind of error: the class of core's error, such as ``INVALID_REQUEST``."""
    field: str | None
    reason: str


class Validator:
    """Validates claims; one for each task."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._known: dict[tuple[bytes | None, bytes], Notification] = {}

    def validate(self, claim: Claim) -> Notification | Rejection:
        """The notification that a server with this catalogue would store, or why none."""
        try:
            known = self._recall(claim)
            return known if known is not None else self._examine(claim)
        except RequestError as error:
            return rejection_of(error)

    def _recall(self, claim: Claim) -> Notification | None:
        """By what is remembered; None where the rules must be asked."""
        if claim.payload is None or claim.identifier is None or claim.others:
            return None
        known = self._known.get((claim.event_type, claim.identifier))
        if known is None:
            return None
        # The identifier passed within a request; what is small cannot break a limit.
        text = claim.payload
        if len(text) > _SMALL or text.count(b"[") + text.count(b"{") > _FLAT:
            refuse_excess(claim.body)
        payload = compact(parse(text))
        return Notification(
            known.event_type, known.tokens, known.identifier, known.geometry, payload
        )

    def _examine(self, claim: Claim) -> Notification:
        request = parse_request(claim.body)
        notification = notification_of(self._catalogue.find(request.event_type), request)
        if claim.identifier is not None and claim.payload is not None and not claim.others:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[claim.event_type, claim.identifier] = notification
        return notification


def rejection_of(error: AvisoError) -> Rejection:
    """An error as a reason; the field is a convenience for people who sort them."""
    code = _WORDS.sub("_", type(error).__name__).upper()
    return Rejection(code, error.field, error.message)
