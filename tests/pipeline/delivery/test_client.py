"""Posting batches: retries, limits and refusals, against a stand-in that misbehaves on demand."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from support.access import served

from aviso_server.pipeline.delivery.client import Accepted, Client, NotSent, Rejected, Result
from aviso_server.pipeline.delivery.target import Target

Answer = Callable[[list[dict[str, Any]]], web.Response | None]


@dataclass
class Server:
    """A stand-in for the batch endpoint: keeps what it got, answers as told, else stores."""

    url: str = ""
    decide: Answer = lambda _: None
    bodies: list[list[dict[str, Any]]] = field(default_factory=list)

    async def notifications(self, request: web.Request) -> web.Response:
        """``POST /api/v1/notifications``."""
        items = json.loads(await request.read())
        self.bodies.append(items)
        return self.decide(items) or answer([good(item) for item in items])


def good(item: dict[str, Any]) -> dict[str, Any]:
    """A stored item."""
    return {"status": "success", "id": f"ev@{item['payload']}", "sequence": 1, "topic": "ev"}


def bad(code: str) -> dict[str, Any]:
    """A refused item."""
    return {"status": "error", "code": code, "error": "e", "message": f"{code}!", "details": "d"}


def answer(results: list[dict[str, Any]]) -> web.Response:
    """A batch answer."""
    return web.json_response({"status": "partial", "results": results})


def failure(status: int, **headers: str) -> web.Response:
    """An error of the whole request."""
    body = {"code": "SOME_CODE", "error": "e", "message": "because", "details": "d"}
    return web.json_response(body, status=status, headers=headers)


@asynccontextmanager
async def standing_in(decide: Answer = lambda _: None) -> AsyncIterator[Server]:
    """Run the stand-in."""
    server = Server(decide=decide)
    app = web.Application()
    app.router.add_post("/base/api/v1/notifications", server.notifications)
    async with served(app) as url:
        server.url = url + "/base"
        yield server


def requests(count: int) -> list[bytes]:
    """Requests with the payloads 0, 1, ..."""
    return [
        b'{"event_type":"ev","payload":%d,"idempotency_key":"%d"}' % (n, n) for n in range(count)
    ]


async def post(
    server: Server, count: int = 4, *, retries: int = 3, pauses: list[float] | None = None
) -> list[Result]:
    """Post that many, without waiting in pauses, which are noted."""
    noted: list[float] = [] if pauses is None else pauses
    target = Target(url=server.url, authorization="Bearer t", retries=retries, timeout_s=5)
    client = Client(target, wait=noted.append)
    try:
        return await asyncio.to_thread(client.post, requests(count))
    finally:
        client.close()


def shown(outcomes: list[Result]) -> list[str]:
    """Ids and codes."""
    return [o.id if isinstance(o, Accepted) else o.code for o in outcomes]


async def test_failures_are_tried_again_with_the_same_keys() -> None:
    """5xx and 408 are repeated, not before Retry-After; pauses grow."""
    statuses = [500, 503, 408]
    pauses: list[float] = []
    async with standing_in(
        lambda _: failure(statuses.pop(0), **{"Retry-After": "7"}) if statuses else None
    ) as server:
        outcomes = await post(server, pauses=pauses)
        assert shown(outcomes) == ["ev@0", "ev@1", "ev@2", "ev@3"]
        assert len(server.bodies) == 4
        assert all(body == server.bodies[0] for body in server.bodies)
        assert pauses == [7, 7, 7]


async def test_an_endless_failure_is_an_error_in_the_end() -> None:
    """After the last try the task fails, and the reason is reported."""
    async with standing_in(lambda _: failure(503)) as server:
        pauses: list[float] = []
        with pytest.raises(NotSent, match=r"status 503 because \(tried 4 times\)"):
            await post(server, pauses=pauses)
        assert pauses == [0.25, 0.5, 1.0]
    with pytest.raises(NotSent, match="no answer"):
        await post(server, retries=1)


async def test_being_paced_costs_no_try() -> None:
    """429 is waited for as long as the server says, however often."""
    slow = [429] * 10
    pauses: list[float] = []
    async with standing_in(
        lambda _: failure(slow.pop(), **{"Retry-After": "2"}) if slow else None
    ) as server:
        assert len(await post(server, retries=0, pauses=pauses)) == 4
        assert pauses == [2] * 10


async def test_only_undecided_items_are_sent_again() -> None:
    """What the store could not take is repeated; what is stored or refused is not."""
    first = True

    def decide(items: list[dict[str, Any]]) -> web.Response | None:
        nonlocal first
        if not first:
            return None
        first = False
        codes = {1: "NOTIFICATION_STORAGE_FAILED", 2: "UNKNOWN_EVENT_TYPE"}
        return answer([bad(codes[n]) if n in codes else good(i) for n, i in enumerate(items)])

    async with standing_in(decide) as server:
        outcomes = await post(server)
        assert shown(outcomes) == ["ev@0", "ev@1", "UNKNOWN_EVENT_TYPE", "ev@3"]
        assert [[i["payload"] for i in body] for body in server.bodies] == [[0, 1, 2, 3], [1]]
        refused = outcomes[2]
        assert isinstance(refused, Rejected)
        assert refused.message == "UNKNOWN_EVENT_TYPE!"


@pytest.mark.parametrize("status", [400, 413])
async def test_a_batch_that_is_too_much_is_halved(status: int) -> None:
    """Whatever the server's limits are: small enough batches pass, a lone offender is rejected."""

    def decide(items: list[dict[str, Any]]) -> web.Response | None:
        return failure(status) if len(items) > 2 or any(i["payload"] == 4 for i in items) else None

    async with standing_in(decide) as server:
        outcomes = await post(server, 7)
        assert shown(outcomes) == ["ev@0", "ev@1", "ev@2", "ev@3", "SOME_CODE", "ev@5", "ev@6"]


@pytest.mark.parametrize("status", [401, 403])
async def test_denied_is_an_error_at_once(status: int) -> None:
    """No second try, and the message says what to check."""
    async with standing_in(lambda _: failure(status)) as server:
        with pytest.raises(NotSent, match=r"access denied: because\. Check token"):
            await post(server)
        assert len(server.bodies) == 1


async def test_denied_items_are_an_error_too() -> None:
    """A right that is missing for one event type is not a fault of its rows."""
    async with standing_in(lambda items: answer([bad("FORBIDDEN") for _ in items])) as server:
        with pytest.raises(NotSent, match="access denied: FORBIDDEN!"):
            await post(server)


@pytest.mark.parametrize("reply", [web.Response(text="<html>"), answer([])])
async def test_something_else_at_the_address(reply: web.Response) -> None:
    """An answer that is none is not taken for success."""
    async with standing_in(lambda _: web.Response(body=reply.body)) as server:
        with pytest.raises(NotSent):
            await post(server)
        server.url += "/elsewhere"
        with pytest.raises(NotSent, match="is this an aviso-server"):
            await post(server)


async def test_stopping_ends_a_pause() -> None:
    """A task that fails elsewhere does not wait for its retries."""
    async with standing_in(lambda _: failure(503, **{"Retry-After": "600"})) as server:
        client = Client(Target(url=server.url))
        client.stop()
        with pytest.raises(NotSent, match="has ended"):
            await asyncio.to_thread(client.post, requests(1))
        client.close()
