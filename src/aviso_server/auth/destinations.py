"""Asking the ECPDS servers which destinations a user has."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from urllib.parse import quote_plus

import msgspec
import structlog
from yarl import URL

from aviso_server.auth.outbound import Failed, Outbound, Timeouts
from aviso_server.core.json import UNREADABLE

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Far more than the longest list known; it only bounds memory."""


class Outcome(IntEnum):
    """How a fetch ended; the worst is the smallest."""

    HTTP_401 = 0
    HTTP_403 = 1
    HTTP_4XX = 2
    INVALID_RESPONSE = 3
    HTTP_5XX = 4
    """Also every other status that is not 2xx."""
    UNREACHABLE = 5
    SUCCESS = 6

    @property
    def word(self) -> str:
        """As metrics and logs name it."""
        return self.name.lower()


class FetchFailed(Exception):
    """The destinations of a user are unknown; never remembered."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.word)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class EcpdsOptions:
    """The servers, the service account and what counts in their answers."""

    servers: tuple[str, ...]
    username: str
    password: str
    target_field: str = "name"
    strict: bool = True
    """True: every server must answer. False: one is enough."""
    request_timeout_s: float = 30.0
    connect_timeout_s: float = 5.0


class _Listing(msgspec.Struct, frozen=True):
    """A good answer; records are checked one by one."""

    destinations: list[object] = msgspec.field(name="destinationList")
    success: str = ""


_LISTING = msgspec.json.Decoder(_Listing)


class Destinations:
    """Fetches a user's destinations from all servers at once."""

    def __init__(self, options: EcpdsOptions) -> None:
        self._options = options
        account = f"{options.username}:{options.password}".encode()
        self._headers = {"Authorization": f"Basic {b64encode(account).decode()}"}
        self._outbound = Outbound(
            Timeouts(options.request_timeout_s, options.connect_timeout_s),
            max_bytes=MAX_ANSWER_BYTES,
        )

    async def of(self, username: str) -> frozenset[str]:
        """The union of what the servers say; FetchFailed with the worst outcome."""
        servers = self._options.servers
        answers = await asyncio.gather(
            *(self._ask(index, server, username) for index, server in enumerate(servers))
        )
        failures = [answer for answer in answers if isinstance(answer, Outcome)]
        lists = [answer for answer in answers if not isinstance(answer, Outcome)]
        if failures and (self._options.strict or not lists):
            raise FetchFailed(min(failures))
        return frozenset().union(*lists)

    async def close(self) -> None:
        """Close the connections."""
        await self._outbound.close()

    async def _ask(self, index: int, server: str, username: str) -> frozenset[str] | Outcome:
        journal = structlog.get_logger().bind(server_index=index, server=server, username=username)
        try:
            # The service account's password follows no redirect.
            reply = await self._outbound.get(
                list_address(server, username), self._headers, redirects=False
            )
        except Failed as error:
            return _failed(journal, Outcome.UNREACHABLE, str(error))
        if not reply.good:
            return _failed(journal, _by_status(reply.status), f"status {reply.status}")
        try:
            listing = _LISTING.decode(reply.body)
        except UNREADABLE as error:
            return _failed(journal, Outcome.INVALID_RESPONSE, str(error))
        if listing.success != "yes":
            return _failed(journal, Outcome.INVALID_RESPONSE, "success is not 'yes'")
        found = active(listing.destinations, self._options.target_field)
        _log_fetched(journal, listing.destinations, len(found))
        return frozenset(found)


def list_address(server: str, username: str) -> URL:
    """Where a server lists a user's destinations; prefixes and trailing slashes are fine."""
    base = URL(server).with_user(None)
    # Encoded here: in a form, a blank is ``+`` and a plus sign is not.
    text = f"{str(base).rstrip('/')}/ecpds/v1/destination/list?id={quote_plus(username)}"
    return URL(text, encoded=True)


def active(records: Sequence[object], target_field: str) -> list[str]:
    """The names of the records that count: ``active`` is true and the target is text."""
    return [
        name
        for record in records
        if isinstance(record, dict)
        and record.get("active") is True
        and isinstance(name := record.get(target_field), str)
    ]


def _log_fetched(
    journal: structlog.typing.FilteringBoundLogger, records: Sequence[object], found: int
) -> None:
    """Log how many records there were and how many do not count, and why."""
    total = len(records)
    inactive = sum(isinstance(item, dict) and item.get("active") is not True for item in records)
    journal.debug("Destinations fetched", event_name="auth.ecpds.fetch.succeeded", total=total)
    if inactive:
        journal.debug(
            "Inactive destinations left out",
            event_name="auth.ecpds.fetch.skipped_inactive",
            skipped=inactive,
            total=total,
        )
    if total - inactive > found:
        journal.debug(
            "Unreadable destinations left out",
            event_name="auth.ecpds.fetch.skipped_record",
            skipped=total - inactive - found,
            total=total,
        )


def _by_status(status: int) -> Outcome:
    match status:
        case 401:
            return Outcome.HTTP_401
        case 403:
            return Outcome.HTTP_403
        case _:
            return Outcome.HTTP_4XX if 400 <= status < 500 else Outcome.HTTP_5XX


def _failed(journal: structlog.typing.FilteringBoundLogger, outcome: Outcome, why: str) -> Outcome:
    journal.warning(
        "An ECPDS server gave no usable answer",
        event_name="auth.ecpds.fetch.failed",
        fetch_outcome=outcome.word,
        error=why,
    )
    return outcome
