"""What each route and each stream demands of its caller (docs/authentication.md#roles)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from aviso_server.auth.identity import Identity
from aviso_server.auth.refusal import Forbidden, Unauthorized
from aviso_server.core.schema import Schema

RoleMap: TypeAlias = Mapping[str, tuple[str, ...]]
"""Realm to roles; ``*`` means every role."""


class Policy(Enum):
    """Attached to every route; a route without one is treated as ADMIN."""

    PUBLIC = "public"
    """Credentials are ignored."""
    USER = "user"
    """Anyone with an accepted credential."""
    READ = "stream (read)"
    """The event type of the request decides; the token must outlive the opening."""
    WRITE = "stream (write)"
    """The event type of the request decides."""
    ADMIN = "admin"
    """Administrators only."""


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Who may do what; pure, and asked for every request."""

    admin_roles: RoleMap

    def administers(self, identity: Identity) -> bool:
        """True for an administrator."""
        return matches(self.admin_roles, identity)

    def admit_admin(self, identity: Identity) -> None:
        """Raise Forbidden unless the caller is an administrator."""
        if not self.administers(identity):
            raise _forbidden("User does not have required administrative role", identity)

    def admit_reader(self, schema: Schema, identity: Identity | None) -> None:
        """Raise Unauthorized or Forbidden unless the caller may watch and replay."""
        access = schema.access
        if access is None or not access.required:
            return
        known = _require_known(identity)
        if access.read_roles is None or self.administers(known):
            return
        if not matches(access.read_roles, known):
            raise _forbidden("User does not have required read role for this stream", known)

    def admit_writer(self, schema: Schema, identity: Identity | None) -> None:
        """Raise Unauthorized or Forbidden unless the caller may notify."""
        access = schema.access
        if access is None or not access.required:
            return
        known = _require_known(identity)
        if self.administers(known):
            return
        if access.write_roles is None:
            raise _forbidden("Only administrators can write to this stream", known)
        if not matches(access.write_roles, known):
            raise _forbidden("User does not have required write role for this stream", known)


def matches(roles: RoleMap, identity: Identity) -> bool:
    """True if the caller's realm is a key and its roles hold one of the caller's, or ``*``.

    Exact and case-sensitive. A caller without realm matches nothing.
    """
    if identity.realm is None:
        return False
    allowed = roles.get(identity.realm, ())
    return "*" in allowed or not set(allowed).isdisjoint(identity.roles)


def _require_known(identity: Identity | None) -> Identity:
    if identity is None:
        raise Unauthorized("Authentication is required for this stream")
    return identity


def _forbidden(message: str, identity: Identity) -> Forbidden:
    return Forbidden(message, username=identity.username)
