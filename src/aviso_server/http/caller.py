"""Whom a request counts for: its user, and the address of its connection."""

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
