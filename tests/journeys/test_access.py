"""The real client with credentials, in both modes, against stand-ins on loopback."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pyaviso
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from support.access import (
    ADMIN,
    DISSEMINATION,
    PROTECTED,
    READ_ONLY,
    WRITER,
    AuthOTron,
    EcpdsServer,
    auth_o_tron,
    basic,
    bearer,
    claims,
    destination,
    direct_auth,
    ecpds_section,
    ecpds_server,
    proxy_auth,
    served,
    token,
)
from support.config import settings
from support.journal import WATCHING, Journal
from support.keys import EC_KEY, RSA_KEY, jwk, pem
from support.listening import take
from support.raw import Wire, wired
from support.server import Client, connected
from support.sse import opened, sequences

from aviso_server.core.json import Json
from aviso_server.server.build import StartFailed
from aviso_server.server.serve import serving

NORTH = {"region": "n"}
CHECK = "/api/v1/auth/check"


def client_of(server: Client, auth: Any) -> pyaviso.AsyncAvisoClient:
    return pyaviso.AsyncAvisoClient(base_url=server.running.url, auth=auth)


@asynccontextmanager
async def direct_server() -> AsyncIterator[tuple[Client, AuthOTron]]:
    """A server in direct mode, and the auth-o-tron it asks."""
    users = {
        basic("reader", "right")[1]: token(READ_ONLY),
        basic("writer", "right")[1]: token(WRITER),
        "Bearer opaque-reader": token(READ_ONLY),
        "Bearer opaque-writer": token(WRITER),
        "Bearer opaque-admin": token(ADMIN),
    }
    async with (
        auth_o_tron(users) as stand_in,
        connected(settings({"auth": direct_auth(stand_in.url)}, schemas=PROTECTED)) as server,
    ):
        yield server, stand_in


@asynccontextmanager
async def behind_proxy(**auth: Json) -> AsyncIterator[tuple[Client, Wire]]:
    """A server in trusted-proxy mode with these keys, and a connection to it."""
    async with (
        connected(settings({"auth": proxy_auth(**auth)}, schemas=PROTECTED)) as server,
        wired(server.running) as wire,
    ):
        yield server, wire


async def round_trip(server: Client, writing: Any, reading: Any) -> None:
    """One may write and not read, the other may read and not write."""
    writer, reader = client_of(server, writing), client_of(server, reading)
    await writer.notify(event_type="roles", identifier=NORTH, payload=1)
    with pytest.raises(pyaviso.HttpError) as refused:
        await reader.notify(event_type="roles", identifier=NORTH, payload=2)
    assert refused.value.status == 403
    async with reader.listen("roles", filter=NORTH, start_from=0, mode="replay_only") as history:
        assert [item.payload async for item in history] == [1]
    with pytest.raises(pyaviso.HttpError) as refused:
        async with writer.listen("roles", filter=NORTH, start_from=0, mode="replay_only") as none:
            await take(none, 1)
    assert refused.value.status == 403


async def test_direct_mode() -> None:
    """Passwords and opaque tokens go to auth-o-tron, and its roles decide."""
    async with direct_server() as (server, _):
        await round_trip(server, pyaviso.Basic("writer", "right"), pyaviso.Basic("reader", "right"))
    async with direct_server() as (server, _):
        await round_trip(server, pyaviso.Bearer("opaque-writer"), pyaviso.Bearer("opaque-reader"))


async def test_trusted_proxy_mode_with_bearer() -> None:
    """The proxy's token is checked here."""
    async with behind_proxy() as (server, _):
        await round_trip(server, pyaviso.Bearer(token(WRITER)), pyaviso.Bearer(token(READ_ONLY)))


async def test_basic_is_nobody_in_trusted_proxy_mode() -> None:
    """The proxy should have put a token in its place: open streams only."""
    async with behind_proxy() as (server, _):
        client = client_of(server, pyaviso.Basic("writer", "right"))
        await client.notify(event_type="ev", identifier=NORTH)
        with pytest.raises(pyaviso.HttpError) as refused:
            await client.notify(event_type="roles", identifier=NORTH)
        assert refused.value.status == 401


async def test_wrong_passwords() -> None:
    """The client tries once more and then gives up, on every endpoint."""
    async with direct_server() as (server, stand_in):
        client = client_of(server, pyaviso.Basic("writer", "wrong"))
        with pytest.raises(pyaviso.HttpError) as refused:
            await client.notify(event_type="ev", identifier=NORTH)
        assert refused.value.status == 401
        with pytest.raises(pyaviso.AuthError):
            async with client.listen("ev", filter=NORTH) as live:
                await take(live, 1)
        assert {seen["authorization"] for seen in stand_in.seen} == {basic("writer", "wrong")[1]}


async def test_a_listener_outlives_its_token(journal: Journal, tmp_path: Path) -> None:
    """The stream ends with the token, the old token gets a 401, the new one goes on; no gap."""
    async with behind_proxy() as (server, _):
        writer = client_of(server, pyaviso.Bearer(token(WRITER)))
        file = tmp_path / "credentials.yaml"
        file.write_text(f"bearer: {{token: {token(READ_ONLY, lives_s=3)}}}\n")
        reader = client_of(server, pyaviso.ConfigFile(file))
        async with reader.listen("roles", filter=NORTH) as live:
            await journal.seen(WATCHING)
            await writer.notify(event_type="roles", identifier=NORTH, payload=1)
            assert [item.payload for item in await take(live, 1)] == [1]
            file.write_text(f"bearer: {{token: {token(READ_ONLY)}}}\n")
            await journal.seen("auth.middleware.request.denied")
            await writer.notify(event_type="roles", identifier=NORTH, payload=2)
            assert [item.payload for item in await take(live, 1)] == [2]
        (denied,) = journal.all("auth.middleware.request.denied")
        assert (denied["status_code"], denied["details"]) == (401, "expired")
        assert [seen["username"] for seen in journal.all(WATCHING)] == ["reader", "reader"]


async def test_administration_with_the_client() -> None:
    """Wipes need the role; the client's own error says so."""
    async with direct_server() as (server, _), wired(server.running) as wire:
        for path in ("/api/v1/admin/wipe/all", "/api/v1/%61dmin/wipe/all"):
            refused = await wire.ask("DELETE", path, headers=[("Authorization", "Bearer nobody")])
            assert refused.status == 401
            challenges = [v for name, v in refused.headers if name == "www-authenticate"]
            assert challenges == ["Bearer", "Basic"]
            for name, status in (("opaque-writer", 403), ("opaque-admin", 200)):
                answer = await wire.ask("DELETE", path, headers=[bearer(name)])
                assert answer.status == status


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("Bearer é", "Authorization header is not valid UTF-8"),
        ("", "Authorization header cannot be empty"),
        ("Bearer", "Authorization header must use Bearer or Basic scheme"),
        ("Digest x", "Authorization header must use Bearer or Basic scheme"),
    ],
)
async def test_malformed_headers_in_direct_mode(value: str, message: str) -> None:
    """Refused where a user is required; anonymous on a stream; auth-o-tron is not asked."""
    async with direct_server() as (server, stand_in), wired(server.running) as wire:
        head = [("Authorization", value)]
        answer = await wire.ask("DELETE", "/api/v1/admin/wipe/all", headers=head)
        assert (answer.status, answer.data["message"]) == (401, message)
        body = json.dumps({"event_type": "ev", "identifier": NORTH}).encode()
        assert (await wire.ask("POST", "/api/v1/notification", body, head)).status == 200
        assert stand_in.seen == []


async def test_when_auth_o_tron_is_away() -> None:
    """503 for those who show a credential, also on open streams; nobody is let in meanwhile."""
    async with direct_server() as (server, stand_in), wired(server.running) as wire:
        stand_in.answer = lambda: web.Response(status=500)
        body = json.dumps({"event_type": "ev", "identifier": NORTH}).encode()
        head = [("Authorization", "Bearer opaque-admin")]
        for method, path in (
            ("DELETE", "/api/v1/admin/wipe/all"),
            ("POST", "/api/v1/notification"),
            ("POST", "/api/v1/watch"),
        ):
            answer = await wire.ask(method, path, body, head)
            assert answer.body.decode() == (
                '{"code":"SERVICE_UNAVAILABLE","error":"service_unavailable",'
                '"message":"Authentication service temporarily unavailable",'
                f'"request_id":"{answer.request_id}"}}'
            )
            assert answer.status == 503
        stand_in.answer = lambda: web.Response(status=403)
        denied = await wire.ask("POST", "/api/v1/notification", body, head)
        assert (denied.status, denied.data["message"]) == (403, "Token validation was denied")
        assert (await wire.ask("POST", "/api/v1/notification", body)).status == 200


# Public keys


async def status_of(wire: Wire, text: str) -> int:
    return (await wire.ask("GET", CHECK, headers=[bearer(text)])).status


async def test_tokens_of_a_public_key_file(tmp_path: Path) -> None:
    """RS256 from a PEM file, beside the shared secret; each key for its own algorithm."""
    file = tmp_path / "key.pem"
    file.write_bytes(pem(RSA_KEY))
    async with behind_proxy(public_key_file=str(file)) as (_, wire):
        assert await status_of(wire, jwt.encode(claims(ADMIN), RSA_KEY, algorithm="RS256")) == 200
        assert await status_of(wire, token(ADMIN)) == 200
        other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        assert await status_of(wire, jwt.encode(claims(ADMIN), other, algorithm="RS256")) == 401


async def test_tokens_of_a_key_set() -> None:
    """ES256 from a JWKS URL, without any shared secret; an HS256 token is worth nothing."""

    async def jwks(_: web.Request) -> web.Response:
        return web.json_response({"keys": [jwk(EC_KEY, kid="now", use="sig")]})

    app = web.Application()
    app.router.add_get("/jwks.json", jwks)
    async with (
        served(app) as url,
        behind_proxy(jwks_url=f"{url}/jwks.json", jwt_secret="") as (_, wire),
    ):
        for kid, status in (("now", 200), ("odd", 401)):
            shown = jwt.encode(claims(ADMIN), EC_KEY, algorithm="ES256", headers={"kid": kid})
            assert await status_of(wire, shown) == status
        assert await status_of(wire, token(ADMIN)) == 401


async def test_a_key_service_that_was_never_there() -> None:
    """503: the server cannot tell, and says so."""
    async with (
        served(web.Application()) as url,
        behind_proxy(jwks_url=f"{url}/nothing", jwt_secret="") as (_, wire),
    ):
        assert await status_of(wire, jwt.encode(claims(ADMIN), EC_KEY, algorithm="ES256")) == 503


@pytest.mark.parametrize("content", [None, b"nonsense"])
async def test_a_key_file_that_cannot_be_used_stops_the_start(
    tmp_path: Path, content: bytes | None
) -> None:
    """Better no server than one that lets nobody in, or anybody."""
    file = tmp_path / "key.pem"
    if content is not None:
        file.write_bytes(content)
    auth = proxy_auth(public_key_file=str(file))
    with pytest.raises(StartFailed, match="key"):
        async with serving(settings({"auth": auth}, schemas=PROTECTED)):
            pass


# ECPDS


@asynccontextmanager
async def dissemination() -> AsyncIterator[tuple[Client, EcpdsServer]]:
    """A server with the plugin, and something for two destinations."""
    lists: dict[str, Json] = {"reader": [destination("FOO"), destination("OLD", active=False)]}
    async with ecpds_server(lists) as stand_in:
        sections: dict[str, Json] = {"auth": proxy_auth(), "ecpds": ecpds_section(stand_in.url)}
        made = settings(sections, schemas={"diss": DISSEMINATION})
        async with connected(made) as server:
            writer = client_of(server, pyaviso.Bearer(token(WRITER)))
            for number, where in enumerate(["FOO", "BAR", "FOO", "foo"]):
                await writer.notify(
                    event_type="diss",
                    identifier={"destination": where, "note": "same"},
                    payload=number,
                )
            yield server, stand_in


def asked(where: Json, **more: Json) -> dict[str, Json]:
    return {"event_type": "diss", "identifier": {"destination": where}, **more}


async def test_one_gets_what_is_sent_to_one_s_destinations() -> None:
    """Nothing else is delivered, live or from history, though all share one topic."""
    async with dissemination() as (server, stand_in):
        reader = client_of(server, pyaviso.Bearer(token(READ_ONLY)))
        async with reader.listen(
            "diss", filter={"destination": "FOO"}, start_from=0, mode="replay_only"
        ) as history:
            assert [item.payload async for item in history] == [0, 2]
        head = dict([bearer(token(READ_ONLY))])
        url = f"{server.running.url}/api/v1/watch"
        async with opened(url, asked("FOO"), head) as stream:
            await stream.until("connection_established")
            writer = client_of(server, pyaviso.Bearer(token(WRITER)))
            for where in ("BAR", "FOO"):
                await writer.notify(
                    event_type="diss", identifier={"destination": where, "note": "same"}
                )
            assert sequences(await stream.until("live-notification")) == [6]
        assert stand_in.queries == ["id=reader"], "remembered after the first question"


@pytest.mark.parametrize("where", ["BAR", "OLD", "foo", "*"])
async def test_other_destinations_are_refused(where: str) -> None:
    """On both endpoints, before anything is opened."""
    async with dissemination() as (server, _), wired(server.running) as wire:
        head = [bearer(token(READ_ONLY))]
        for path, more in (("watch", {}), ("replay", {"from_id": "1"})):
            body = json.dumps(asked(where, **more)).encode()
            answer = await wire.ask("POST", f"/api/v1/{path}", body, head)
            assert answer.status == 403
            message = f"User 'reader' does not have access to destination '{where}'"
            assert answer.data["message"] == message
            assert "details" not in answer.data


async def test_the_plugin_comes_last() -> None:
    """After authorisation and validation; never on notify; not for administrators."""
    async with dissemination() as (server, stand_in), wired(server.running) as wire:
        replay = "/api/v1/replay"
        nobody = await wire.ask("POST", replay, json.dumps(asked("FOO", from_id="1")).encode())
        assert nobody.status == 401
        head = [bearer(token(READ_ONLY))]
        invalid = await wire.ask("POST", replay, json.dumps(asked("FOO")).encode(), head)
        assert invalid.data["code"] == "INVALID_REPLAY_REQUEST"
        missing = b'{"event_type":"diss","identifier":{},"from_id":"1"}'
        assert (await wire.ask("POST", replay, missing, head)).status == 400
        body = json.dumps(asked("BAR", from_id="1")).encode()
        boss = await wire.ask("POST", replay, body, [bearer(token(ADMIN))])
        assert boss.body.count(b"event: replay\n") == 1
        assert stand_in.queries == [], "nobody had to be asked so far"
        stand_in.answer = lambda: web.Response(status=500)
        away = await wire.ask("POST", replay, body, head)
        assert (away.status, away.data["message"]) == (503, "ECPDS service is inaccessible")
        assert away.data["code"] == "SERVICE_UNAVAILABLE"
