"""What the log says about requests and the client does not learn."""

from typing import Any

import pytest
from support.config import settings
from support.edge import Edge, Parts, edge
from support.faults import FaultyBackend
from support.journal import recorded

from aviso_server.core.errors import HistoryFailed, StorageFailed
from aviso_server.http.journal import MAX_TEXT, chain_of

NORTH = {"event_type": "ev", "identifier": {"region": "n"}}
SECRET = "nats://user:hunter2@broker:4222 " + "x" * 500


async def ask(served: Edge, path: str, body: object, method: str = "POST") -> dict[str, Any]:
    """Send a request that is refused; its answer."""
    url = f"{served.running.url}/api/v1/{path}"
    async with served.session.request(method, url, json=body) as response:
        answer: dict[str, Any] = await response.json()
        assert "error_chain" not in answer
        return answer


@pytest.mark.parametrize(
    ("path", "body", "event", "label"),
    [
        ("notification", [], "api.request.parse.failed", "Invalid Notification Request"),
        (
            "watch",
            {**NORTH, "to_id": "1"},
            "api.request.validation.failed",
            "Invalid Watch Request",
        ),
        ("replay", NORTH, "api.request.validation.failed", "Invalid Replay Request"),
        (
            "replay",
            {"event_type": "no", "identifier": {}},
            "api.request.validation.failed",
            "unknown_event_type",
        ),
    ],
)
async def test_a_refused_request_is_logged_with_its_chain(
    path: str, body: object, event: str, label: str
) -> None:
    """``error.type`` is the stable label of the reference server, never a name of our classes."""
    async with edge(settings()) as served:
        with recorded() as journal:
            answer = await ask(served, path, body)
    (record,) = journal.all(event)
    assert (record["outcome"], record["error_type"]) == ("error", label)
    assert record["error_chain"] == [answer["message"]]
    assert record["request_id"] == answer["request_id"]


async def test_a_failure_is_logged_with_what_caused_it() -> None:
    """Outermost first, without secrets, each text cut; the client sees message and details."""
    failure = StorageFailed("Failed to publish", details="no response")
    failure.__cause__ = ConnectionError(SECRET)
    async with edge(settings(), Parts(FaultyBackend({"append": failure}))) as served:
        with recorded() as journal:
            await ask(served, "notification", NORTH)
    (record,) = journal.all("api.request.processing.failed")
    assert record["error_type"] == "Notification Storage Failed"
    assert record["error_chain"][:2] == ["Failed to publish", "no response"]
    assert record["error_chain"][2].startswith("ConnectionError: nats://[REDACTED]@broker")
    assert len(record["error_chain"][2]) == MAX_TEXT


async def test_a_stream_that_cannot_be_opened_is_logged_alike() -> None:
    """The store's own words are in the chain."""
    async with edge(settings(), Parts(FaultyBackend({"bounds": HistoryFailed("away")}))) as served:
        with recorded() as journal:
            await ask(served, "watch", NORTH)
    (record,) = journal.all("stream.sse.initialization.failed")
    assert (record["outcome"], record["error_type"]) == ("error", "SSE stream creation failed")
    assert record["error_chain"] == ["Failed to create stream consumer", "away"]


@pytest.mark.parametrize(
    ("notification_id", "event", "known"),
    [
        ("ev@1", "admin.notification.delete.succeeded", ("ev", 1)),
        ("EV@99", "admin.notification.delete.not_found", ("EV", 99)),
        ("nope@2", "admin.notification.delete.not_found", ("nope", 2)),
        ("nope", "admin.notification.delete.invalid_id", (None, None)),
    ],
)
async def test_deletions_are_logged_with_stream_and_sequence(
    notification_id: str, event: str, known: tuple[str | None, int | None]
) -> None:
    """Whatever became of them."""
    async with edge(settings()) as served:
        await served.notify("ev", {"region": "n"})
        with recorded() as journal:
            await ask(served, f"admin/notification/{notification_id}", None, "DELETE")
    (record,) = journal.all(event)
    assert (record.get("stream_key"), record.get("sequence")) == known


async def test_streams_are_logged_with_where_they_begin() -> None:
    """By sequence or by date, as asked for."""
    async with edge(settings()) as served:
        with recorded() as journal:
            async with served.replay("ev", {}, from_id="7") as stream:
                await stream.rest()
            async with served.watch("ev", {}, from_date="2026-03-04T10:00:00Z") as stream:
                await stream.next()
    (replay,) = journal.all("stream.replay.created")
    (watch,) = journal.all("stream.watch.replay_live.created")
    assert (replay["from_sequence"], replay["from_date"]) == (7, None)
    assert (watch["from_sequence"], watch["from_date"]) == (None, "2026-03-04T10:00:00Z")


def test_a_chain_ends() -> None:
    """Causes may go on for ever, and texts may be the same."""
    error: BaseException = ValueError("deep")
    for number in range(100):
        outer = KeyError(number % 2)
        outer.__cause__ = error
        error = outer
    assert chain_of(error) == ["KeyError: 1", "KeyError: 0"]
