"""The admin endpoints."""

import json
from urllib.parse import quote

import pytest
from support.config import settings
from support.edge import Parts, edge
from support.faults import FaultyBackend
from support.raw import Answer, Wire, wired
from support.server import Client, connected
from support.sse import sequences

from aviso_server.core.json import Json

WIPE = "/api/v1/admin/wipe/stream"
KNOWN = "Known event types: area, diss2, ev, extreme, observations, test_polygon"


async def wipe(wire: Wire, name: str) -> Answer:
    return await wire.ask("DELETE", WIPE, json.dumps({"stream_name": name}).encode())


async def delete(wire: Wire, notification_id: str) -> Answer:
    path = f"/api/v1/admin/notification/{quote(notification_id, safe='')}"
    return await wire.ask("DELETE", path)


def text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def assert_wiped(answer: Answer, status: int, message: str) -> None:
    success = "true" if status == 200 else "false"
    assert answer.body.decode() == (
        f'{{"success":{success},"message":{text(message)},"request_id":"{answer.request_id}"}}'
    )
    assert answer.status == status
    assert answer.header("content-type") == "application/json"


def assert_deleted(answer: Answer, status: int, message: str, notification_id: str) -> None:
    success = "true" if status == 200 else "false"
    assert answer.body.decode() == (
        f'{{"success":{success},"message":{text(message)},'
        f'"notification_id":{text(notification_id)},"request_id":"{answer.request_id}"}}'
    )
    assert answer.status == status


async def stored(client: Client, event_type: str, identifier: dict[str, Json]) -> list[int]:
    async with client.replay(event_type, identifier, from_id="0") as stream:
        return sequences(await stream.rest())


@pytest.mark.parametrize("name", ["diss2", "DISS2", "Diss2", "diss", "DISS"])
async def test_a_stream_has_several_names(client: Client, name: str) -> None:
    """Event type in any case, topic base and stream name in any case; echoed as sent."""
    filtered: dict[str, Json] = {"destination": "a"}
    await client.notify("diss2", {"destination": "a", "note": "1"})
    await client.notify("ev", {"region": "n"})
    async with wired(client.running) as wire:
        assert_wiped(await wipe(wire, name), 200, f"Successfully wiped stream: {name}")
    assert await stored(client, "diss2", filtered) == []
    assert await stored(client, "ev", {}) == [1]
    answer = await client.notify("diss2", {"destination": "a", "note": "2"})
    assert answer["sequence"] == 2  # Wipes do not reset the numbering


async def test_an_exact_event_type_goes_before_a_base() -> None:
    """One type's name may be another's base: the name wins."""
    field: Json = {"a": {"type": "StringHandler", "required": True}}
    schemas: dict[str, Json] = {
        "one": {"topic": {"base": "two", "key_order": ["a"]}, "identifier": field},
        "two": {"topic": {"base": "one", "key_order": ["a"]}, "identifier": field},
    }
    async with connected(settings(schemas=schemas)) as client, wired(client.running) as wire:
        for event_type in schemas:
            await client.notify(event_type, {"a": "x"})
        assert (await wipe(wire, "TWO")).status == 200
        assert await stored(client, "one", {"a": "x"}) == [1]
        assert await stored(client, "two", {"a": "x"}) == []


async def test_a_configured_type_resolves_while_empty(wire: Wire) -> None:
    """Nothing stored yet is not an error."""
    assert_wiped(await wipe(wire, "ev"), 200, "Successfully wiped stream: ev")


@pytest.mark.parametrize("name", ["marz", "", " ev", "é", 'a"b', "ev\n", "polygo"])
async def test_unknown_streams_are_a_404(wire: Wire, name: str) -> None:
    """The known event types are listed, sorted; nothing is trimmed or guessed."""
    assert_wiped(await wipe(wire, name), 404, f"Stream not found: {name}. {KNOWN}")


async def test_without_schemas_there_is_nothing_to_list() -> None:
    """The message ends after the name; what clients made up can be wiped too."""
    async with connected(settings(schemas={})) as client, wired(client.running) as wire:
        assert_wiped(await wipe(wire, "marz"), 404, "Stream not found: marz")
        await client.notify("Made-up", {"a": 1})
        assert_wiped(await wipe(wire, "made-UP"), 200, "Successfully wiped stream: made-UP")
        assert await stored(client, "Made-up", {}) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}", "missing field `stream_name`"),
        (b'{"Stream_name":"ev"}', "missing field `stream_name`"),
        (b'{"stream_name":5}', "invalid type: integer `5`, expected a string"),
        (b'{"stream_name":null}', "invalid type: null, expected a string"),
        (b'{"stream_name":["ev"]}', "invalid type: sequence, expected a string"),
        (b"[]", "invalid type: sequence, expected struct WipeStreamRequest"),
        (b'"ev"', 'invalid type: string "ev", expected struct WipeStreamRequest'),
    ],
)
async def test_wrong_wipe_requests_are_a_400(wire: Wire, body: bytes, message: str) -> None:
    """Body errors are JSON answers of the endpoint's own shape."""
    answer = await wire.ask("DELETE", WIPE, body)
    assert_wiped(answer, 400, f"Json deserialize error: {message}")


@pytest.mark.parametrize("body", [b"", b"{", b"ev", b"\xff", b'{"stream_name":"\\ud800"}'])
async def test_wipe_requests_that_are_not_json_are_a_400(wire: Wire, body: bytes) -> None:
    """The parser's reason follows the prefix."""
    answer = await wire.ask("DELETE", WIPE, body)
    assert answer.status == 400
    assert list(answer.data) == ["success", "message", "request_id"]
    assert answer.data["message"].startswith("Json deserialize error: ")


async def test_other_members_of_a_wipe_request_are_ignored(wire: Wire) -> None:
    """Only the name counts; the content type does not."""
    body = b'{"force":[1],"stream_name":"ev"}'
    answer = await wire.ask("DELETE", WIPE, body, [("Content-Type", "text/plain")])
    assert answer.status == 200


async def test_wipe_in_a_bad_encoding_is_a_400(wire: Wire) -> None:
    """The same words as elsewhere, in the endpoint's own shape."""
    answer = await wire.ask("DELETE", WIPE, b"{}", [("Content-Encoding", "br")])
    message = "JSON parsing failed: unsupported or corrupt content encoding 'br'"
    assert_wiped(answer, 400, message)


async def test_a_failed_wipe_is_a_500() -> None:
    """The administrator is told what the store said."""
    backend = FaultyBackend({"wipe": OSError("nats: timeout")})
    async with edge(settings(), Parts(backend)) as client, wired(client.running) as wire:
        assert_wiped(await wipe(wire, "ev"), 500, "Failed to wipe stream: nats: timeout")
        answer = await wire.ask("DELETE", "/api/v1/admin/wipe/all")
        assert answer.status == 500
        message = answer.data["message"]
        assert message.startswith("Failed to wipe all data: ")
        assert message.count("nats: timeout") == 6  # every stream was tried


async def test_wiping_everything(client: Client) -> None:
    """All our streams are emptied, the numbering goes on, any body is ignored."""
    await client.notify("ev", {"region": "n"})
    await client.notify("diss2", {"destination": "a", "note": "1"})
    async with wired(client.running) as wire:
        answer = await wire.ask("DELETE", "/api/v1/admin/wipe/all", b"nonsense")
        assert_wiped(answer, 200, "Successfully wiped all data")
    assert await stored(client, "ev", {}) == []
    assert await stored(client, "diss2", {"destination": "a"}) == []
    assert (await client.notify("ev", {"region": "n"}))["sequence"] == 2


@pytest.mark.parametrize(
    "notification_id",
    ["diss2@2", "DISS2@2", "diss@2", "Diss@02", "diss2@+2", " diss2@2 ", "diss2@" + "0" * 50 + "2"],
)
async def test_one_notification_is_deleted(client: Client, notification_id: str) -> None:
    """The id is trimmed, its left side resolves like a wipe name; a hole is left."""
    for note in "abc":
        await client.notify("diss2", {"destination": "a", "note": note})
    async with wired(client.running) as wire:
        answer = await delete(wire, notification_id)
        assert_deleted(answer, 200, "Notification deleted", notification_id)
        answer = await delete(wire, notification_id)
        assert_deleted(answer, 404, "Notification not found", notification_id)
    assert await stored(client, "diss2", {"destination": "a"}) == [1, 3]
    assert (await client.notify("diss2", {"destination": "a", "note": "d"}))["sequence"] == 4


FORMAT = "notification_id must be in '<stream>@<sequence>' format"
INTEGER = "notification_id sequence must be a positive integer"
ZERO = "notification_id sequence must be greater than zero"
MISSING = "Notification not found"


@pytest.mark.parametrize(
    ("notification_id", "status", "message"),
    [
        ("mars", 400, FORMAT),
        ("ev@", 400, FORMAT),
        ("@1", 400, FORMAT),
        ("@", 400, FORMAT),
        (" ", 400, FORMAT),
        ("ev@x", 400, INTEGER),
        ("ev@-1", 400, INTEGER),
        ("ev@1.0", 400, INTEGER),
        ("ev@ 1", 400, INTEGER),
        ("ev@1_0", 400, INTEGER),
        ("ev@++1", 400, INTEGER),
        ("ev@١", 400, INTEGER),
        ("ev@18446744073709551616", 400, INTEGER),
        ("ev@" + "9" * 5000, 400, INTEGER),
        ("ev@0", 400, ZERO),
        ("ev@+00", 400, ZERO),
        ("ev@" + "0" * 5000, 400, ZERO),
        ("ev@18446744073709551615", 404, MISSING),
        ("ev@1", 404, MISSING),
        ("nope@1", 404, MISSING),
        ("a@b@1", 404, MISSING),
        ("a/b@1", 404, MISSING),
        ("{x}@1", 404, MISSING),
        ("é😀@1", 404, MISSING),
    ],
)
async def test_bad_ids_are_refused(
    wire: Wire, notification_id: str, status: int, message: str
) -> None:
    """Syntax is a 400, absence a 404; the id is echoed decoded."""
    assert_deleted(await delete(wire, notification_id), status, message, notification_id)


async def test_a_failed_delete_is_a_500() -> None:
    """The administrator is told what the store said."""
    backend = FaultyBackend({"delete": OSError("nats: timeout")})
    async with edge(settings(), Parts(backend)) as client, wired(client.running) as wire:
        message = "Failed to delete notification: nats: timeout"
        assert_deleted(await delete(wire, "ev@42"), 500, message, "ev@42")


async def test_live_streams_survive_a_wipe(client: Client) -> None:
    """A watch goes on after a wipe and a deletion."""
    async with client.watch("ev", {}) as stream, wired(client.running) as wire:
        await stream.next()
        await client.notify("ev", {"region": "n"})
        await stream.until("live-notification")
        assert (await delete(wire, "ev@1")).status == 200
        assert (await wipe(wire, "ev")).status == 200
        await client.notify("ev", {"region": "n"})
        assert sequences(await stream.until("live-notification")) == [2]
