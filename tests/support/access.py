"""Access control as tests need it: tokens, users, and stand-ins for the services that decide.

The stand-ins answer as the real services do, on loopback sockets.
"""

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from aiohttp import web
from support.config import SCHEMAS

from aviso_server.core.json import Json

SECRET = "a-shared-secret-of-more-than-32-bytes"
HOUR_S = 3600

READ_ONLY = ("reader", "ecmwf", ("reader",))
WRITER = ("writer", "ecmwf", ("producer",))
ADMIN = ("boss", "ecmwf", ("admin",))
STRANGER = ("stranger", "elsewhere", ("admin", "reader", "producer"))
"""Has every role, in a realm that has none of them."""

_REGION: dict[str, Json] = {"region": {"type": "StringHandler", "required": False}}


def _stream(name: str, **auth: Json) -> dict[str, Json]:
    return {
        "topic": {"base": name, "key_order": ["region"]},
        "identifier": _REGION,
        "auth": {"required": True, **auth},
    }


PROTECTED: dict[str, Json] = {
    "ev": SCHEMAS["ev"],
    "members": _stream("members"),
    "roles": _stream(
        "roles",
        read_roles={"ecmwf": ["reader"], "partner": ["*"]},
        write_roles={"ecmwf": ["producer"]},
    ),
}
"""An open stream, one for every user, one by roles."""

DISSEMINATION: dict[str, Json] = {
    "topic": {"base": "diss", "key_order": ["note"]},
    "identifier": {
        "destination": {"type": "StringHandler", "required": True},
        "note": {"type": "StringHandler", "required": False},
    },
    "auth": {"required": True, "write_roles": {"ecmwf": ["producer"]}, "plugins": ["ecpds"]},
}
"""Guarded by the plugin; the destination is no topic token."""


def proxy_auth(**more: Json) -> dict[str, Json]:
    """The ``auth`` section of trusted-proxy mode."""
    return {
        "enabled": True,
        "mode": "trusted_proxy",
        "jwt_secret": SECRET,
        "admin_roles": {"ecmwf": ["admin"]},
        **more,
    }


def direct_auth(url: str, **more: Json) -> dict[str, Json]:
    """The ``auth`` section of direct mode."""
    return {**proxy_auth(), "mode": "direct", "auth_o_tron_url": url, **more}


def claims(
    user: tuple[str, str | None, tuple[str, ...]], *, lives_s: float = HOUR_S
) -> dict[str, Any]:
    """What auth-o-tron says about a user."""
    name, realm, roles = user
    known = {"realm": realm} if realm is not None else {}
    return {
        "sub": f"{realm}-{name}",
        "username": name,
        "roles": list(roles),
        "exp": int(time.time() + lives_s),
        **known,
    }


def token(
    user: tuple[str, str | None, tuple[str, ...]], *, lives_s: float = HOUR_S, key: str = SECRET
) -> str:
    """A token of the shared secret."""
    return jwt.encode(claims(user, lives_s=lives_s), key, algorithm="HS256")


def bearer(text: str) -> tuple[str, str]:
    """The header of a token."""
    return "Authorization", f"Bearer {text}"


def basic(username: str, password: str) -> tuple[str, str]:
    """The header of a user and a password."""
    return "Authorization", f"Basic {b64encode(f'{username}:{password}'.encode()).decode()}"


@dataclass
class AuthOTron:
    """A stand-in for auth-o-tron: knows some headers, answers as documented."""

    users: dict[str, str] = field(default_factory=dict)
    """``Authorization`` header to token."""
    seen: list[dict[str, str]] = field(default_factory=list)
    """The headers of every request."""
    answer: Callable[[], web.Response] | None = None
    """In place of the documented answer."""
    hold: asyncio.Event | None = None
    """Answers wait for it."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def authenticate(self, request: web.Request) -> web.Response:
        """``GET /authenticate``."""
        self.seen.append({name.lower(): value for name, value in request.headers.items()})
        self.asked.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.answer is not None:
            return self.answer()
        known = self.users.get(request.headers.get("Authorization", ""))
        if known is None:
            return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
        headers = {"Authorization": f"Bearer {known}"}
        return web.Response(text="Authenticated successfully", headers=headers)


@asynccontextmanager
async def auth_o_tron(users: Mapping[str, str] | None = None) -> AsyncIterator[AuthOTron]:
    """Run the stand-in."""
    stand_in = AuthOTron(dict(users or {}))
    app = web.Application()
    app.router.add_get("/authenticate", stand_in.authenticate)
    async with served(app) as url:
        stand_in.url = url
        yield stand_in


@dataclass
class EcpdsServer:
    """A stand-in for one ECPDS server."""

    lists: dict[str, Json] = field(default_factory=dict)
    """User name to records."""
    queries: list[str] = field(default_factory=list)
    """Raw query strings, as they came."""
    accounts: list[str] = field(default_factory=list)
    """``Authorization`` headers."""
    answer: Callable[[], web.Response] | None = None
    hold: asyncio.Event | None = None
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def list(self, request: web.Request) -> web.Response:
        """``GET /ecpds/v1/destination/list``."""
        self.queries.append(request.url.raw_query_string)
        self.accounts.append(request.headers.get("Authorization", ""))
        self.asked.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.answer is not None:
            return self.answer()
        records = self.lists.get(request.query["id"], [])
        return web.json_response({"destinationList": records, "success": "yes"})


def destination(name: str, *, active: object = True) -> Json:
    """One record of a destination list."""
    return {"name": name, "active": active, "comment": "made up"}  # type: ignore[dict-item]


@asynccontextmanager
async def ecpds_server(
    lists: Mapping[str, Json] | None = None, *, prefix: str = ""
) -> AsyncIterator[EcpdsServer]:
    """Run the stand-in, below a path prefix if one is given."""
    stand_in = EcpdsServer(dict(lists or {}))
    app = web.Application()
    app.router.add_get(f"{prefix}/ecpds/v1/destination/list", stand_in.list)
    async with served(app) as url:
        stand_in.url = url + prefix
        yield stand_in


def ecpds_section(*servers: str, **more: Json) -> dict[str, Json]:
    """The ``ecpds`` section."""
    return {
        "username": "service",
        "password": "pass:word",
        "servers": list(servers),
        "match_key": "destination",
        **more,
    }


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[str]:
    """Serve an application on a free loopback port; its address."""
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
