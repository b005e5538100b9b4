"""The gate: every question about access that a request raises, asked in one place."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter

from aviso_server.auth.access import AccessRules, Policy
from aviso_server.auth.ecpds import EcpdsPlugin
from aviso_server.auth.identity import Authenticator, Identity
from aviso_server.auth.refusal import (
    INVALID_TOKEN,
    MalformedHeader,
    Refusal,
    Unauthorized,
    Undecided,
)
from aviso_server.core.filter import Filter
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Schema
from aviso_server.telemetry.metrics import SILENT, Metrics

_NAMED = frozenset({Policy.ADMIN, Policy.USER})
"""Policies under which a caller must be identified before anything else is checked."""


class NotRecognised(Exception):
    """It takes more to find out who a caller is."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Authentication and authorisation together; there is none while ``auth.enabled`` is false."""

    authenticator: Authenticator
    rules: AccessRules
    now_ns: Callable[[], int]
    ecpds: EcpdsPlugin | None = None
    metrics: Metrics = SILENT
    closers: tuple[Callable[[], Awaitable[None]], ...] = ()
    """What else to close, such as the connections to a key service."""

    async def identify(self, policy: Policy, authorization: str | None) -> Identity | None:
        """The caller, as far as the route's policy needs to know; None if anonymous.

        On stream routes a header that cannot be read counts as none, a credential that is
        refused does not.
        """
        credential = _credential(policy, authorization)
        if credential is None:
            return None
        begun = perf_counter()
        try:
            identity = await self.authenticator.identify(credential)
            self._suffice(policy, identity)
        except Refusal as refusal:
            if isinstance(refusal, MalformedHeader) and policy not in _NAMED:
                return None
            self.decided(refusal.outcome, perf_counter() - begun)
            raise
        self.decided("success", perf_counter() - begun)
        return identity

    def recognise(self, policy: Policy, authorization: str | None) -> Identity | None:
        """As ``identify``, for a caller about whom nobody needs to be asked.

        Raises if it is any other, and counts nothing: what is raised here, ``identify`` finds again
        and counts, and what succeeds is ``decided`` once nothing else is in the way.
        """
        credential = _credential(policy, authorization)
        if credential is None:
            return None
        identity = self.authenticator.remembered(credential)
        if identity is None:
            raise NotRecognised
        self._suffice(policy, identity)
        return identity

    def decided(self, outcome: str, seconds: float) -> None:
        """Count a credential."""
        self.metrics.auth_decided(self.authenticator.mode, outcome, seconds)

    def _suffice(self, policy: Policy, identity: Identity) -> None:
        """Raise a Refusal unless a caller is enough for a policy."""
        if policy is Policy.READ and self._over(identity):
            raise Unauthorized(INVALID_TOKEN, details="expired")
        if policy is Policy.ADMIN:
            self.rules.admit_admin(identity)

    def admit(self, operation: Operation, schema: Schema, identity: Identity | None) -> None:
        """Raise Unauthorized or Forbidden unless the caller may do this to this event type."""
        if operation is Operation.NOTIFY:
            self.rules.admit_writer(schema, identity)
        else:
            self.rules.admit_reader(schema, identity)

    async def entitle(self, schema: Schema, identity: Identity | None, wanted: Filter) -> None:
        """Ask the plugins of the event type; after authorisation and validation."""
        if schema.access is None or not schema.access.plugins:
            return
        if self.ecpds is None or identity is None:
            raise Undecided("Server configuration error")
        if self.rules.administers(identity):
            self.ecpds.bypassed(identity)
            return
        await self.ecpds.check(identity, wanted)

    async def close(self) -> None:
        """Free everything."""
        await self.authenticator.close()
        if self.ecpds is not None:
            await self.ecpds.close()
        for closer in self.closers:
            await closer()

    def _over(self, identity: Identity) -> bool:
        """True for a token that only the leeway keeps alive: no stream can be opened with it."""
        return identity.expires_at_ns is not None and identity.expires_at_ns <= self.now_ns()


def _credential(policy: Policy, authorization: str | None) -> str | None:
    """What says who a caller is, as far as a policy wants to know; None for an anonymous one."""
    if authorization is None and policy in _NAMED:
        raise Unauthorized("Authorization header is required")
    return None if policy is Policy.PUBLIC else authorization
