"""``GET /api/v1/schema`` and ``/api/v1/schema/{event_type}``."""

import json
from urllib.parse import quote

import pytest
from support.config import settings
from support.raw import Wire, wired
from support.server import connected

from aviso_server.core.json import Json
from aviso_server.settings import parse

FIELDS: dict[str, Json] = {
    "date": {"type": "DateHandler", "required": True},
    "level": {"type": "FloatHandler", "required": False, "range": [0, 100]},
    "point_cloud": {
        "type": "PointCloudHandler",
        "required": True,
        "description": "observed stations",
    },
    "region": {"type": "EnumHandler", "required": False, "values": ["north", "south"]},
    "tag": {"type": "StringHandler", "required": False},
}
VIEW = (
    b'{"identifier":{"date":{"canonical_format":"%Y%m%d","required":true,"type":"DateHandler"},'
    b'"level":{"range":[0.0,100.0],"required":false,"type":"FloatHandler"},'
    b'"point_cloud":{"description":"observed stations","max_points":10000,"required":true,'
    b'"type":"PointCloudHandler"},'
    b'"region":{"required":false,"type":"EnumHandler","values":["north","south"]},'
    b'"tag":{"max_length":null,"required":false,"type":"StringHandler"}},"payload":null}'
)
MARS: dict[str, Json] = {
    "topic": {"base": "mars", "key_order": ["class"]},
    "payload": {"required": True},
    "max_historical_notifications": 5,
    "identifier": {
        "step": {"type": "IntHandler", "required": False, "range": [0, 100000]},
        "class": {
            "type": "StringHandler",
            "required": True,
            "max_length": 2,
            "description": "MARS class",
        },
        "expver": {"type": "ExpverHandler", "required": False},
        "level": {"type": "FloatHandler", "required": False},
        "polygon": {"type": "PolygonHandler", "required": False},
        "time": {"type": "TimeHandler", "required": False},
    },
}
MARS_VIEW = (
    b'{"identifier":{"class":{"description":"MARS class","max_length":2,"required":true,'
    b'"type":"StringHandler"},"expver":{"default":null,"required":false,"type":"ExpverHandler"},'
    b'"level":{"range":null,"required":false,"type":"FloatHandler"},'
    b'"polygon":{"required":false,"type":"PolygonHandler"},'
    b'"step":{"range":[0,100000],"required":false,"type":"IntHandler"},'
    b'"time":{"required":false,"type":"TimeHandler"}},"payload":{"required":true}}'
)
SCHEMAS: dict[str, Json] = {
    "obs": {"topic": {"base": "obs", "key_order": ["date"]}, "identifier": FIELDS},
    "mars": MARS,
}


async def test_the_list_byte_for_byte() -> None:
    """Alphabetical keys, sorted event types, and only the public view."""
    async with connected(settings(schemas=SCHEMAS)) as client, wired(client.running) as wire:
        answer = await wire.ask("GET", "/api/v1/schema")
        assert answer.status == 200
        assert answer.header("content-type") == "application/json"
        assert answer.body == (
            b'{"event_types":["mars","obs"],"schema":{"mars":'
            + MARS_VIEW
            + b',"obs":'
            + VIEW
            + b'},"status":"success","total_schemas":2}'
        )


async def test_one_byte_for_byte() -> None:
    """Flat fields, unset options null, float ranges with a fraction."""
    async with connected(settings(schemas=SCHEMAS)) as client, wired(client.running) as wire:
        answer = await wire.ask("GET", "/api/v1/schema/obs")
        assert answer.status == 200
        assert answer.body == (b'{"event_type":"obs","schema":' + VIEW + b',"status":"success"}')


@pytest.mark.parametrize("name", ["x", "EV", "é", "a/b", "a%2Fb", "{x}", "a b", "'", "a\nb", "😀"])
async def test_unknown_event_types_are_a_404(wire: Wire, name: str) -> None:
    """The name is percent-decoded once and compared exactly; the known ones are listed."""
    answer = await wire.ask("GET", f"/api/v1/schema/{quote(name, safe='')}")
    assert answer.status == 404
    known = '["area","diss2","ev","extreme","observations","test_polygon"]'
    message = json.dumps(f"Event type '{name}' not found", ensure_ascii=False)
    assert answer.body.decode() == (
        f'{{"available_types":{known},"message":{message},'
        f'"request_id":"{answer.request_id}","status":"error"}}'
    )


@pytest.mark.parametrize("name", ["über/%2E", "a.b c", "{x}"])
async def test_dataschema_resolves(name: str) -> None:
    """The address in a CloudEvent is a route that exists, whatever the event type is called."""
    schemas: dict[str, Json] = {
        name: {
            "topic": {"base": "b", "key_order": ["date"]},
            "identifier": {"date": FIELDS["date"]},
        }
    }
    async with connected(settings(schemas=schemas)) as client:
        await client.notify(name, {"date": "20250706"})
        async with client.replay(name, {"date": "2025-07-06"}, from_id="1") as stream:
            event = (await stream.until("replay"))[-1].data
        path = event["dataschema"].removeprefix("http://localhost:8000")
        async with wired(client.running) as wire:
            answer = await wire.ask("GET", path)
            assert (answer.status, answer.data["event_type"]) == (200, name)


async def test_no_schema_section() -> None:
    """Without the section the list says so, and so does the 404."""
    bare = parse(
        {
            "application": {"host": "127.0.0.1", "port": 0, "base_url": "http://x"},
            "notification_backend": {"kind": "in_memory"},
        }
    )
    async with connected(bare) as client, wired(client.running) as wire:
        answer = await wire.ask("GET", "/api/v1/schema")
        assert answer.body == (
            b'{"event_types":[],"message":"No notification schema configured","schema":{},'
            b'"status":"success","total_schemas":0}'
        )
        answer = await wire.ask("GET", "/api/v1/schema/mars")
        assert answer.status == 404
        assert answer.body.decode() == (
            '{"message":"No notification schema configured",'
            f'"request_id":"{answer.request_id}","status":"error"}}'
        )


async def test_an_empty_schema_section() -> None:
    """An empty map is configured: no message in the list, and no types in the 404."""
    async with connected(settings(schemas={})) as client, wired(client.running) as wire:
        answer = await wire.ask("GET", "/api/v1/schema")
        assert answer.body == (
            b'{"event_types":[],"schema":{},"status":"success","total_schemas":0}'
        )
        answer = await wire.ask("GET", "/api/v1/schema/mars")
        assert (answer.status, answer.data["available_types"]) == (404, [])


async def test_generic_types_have_no_schema() -> None:
    """What clients made up is not listed."""
    async with connected(settings(schemas={})) as client:
        await client.notify("made-up", {"a": 1})
        async with wired(client.running) as wire:
            assert (await wire.ask("GET", "/api/v1/schema/made-up")).status == 404
