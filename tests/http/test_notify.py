"""``POST /api/v1/notification``: the answer, payloads, keys, generic and strict mode."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from support.config import SCHEMAS, settings
from support.edge import NOON_NS, Parts, edge
from support.raw import Answer, Wire, wired
from support.server import Client, connected

from aviso_server.core.json import Json, compact

PATH = "/api/v1/notification"


async def notify(wire: Wire, body: object, **headers: str) -> Answer:
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await wire.ask("POST", PATH, raw, named)


def ev(region: str = "n", **rest: object) -> dict[str, object]:
    return {"event_type": "ev", "identifier": {"region": region}, **rest}


async def history(client: Client, event_type: str, identifier: Mapping[str, Any]) -> list[Any]:
    """The data of every stored notification that matches."""
    async with client.replay(event_type, identifier, from_id="0") as stream:
        return [e.data for e in await stream.rest() if e.kind == "replay"]


async def test_the_answer_byte_for_byte() -> None:
    """The reference's three members, then ours, in this order."""
    body = {
        "event_type": "test_polygon",
        "identifier": {
            "date": "2025-07-06",
            "time": "12:00",
            "polygon": "(52.5,13.4,52.6,13.5,52.5,13.6,52.4,13.5,52.5,13.4)",
        },
        "payload": {"note": "ok"},
    }
    parts = Parts(now_ns=lambda: NOON_NS)
    async with edge(settings(), parts) as client, wired(client.running) as wire:
        for sequence in (1, 2):
            answer = await notify(wire, body)
            assert answer.status == 200
            assert answer.header("content-type") == "application/json"
            assert answer.body.decode() == (
                f'{{"status":"success","request_id":"{answer.request_id}",'
                f'"processed_at":"2026-03-04T10:00:00Z","id":"test_polygon@{sequence}",'
                f'"sequence":{sequence},"topic":"polygon.20250706.1200"}}'
            )


async def test_topics_are_shown_decoded_and_raw(client: Client) -> None:
    """Dots and non-ASCII text in values are not escaped in the answer."""
    async with wired(client.running) as wire:
        for value in ("a.b", "*", "é%2E", "日本", "😀", 'a"\\b'):
            answer = await notify(wire, ev(value))
            assert answer.data["topic"] == f"ev.{value}"
            assert json.dumps(value, ensure_ascii=False)[1:-1].encode() in answer.body
            assert [e["data"]["identifier"] for e in await history(client, "ev", {"region": value})]


async def test_numbering_is_per_event_type(client: Client) -> None:
    """Contiguous from 1 for each, and refused requests use up none."""
    async with wired(client.running) as wire:
        for expected in (1, 2, 3):
            assert (await notify(wire, ev())).data["sequence"] == expected
            assert (await notify(wire, ev(""))).status == 400
            other = {"event_type": "area", "identifier": {"date": "20250706"}}
            assert (await notify(wire, other)).status == 400
            other["identifier"] = {"date": "20250706", "polygon": "0,0,0,1,1,1,0,0"}
            assert (await notify(wire, other)).data["id"] == f"area@{expected}"


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (b"null", b"null"),
        (b"true", b"true"),
        (b"false", b"false"),
        (b"0", b"0"),
        (b"-0", b"0"),
        (b"1.50", b"1.5"),
        (b"1e3", b"1000.0"),
        (b"123456789012345678901234567890", b"123456789012345678901234567890"),
        (b'""', b'""'),
        (b'"text"', b'"text"'),
        (b'"{\\"a\\":1}"', b'"{\\"a\\":1}"'),
        (b"[ 1, [ ] ]", b"[1,[]]"),
        (b'{"b": {"z":1, "a":2}, "a": "\\u00e9\\/"}', '{"a":"é/","b":{"a":2,"z":1}}'.encode()),
        (b'"\\ud83d\\ude00"', '"😀"'.encode()),
        (b'{"a":1,"a":2}', b'{"a":2}'),
        (b'{"a":"x\\ny\\u2028"}', '{"a":"x\\ny\u2028"}'.encode()),
    ],
)
async def test_payloads_are_not_reshaped(client: Client, sent: bytes, stored: bytes) -> None:
    """Compact, keys sorted, raw UTF-8, one line; strings stay strings."""
    async with wired(client.running) as wire:
        body = b'{"event_type":"ev","identifier":{"region":"n"},"payload":' + sent + b"}"
        assert (await notify(wire, body)).status == 200
    async with client.replay("ev", {}, from_id="1") as stream:
        event = (await stream.until("replay"))[-1]
        assert b'"payload":' + stored + b'},"datacontenttype"' in event.raw


async def test_an_omitted_payload_is_null(client: Client) -> None:
    """Where the schema allows it; and an explicit null satisfies a schema that demands one."""
    async with wired(client.running) as wire:
        assert (await notify(wire, ev())).status == 200
        body = {
            "event_type": "test_polygon",
            "identifier": {"date": "20250706", "time": "0", "polygon": "0,0,0,1,1,1,0,0"},
        }
        assert (await notify(wire, body)).status == 400
        assert (await notify(wire, {**body, "payload": None})).status == 200
    assert [e["data"]["payload"] for e in await history(client, "ev", {})] == [None]


async def test_starts_are_ignored(client: Client) -> None:
    """Notify takes `from_id` and `from_date` of any text, whatever they say."""
    async with wired(client.running) as wire:
        answer = await notify(wire, ev(from_id="x", from_date="", to_id=None, to_date=None))
        assert answer.status == 200
        assert (await notify(wire, ev(from_id=5, from_date=None))).status == 200


@pytest.mark.parametrize("key", ["k", "!", "~" * 255, "a:b/c=d;e,f"])
async def test_a_key_makes_a_repeat_safe(client: Client, key: str) -> None:
    """The second answer names the first notification, and nothing is stored."""
    async with wired(client.running) as wire:
        first = await notify(wire, ev(payload={"a": 1, "b": 2}), Idempotency_Key=key)
        again = await notify(wire, ev(payload={"b": 2, "a": 1}), Idempotency_Key=key)
        assert (first.status, again.status) == (200, 200)
        assert again.data["sequence"] == first.data["sequence"] == 1
        assert again.data["id"] == "ev@1"
        assert again.data["request_id"] == again.request_id != first.request_id
        other = {"event_type": "diss2", "identifier": {"destination": "a", "note": "b"}}
        assert (await notify(wire, other, Idempotency_Key=key)).data["id"] == "diss2@1"
        assert (await notify(wire, ev())).data["sequence"] == 2
    assert [e["sequence"] for e in await history(client, "ev", {})] == [1, 2]


@pytest.mark.parametrize("second", [ev("s"), ev("n", payload=1)])
async def test_a_key_for_something_else_is_a_409(client: Client, second: object) -> None:
    """A key that stands for another notification is refused, and nothing is stored."""
    async with wired(client.running) as wire:
        assert (await notify(wire, ev("n"), Idempotency_Key="k")).status == 200
        answer = await notify(wire, second, Idempotency_Key="k")
        message = (
            "Idempotency-Key 'k' was already used for a different notification. "
            "Use a new key for a new notification"
        )
        assert answer.status == 409
        assert answer.body == compact(
            {
                "code": "IDEMPOTENCY_KEY_REUSED",
                "details": message,
                "error": "Idempotency Key Reused",
                "message": message,
                "request_id": answer.request_id,
            }
        )
        assert (await notify(wire, ev())).data["sequence"] == 2


async def test_keys_are_forgotten_after_two_minutes() -> None:
    """Within 120 s a key repeats; after that it is a new one."""
    clock = {"ns": NOON_NS}
    parts = Parts(now_ns=lambda: clock["ns"])
    async with edge(settings(), parts) as client, wired(client.running) as wire:
        for seconds, sequence in ((0, 1), (120, 1), (121, 2)):
            clock["ns"] = NOON_NS + seconds * 10**9
            answer = await notify(wire, ev(), Idempotency_Key="k")
            assert answer.data["sequence"] == sequence


async def test_simultaneous_repeats_store_once(client: Client) -> None:
    """Eight connections, one key, one notification."""

    async def once() -> int:
        async with wired(client.running) as wire:
            answer = await notify(wire, ev(), Idempotency_Key="same")
            return int(answer.data["sequence"])

    assert set(await asyncio.gather(*(once() for _ in range(8)))) == {1}
    assert len(await history(client, "ev", {})) == 1


async def test_a_refused_request_does_not_use_its_key(client: Client) -> None:
    """The key counts from the first notification stored under it."""
    async with wired(client.running) as wire:
        assert (await notify(wire, ev(""), Idempotency_Key="k")).status == 400
        assert (await notify(wire, ev(), Idempotency_Key="k")).data["sequence"] == 1


@pytest.mark.parametrize(
    ("overrides", "schemas"),
    [
        ({}, {}),
        ({"notification_schema_strict": False}, SCHEMAS),
        ({"notification_schema_strict": False}, {}),
    ],
)
async def test_generic_mode(overrides: dict[str, Json], schemas: dict[str, Json]) -> None:
    """Any legal name, any scalars, and it can be read back."""
    async with (
        connected(settings(overrides, schemas=schemas)) as client,
        wired(client.running) as wire,
    ):
        body = {
            "event_type": "Any-thing_9",
            "identifier": {"z": 1, "b": True, "polygon": "p", "f": 12.50, "é": "ü"},
        }
        answer = await notify(wire, body)
        assert answer.data["id"] == "Any-thing_9@1"
        assert answer.data["topic"] == "Any-thing_9.true.12.5.p.1.ü"
        assert (await notify(wire, {"event_type": "Any-thing_9", "identifier": {}})).status == 200
        found = await history(client, "Any-thing_9", {"z": "1", "b": "true"})
        assert [e["sequence"] for e in found] == [1]
        assert found[0]["data"]["identifier"] == (
            {"b": "true", "f": "12.5", "polygon": "p", "z": "1", "é": "ü"}
        )
        assert found[0]["dataschema"].endswith("/api/v1/schema/Any-thing_9")
        assert len(await history(client, "Any-thing_9", {})) == 2


@pytest.mark.parametrize(
    ("event_type", "identifier", "message"),
    [
        ("a.b", {}, "event_type 'a.b' is invalid. It must match [A-Za-z0-9][A-Za-z0-9_-]*"),
        ("EV", {}, "event_type 'EV' conflicts with an existing stream"),
        ("Diss", {}, "event_type 'Diss' conflicts with an existing stream"),
        ("x", {"a": ""}, "Field 'a' cannot be empty"),
    ],
)
async def test_generic_mode_still_refuses(
    permissive: Client, event_type: str, identifier: object, message: str
) -> None:
    """Illegal names, names that would share a stream, and values that are not scalars."""
    async with wired(permissive.running) as wire:
        answer = await notify(wire, {"event_type": event_type, "identifier": identifier})
        assert answer.status == 400
        assert answer.data["code"] == "INVALID_NOTIFICATION_REQUEST"
        assert answer.data["message"] == answer.data["details"] == message


@pytest.fixture
async def permissive() -> Any:
    async with connected(settings({"notification_schema_strict": False})) as client:
        yield client


async def test_two_spellings_of_a_generic_type_conflict(permissive: Client) -> None:
    """The first one has the stream; the other is refused on every endpoint."""
    async with wired(permissive.running) as wire:
        assert (await notify(wire, {"event_type": "x", "identifier": {}})).status == 200
        for endpoint in ("notification", "watch", "replay"):
            body = b'{"event_type":"X","identifier":{},"from_id":"1"}'
            answer = await wire.ask("POST", f"/api/v1/{endpoint}", body)
            assert answer.status == 400
            assert answer.data["message"] == "event_type 'X' conflicts with an existing stream"


@pytest.mark.parametrize(("schemas", "known"), [({}, []), ({"ev": SCHEMAS["ev"]}, ["ev"])])
async def test_strict_mode_refuses_the_rest(schemas: dict[str, Json], known: list[str]) -> None:
    """Set to true it holds even without any schema: then everything is refused."""
    strict = settings({"notification_schema_strict": True}, schemas=schemas)
    async with connected(strict) as client, wired(client.running) as wire:
        answer = await notify(wire, {"event_type": "other", "identifier": {}})
        assert answer.status == 400
        assert answer.data["configured_event_types"] == known
