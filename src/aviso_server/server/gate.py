"""Access control from settings. Loaded only where there is any: its cryptography takes 10 MiB."""

import time
from pathlib import Path

import structlog
from yarl import URL

from aviso_server.auth.access import AccessRules
from aviso_server.auth.authotron import Direct, DirectOptions
from aviso_server.auth.destinations import Destinations, EcpdsOptions
from aviso_server.auth.ecpds import EcpdsPlugin, Memory
from aviso_server.auth.gate import Gate
from aviso_server.auth.identity import Authenticator
from aviso_server.auth.keyring import FixedKeys, KeySet, KeySource, PemFile
from aviso_server.auth.keys import BadKey, shared_secret
from aviso_server.auth.outbound import Outbound, Timeouts, fetch
from aviso_server.auth.proxy import TrustedProxy
from aviso_server.auth.token import TokenCheck
from aviso_server.settings import Settings
from aviso_server.telemetry.metrics import Metrics

MAX_KEY_SET_BYTES = 262_144
"""Of a JSON Web Key Set; real ones have a few thousand."""


MIN_SECRET_BYTES = 32
"""What RFC 7518 wants of an HS256 secret; shorter ones work, with a warning."""


def build_gate(settings: Settings, metrics: Metrics) -> Gate:
    """Access control as configured; BadKey when a key cannot be used."""
    auth = settings.auth
    keys = Outbound(Timeouts(auth.timeout_ms / 1000), max_bytes=MAX_KEY_SET_BYTES)
    tokens = TokenCheck(_key_sources(settings, keys), now_ns=time.time_ns)
    authenticator: Authenticator = TrustedProxy(tokens)
    if auth.mode == Direct.mode:
        options = DirectOptions(auth.auth_o_tron_url, auth.timeout_ms / 1000, auth.cache_seconds)
        authenticator = Direct(options, tokens, now_ns=time.time_ns)
    return Gate(
        authenticator=authenticator,
        rules=AccessRules(auth.admin_roles),
        now_ns=time.time_ns,
        ecpds=_ecpds(settings, metrics),
        metrics=metrics,
        closers=(keys.close,),
    )


def _key_sources(settings: Settings, outbound: Outbound) -> list[KeySource]:
    """Every key that is configured; tokens are checked with those of their algorithm."""
    auth = settings.auth
    sources: list[KeySource] = []
    try:
        if secret := auth.jwt_secret.get_secret_value():
            sources.append(FixedKeys(shared_secret(secret)))
            if len(secret.encode()) < MIN_SECRET_BYTES:
                structlog.get_logger().warning(
                    "auth.jwt_secret is short and can be guessed; use 32 random bytes or more",
                    event_name="startup.auth.short_secret",
                )
        if auth.public_key_file:
            sources.append(PemFile(Path(auth.public_key_file), clock=time.monotonic))
    except BadKey as error:
        raise BadKey(f"a key of the 'auth' section cannot be used: {error}") from error
    except OSError as error:
        raise BadKey(f"auth.public_key_file cannot be read: {error.strerror}") from error
    if auth.jwks_url:
        address = URL(auth.jwks_url)
        sources.append(KeySet(lambda: fetch(outbound, address), clock=time.monotonic))
    return sources


def _ecpds(settings: Settings, metrics: Metrics) -> EcpdsPlugin | None:
    """The plugin, if an event type uses it; its section was checked only then."""
    chosen = settings.ecpds
    schemas = settings.catalogue.schemas.values()
    if chosen is None or not any(item.access and item.access.plugins for item in schemas):
        return None
    destinations = Destinations(
        EcpdsOptions(
            servers=chosen.servers,
            username=chosen.username,
            password=chosen.password.get_secret_value(),
            target_field=chosen.target_field,
            strict=chosen.partial_outage_policy == "strict",
            request_timeout_s=chosen.request_timeout_seconds,
            connect_timeout_s=chosen.connect_timeout_seconds,
        )
    )
    memory = Memory(chosen.cache_ttl_seconds, chosen.max_entries)
    return EcpdsPlugin(destinations, chosen.match_key, memory, metrics=metrics)
