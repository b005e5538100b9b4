"""Whom a request counts for: its user, and the address of its connection."""

import hashlib

import msgspec
from aiohttp import web

from aviso_server.http.access import IDENTITY
from aviso_server.http.limits import Caller


def caller(request: web.Request) -> Caller:
    """The caller; the same name in two realms is two users."""
    identity = request.get(IDENTITY)
    address = request.remote or ""
    if identity is None:
        return Caller(address)
    return Caller(address, f"{identity.realm or ''}/{identity.username}")


def key_owner(request: web.Request) -> str:
    """Whom idempotency keys belong to: user and realm, or everybody anonymous together.

    A digest, because names may hold anything and the key is stored; the same on every node.
    """
    identity = request.get(IDENTITY)
    if identity is None:
        return "anonymous"
    name = msgspec.json.encode([identity.realm, identity.username])
    return hashlib.sha256(name).hexdigest()[:32]
