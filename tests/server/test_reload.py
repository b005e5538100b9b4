"""Which changes of the configuration a running server takes over, and which it refuses."""

from copy import deepcopy
from typing import Any

import pytest
from support.config import document
from support.server import connected

from aviso_server.core.json import Json
from aviso_server.server.reload import ReloadRefused, admit, align, changes
from aviso_server.settings import Settings, parse


def changed(path: str, value: Json) -> Settings:
    """The suite's configuration with one setting replaced; None takes it away."""
    raw: Any = deepcopy(document())
    *above, last = path.split(".")
    place = raw
    for step in above:
        place = place.setdefault(step, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return parse(raw)


BEFORE = parse(document())
FRESH: dict[str, Json] = {
    "topic": {"base": "fresh", "key_order": ["region"]},
    "identifier": {"region": {"type": "StringHandler", "required": False}},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("logging.level", "debug"),
        ("limits.max_streams", 5),
        ("limits.notify_rate_per_user", 5),
        ("application.cors_allowed_origins", ["https://a.example"]),
        ("notification_schema.fresh", FRESH),
        ("notification_schema.ev.max_historical_notifications", 7),
        ("notification_schema.ev.payload", {"required": True}),
        ("notification_schema.test_polygon.payload.required", False),
        ("notification_schema.ev.identifier.region.description", "where"),
        (
            "notification_schema.extreme.identifier.region.values",
            ["west", "east", "north", "south", "middle"],
        ),
    ],
)
def test_what_is_taken_over(path: str, value: Json) -> None:
    """Nothing of it moves a topic or a stored notification."""
    assert [item.path for item in admit(BEFORE, changed(path, value))] == [path]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("application.port", 1234),
        ("application.base_url", "http://other"),
        ("application.tls", {"certificate": "a", "key": "b"}),
        ("notification_backend.kind", "jetstream"),
        ("notification_backend.in_memory.max_messages", 5),
        ("lake.archive_interval_seconds", 5),
        ("watch_endpoint.replay_batch_size", 5),
        ("logging.format", "console"),
        ("metrics.host", "0.0.0.0"),
        ("notification_schema_strict", False),
        ("notification_schema.ev", None),
        ("notification_schema.ev.topic.base", "moved"),
        ("notification_schema.diss2.topic.key_order", ["destination", "note"]),
        ("notification_schema.ev.identifier.more", {"type": "StringHandler", "required": False}),
        ("notification_schema.ev.identifier.region.type", "ExpverHandler"),
        ("notification_schema.ev.identifier.region.required", True),
        ("notification_schema.extreme.identifier.region.values", ["north", "south"]),
    ],
)
def test_what_needs_a_restart(path: str, value: Json) -> None:
    """The refusal names it."""
    with pytest.raises(ReloadRefused) as refused:
        admit(BEFORE, changed(path, value))
    assert [reason.partition(" ")[0] for reason in refused.value.reasons] == [path]
    assert "needs a restart" in str(refused.value)


def test_one_bad_change_refuses_all_and_all_are_named() -> None:
    """A server runs with one configuration, not with halves of two."""
    raw: Any = deepcopy(document())
    raw["application"]["base_url"] = "http://other"
    raw["logging"] = {"level": "debug"}
    raw["notification_schema"]["ev"]["topic"]["base"] = "moved"
    with pytest.raises(ReloadRefused) as refused:
        admit(BEFORE, parse(raw))
    assert refused.value.reasons == [
        "application.base_url needs a restart",
        "notification_schema.ev.topic.base needs a restart",
    ]


def test_the_same_configuration_has_no_changes() -> None:
    """Also when it was read twice."""
    assert changes(BEFORE, parse(document())) == []


def test_secrets_are_compared_and_not_shown() -> None:
    """A new password is a change; neither it nor the old one is in the refusal."""

    def protected(password: str) -> Settings:
        jetstream: dict[str, Json] = {"username": "u", "password": password}
        return parse(
            document({"notification_backend": {"kind": "jetstream", "jetstream": jetstream}})
        )

    with pytest.raises(ReloadRefused) as refused:
        admit(protected("hunter2"), protected("hunter3"))
    assert refused.value.reasons == [
        "notification_backend.jetstream.password needs a restart",
    ]


def test_workers_keep_the_port_and_the_store_they_were_given() -> None:
    """The configured port may be 0, and an embedded store is a server of the supervisor's."""
    running = changed("application.port", 1234)
    fresh = align(changed("limits.max_streams", 3), running)
    assert [item.path for item in changes(running, fresh)] == ["limits.max_streams"]


async def test_a_running_server_adopts() -> None:
    """New event type, limit and origin count from the next request on; streams stay open."""
    raw: Any = deepcopy(document())
    raw["notification_schema"]["fresh"] = FRESH
    raw["limits"] = {"max_streams": 1}
    raw["application"]["cors_allowed_origins"] = ["https://a.example"]
    async with connected(parse(document())) as client, client.watch("ev", {}) as stream:
        live = client.running.live
        assert live is not None
        await stream.until("connection_established")
        assert sorted(await live.adopt(parse(raw))) == [
            "application.cors_allowed_origins",
            "limits.max_streams",
            "notification_schema.fresh",
        ]
        assert (await client.notify("fresh", {"region": "n"}))["sequence"] == 1
        await client.notify("ev", {"region": "n"})
        await stream.until("live-notification")
        origin = {"Origin": "https://a.example"}
        url = f"{client.running.url}/api/v1/schema/fresh"
        async with client.session.get(url, headers=origin) as answer:
            assert answer.status == 200
            assert answer.headers["Access-Control-Allow-Origin"] == "https://a.example"
        body = {"event_type": "ev", "identifier": {}}
        async with client.session.post(f"{client.running.url}/api/v1/watch", json=body) as answer:
            assert answer.status == 429


async def test_a_refused_configuration_changes_nothing() -> None:
    """Not even the parts that could have been taken over."""
    raw: Any = deepcopy(document({"limits": {"max_streams": 1}}))
    raw["application"]["port"] = 1
    async with connected(parse(document())) as client:
        live = client.running.live
        assert live is not None
        with pytest.raises(ReloadRefused):
            await live.adopt(parse(raw))
        assert live.services.limits.bounds.streams == 20_000
        assert live.settings.application.port == 0
