"""``GET /api/v1/overview`` on real sockets: its bytes, and who sees what."""

import json
from collections.abc import AsyncIterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from support.access import (
    ADMIN,
    DISSEMINATION,
    PROTECTED,
    READ_ONLY,
    STRANGER,
    WRITER,
    bearer,
    ecpds_section,
    proxy_auth,
    token,
)
from support.config import document, settings
from support.edge import NOON_NS, Parts, edge
from support.faults import FaultyBackend
from support.metrics import counting
from support.raw import Answer, Wire, wired
from support.server import Client, connected

from aviso_server.core.errors import HistoryFailed, SetupFailed
from aviso_server.core.json import Json
from aviso_server.http import openapi
from aviso_server.http.answers import OverviewResponse
from aviso_server.settings import parse

OVERVIEW = "/api/v1/overview"
NAMED = {"event_type", "configured", "readable", "writable", "key_order"}
"""All that is shown of what one may not read."""

_DOCUMENT: dict[str, Any] = json.loads(openapi.document("1.2.3"))
CONTRACT = jsonschema_rs.Draft202012Validator(
    {"$ref": "#/components/schemas/OverviewResponse", "components": _DOCUMENT["components"]}
)

User = tuple[str, str | None, tuple[str, ...]] | None


async def shown(wire: Wire, user: User = None) -> dict[str, dict[str, Any]]:
    """The event types by name, of an answer that is as documented."""
    answer = await wire.ask("GET", OVERVIEW, headers=[bearer(token(user))] if user else [])
    return by_name(answer)


def by_name(answer: Answer) -> dict[str, dict[str, Any]]:
    assert answer.status == 200, answer.body
    CONTRACT.validate(answer.data)
    return {item["event_type"]: item for item in answer.data["event_types"]}


async def test_the_answer_byte_for_byte() -> None:
    """Members in the order of the documentation; times and numbers are the server's own."""
    one: dict[str, Json] = {
        "ev": {
            "topic": {"base": "ev", "key_order": ["region"]},
            "identifier": {"region": {"type": "StringHandler", "required": False}},
            "max_historical_notifications": 77,
        }
    }
    sections: dict[str, Json] = {
        "notification_backend": {"in_memory": {"max_messages": 9, "max_history_per_topic": 2}}
    }
    at = Parts(now_ns=lambda: NOON_NS)
    async with edge(settings(sections, schemas=one), at) as client, wired(client.running) as wire:
        for region in "abc":
            await client.notify("ev", {"region": region})
        answer = await wire.ask("GET", OVERVIEW)
    assert answer.header("content-type") == "application/json"
    version = answer.data["version"]
    assert answer.body.decode() == (
        f'{{"status":"success","version":"{version}",'
        '"backend":{"kind":"in_memory","connected":true},"ready":true,'
        '"auth_enabled":false,"metrics_port":null,'
        '"time":"2026-03-04T10:00:00Z","archive":null,"lake":false,'
        '"event_types":[{"event_type":"ev","configured":true,"readable":true,"writable":true,'
        '"key_order":["region"],'
        '"stored":3,"first_sequence":1,"last_sequence":3,'
        '"last_time":"2026-03-04T10:00:00.123456789Z",'
        '"rates":{"per_second_1m":0.05,"per_second_5m":0.01,"per_second_1h":0.000833},'
        '"retention":{"seconds":null,"max_messages":9,"max_bytes":268435456,"per_topic":2,'
        '"shared":true},"history_limit":77,'
        '"tiers":[{"tier":"log","first":1,"last":3}]}],'
        f'"omitted":0,"request_id":"{answer.request_id}"}}'
    )


def test_the_page_shows_what_the_document_shows() -> None:
    """docs/protocol.md has the example of the OpenAPI document, as the server would write it."""
    page = Path(__file__).parents[2] / "docs" / "protocol.md"
    content = _DOCUMENT["paths"][OVERVIEW]["get"]["responses"]["200"]["content"]
    example = json.dumps(content["application/json"]["example"], separators=(",", ":"))
    assert f"\n{example}\n" in page.read_text()
    written = msgspec.json.decode(example, type=OverviewResponse)
    assert msgspec.json.encode(written).decode() == example


async def test_nothing_stored_is_reported_too(wire: Wire) -> None:
    """Every configured event type is there from the start, by name."""
    seen = by_name(await wire.ask("GET", OVERVIEW))
    assert list(seen) == sorted(seen)
    assert set(seen) == {"area", "diss2", "ev", "extreme", "observations", "test_polygon"}
    for item in seen.values():
        assert (item["stored"], item["last_sequence"]) == (0, 0)
        assert (item["first_sequence"], item["last_time"]) == (None, None)
        assert item["history_limit"] == 10_000


async def test_event_types_without_schema() -> None:
    """Listed where they may be used, after those configured, as open as their streams."""
    sections: dict[str, Json] = {"notification_schema_strict": False, "auth": proxy_auth()}
    chosen = settings(sections, schemas=PROTECTED)
    async with connected(chosen) as client, wired(client.running) as wire:
        for name in ("made-up", "also"):
            await client.notify(name, {"x": "1"})
        seen = await shown(wire)
        assert list(seen) == ["ev", "members", "roles", "also", "made-up"]
        assert (seen["also"]["configured"], seen["also"]["stored"]) == (False, 1)
        assert (seen["also"]["readable"], seen["also"]["writable"]) == (True, True)


async def test_where_the_metrics_are() -> None:
    """The port that was bound, even if the system picked it."""
    async with connected(counting()) as client, wired(client.running) as wire:
        answer = await wire.ask("GET", OVERVIEW)
        assert client.running.metrics_port
        assert answer.data["metrics_port"] == client.running.metrics_port
        assert answer.data["auth_enabled"] is False


# Who sees what


@pytest.fixture(scope="module")
async def guarded() -> AsyncIterator[Client]:
    """A server with access rules, and one notification of each event type."""
    sections: dict[str, Json] = {
        "auth": proxy_auth(),
        "ecpds": ecpds_section("http://127.0.0.1:9"),
    }
    schemas = {**PROTECTED, "diss": DISSEMINATION}
    async with connected(settings(sections, schemas=schemas)) as started:
        head = dict([bearer(token(ADMIN))])
        for name in schemas:
            fields = {"destination": "A", "note": "x"} if name == "diss" else {"region": "n"}
            body = {"event_type": name, "identifier": fields}
            url = f"{started.running.url}/api/v1/notification"
            async with started.session.post(url, json=body, headers=head) as answer:
                assert answer.status == 200
        yield started


@pytest.mark.parametrize(
    ("user", "readable", "writable", "counted"),
    [
        (None, {"ev"}, {"ev"}, {"ev"}),
        (STRANGER, {"ev", "members", "diss"}, {"ev"}, {"ev", "members"}),
        (
            READ_ONLY,
            {"ev", "members", "roles", "diss"},
            {"ev"},
            {"ev", "members", "roles"},
        ),
        (WRITER, {"ev", "members", "diss"}, {"ev", "roles", "diss"}, {"ev", "members"}),
        (
            ADMIN,
            {"ev", "members", "roles", "diss"},
            {"ev", "members", "roles", "diss"},
            {"ev", "members", "roles", "diss"},
        ),
    ],
    ids=["anonymous", "stranger", "reader", "writer", "admin"],
)
async def test_numbers_are_for_those_who_may_read(
    guarded: Client, user: User, readable: set[str], writable: set[str], counted: set[str]
) -> None:
    """Of the rest one learns the name, which the schema routes tell everybody, and nothing else.

    What is delivered by destination is counted for administrators only: the roles let a user ask,
    ECPDS decides what of it is theirs.
    """
    async with wired(guarded.running) as wire:
        seen = await shown(wire, user)
    assert set(seen) == {"ev", "members", "roles", "diss"}
    assert {name for name, item in seen.items() if item["readable"]} == readable
    assert {name for name, item in seen.items() if item["writable"]} == writable
    assert {name for name, item in seen.items() if "stored" in item} == counted
    for name, item in seen.items():
        if name in counted:
            assert item["stored"] == 1
        else:
            assert set(item) == NAMED


async def test_one_look_shows_each_caller_only_their_own(guarded: Client) -> None:
    """What is remembered is the look, not an answer: an administrator's is nobody else's."""
    async with wired(guarded.running) as wire:
        assert "stored" in (await shown(wire, ADMIN))["roles"]
        assert set((await shown(wire))["roles"]) == NAMED
        assert (await wire.ask("GET", OVERVIEW)).data["auth_enabled"] is True
        assert "stored" in (await shown(wire, ADMIN))["roles"]


async def test_without_access_control_everything_is_reported(wire: Wire) -> None:
    """Whatever credential comes along."""
    answer = await wire.ask("GET", OVERVIEW, headers=[bearer("nonsense")])
    assert all(item["readable"] and item["writable"] for item in by_name(answer).values())


# Reload


async def test_a_reload_shows_at_once() -> None:
    """New event types, limits and roles, also within the second of a look."""
    before = document({"auth": proxy_auth()}, schemas=PROTECTED)
    after: Any = deepcopy(before)
    schemas = after["notification_schema"]
    schemas["roles"]["auth"]["read_roles"] = {"partner": ["*"]}
    schemas["ev"]["max_historical_notifications"] = 5
    topic: Json = {"base": "fresh", "key_order": ["region"]}
    schemas["fresh"] = {**schemas["members"], "topic": topic}
    async with connected(parse(before)) as client, wired(client.running) as wire:
        live = client.running.live
        assert live is not None
        seen = await shown(wire, READ_ONLY)
        assert "stored" in seen["roles"]
        await live.adopt(parse(after))
        fresh = await shown(wire, READ_ONLY)
        assert set(fresh) == {*seen, "fresh"}
        assert set(fresh["roles"]) == NAMED
        assert fresh["ev"]["history_limit"] == 5


# Trouble


class _Away(FaultyBackend):
    """A backend whose connection is down: nothing can be asked."""

    connected = False

    def __init__(self) -> None:
        super().__init__({"event_types": OSError("not connected to NATS")})


async def test_the_overview_works_when_the_backend_does_not() -> None:
    """It says what is known: the names, and that the rest is not."""
    async with edge(settings(), Parts(_Away())) as client, wired(client.running) as wire:
        answer = await wire.ask("GET", OVERVIEW)
        seen = by_name(answer)
        assert answer.data["backend"] == {"kind": "in_memory", "connected": False}
        assert answer.data["ready"] is False
        for item in seen.values():
            assert item["error"] == "The backend is not connected"
            assert set(item) == {*NAMED, "retention", "history_limit", "error"}


@pytest.mark.parametrize(
    "error", [SetupFailed("No stream", details="/secret"), HistoryFailed("No stream")]
)
async def test_one_event_type_that_cannot_be_read(error: Exception) -> None:
    """It has an error in place of numbers, without internals; the answer is 200."""
    backend = FaultyBackend()
    async with edge(settings(), Parts(backend)) as client, wired(client.running) as wire:
        await client.notify("ev", {"region": "n"})
        backend.failures["bounds"] = error
        answer = await wire.ask("GET", OVERVIEW)
        seen = by_name(answer)
        assert (seen["ev"]["error"], "stored" in seen["ev"]) == ("No stream", False)
        assert seen["area"]["stored"] == 0
        assert answer.data["ready"] is True
        assert b"secret" not in answer.body


async def test_shutdown_shows() -> None:
    """As on ``/ready``."""
    async with edge(settings()) as client, wired(client.running) as wire:
        client.running.stop.request()
        answer = await wire.ask("GET", OVERVIEW)
        assert (answer.data["ready"], answer.data["backend"]["connected"]) == (False, True)
