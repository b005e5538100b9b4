"""Checks on authentication, plugins and stream access."""

from collections.abc import Iterator, Mapping, Sequence

from aviso_server.settings import addresses
from aviso_server.settings.addresses import LOOPBACK
from aviso_server.settings.faults import Fault
from aviso_server.settings.model import Auth, Document, StreamAuth

_EDGES = "must not have leading or trailing whitespace"
_KNOWN_PLUGINS = ("ecpds",)


def admins(document: Document) -> Iterator[Fault]:
    """The ``auth`` section, when authentication is on."""
    auth = document.auth
    if not auth.enabled:
        return
    secret = auth.jwt_secret.get_secret_value()
    texts = (
        ("auth_o_tron_url", auth.auth_o_tron_url),
        ("jwt_secret", secret),
        ("jwks_url", auth.jwks_url),
        ("public_key_file", auth.public_key_file),
    )
    for key, text in texts:
        if text != text.strip():
            yield Fault(f"auth.{key}", f"auth.{key} {_EDGES}")
    if auth.timeout_ms <= 0:
        yield Fault("auth.timeout_ms", "auth.timeout_ms must be greater than zero")
    if not auth.admin_roles:
        yield Fault(
            "auth.admin_roles",
            "auth.enabled=true requires auth.admin_roles to contain at least one realm",
        )
    yield from _realms("auth.admin_roles", "auth.admin_roles", auth.admin_roles)
    yield from _mode(auth, keyed=any(text.strip() for _, text in texts[1:]))
    why = _bad_key_set(auth.jwks_url.strip())
    if why:
        yield Fault("auth.jwks_url", f"auth.jwks_url {why}")


def _bad_key_set(text: str) -> str | None:
    """Why keys cannot be fetched from there; anyone who can change them in transit can be any
    user."""
    if not text:
        return None
    url = addresses.split(text)
    if isinstance(url, str):
        return f"is not a valid URL: {url}"
    if url.username or url.password:
        return "must not contain credentials"
    if url.scheme == "https" or (url.scheme == "http" and url.hostname in LOOPBACK):
        return None
    return "must use https://; plain http:// is accepted for loopback hosts only"


def _mode(auth: Auth, *, keyed: bool) -> Iterator[Fault]:
    """Every mode needs a key to check tokens with; the protocol's texts name the usual one."""
    if auth.mode == "direct" and not (auth.auth_o_tron_url.strip() and keyed):
        yield Fault(
            "auth.mode",
            "auth.mode=direct requires both auth.auth_o_tron_url and auth.jwt_secret"
            " to be configured",
        )
    if auth.mode == "trusted_proxy" and not keyed:
        yield Fault(
            "auth.mode", "auth.mode=trusted_proxy requires auth.jwt_secret to be configured"
        )


def plugins(document: Document) -> Iterator[Fault]:
    """Plugin lists: not empty, known, and with required authentication."""
    for event_type, auth in _stream_auths(document):
        if auth.plugins is None:
            continue
        at = f"notification_schema.{event_type}.auth.plugins"
        prefix = f"Schema '{event_type}' auth.plugins"
        if not auth.plugins:
            yield Fault(
                at, f"{prefix} must not be empty; omit the field instead of setting plugins: []"
            )
            continue
        for name in auth.plugins:
            if name not in _KNOWN_PLUGINS:
                yield Fault(
                    at, f"{prefix} references unknown plugin '{name}'. Known plugins: [\"ecpds\"]"
                )
        if not auth.required:
            yield Fault(
                at,
                f"{prefix} is set but auth.required is false. Plugins only run after stream-level"
                " auth passes; set auth.required=true or remove the plugins list.",
            )


def streams(document: Document) -> Iterator[Fault]:
    """Role maps of each event type, and whether authentication is on to enforce them."""
    for event_type, auth in _stream_auths(document):
        at = f"notification_schema.{event_type}.auth"
        prefix = f"Schema '{event_type}' auth"
        if auth.read_roles is not None and not auth.read_roles:
            yield Fault(
                f"{at}.read_roles",
                f"{prefix}.read_roles must not be an empty map;"
                " remove the field to allow any authenticated user to read",
            )
        if auth.write_roles is not None and not auth.write_roles:
            yield Fault(
                f"{at}.write_roles",
                f"{prefix}.write_roles must not be an empty map;"
                " remove the field to restrict writes to admins only",
            )
        yield from _realms(f"{prefix}.read_roles", f"{at}.read_roles", auth.read_roles or {})
        yield from _realms(f"{prefix}.write_roles", f"{at}.write_roles", auth.write_roles or {})
        why = _enforced(auth, enabled=document.auth.enabled)
        if why:
            yield Fault(at, f"Schema '{event_type}' {why}")


def _enforced(auth: StreamAuth, *, enabled: bool) -> str | None:
    """Why the access rules of a stream would not hold, or None."""
    roles = auth.read_roles is not None or auth.write_roles is not None
    if enabled and roles and not auth.required:
        return (
            "sets auth roles while auth.required=false;"
            " set auth.required=true or remove the role lists"
        )
    if enabled or not (auth.required or roles):
        return None
    what = "auth.required=true" if auth.required else "auth roles"
    return (
        f"sets {what} but auth is globally disabled."
        " Enable auth.enabled=true or remove schema auth config."
    )


def _realms(prefix: str, at: str, roles: Mapping[str, Sequence[str]]) -> Iterator[Fault]:
    """The rules of maps from realms to roles."""
    if any(not realm.strip() for realm in roles):
        yield Fault(at, f"{prefix} must not contain empty or whitespace-only realm keys")
    for realm, names in roles.items():
        if not realm.strip():
            continue
        if realm != realm.strip():
            yield Fault(at, f"{prefix} realm '{realm}' {_EDGES}")
        if not names:
            yield Fault(at, f"{prefix} realm '{realm}' must have at least one role")
        if any(not name.strip() for name in names):
            yield Fault(
                at,
                f"{prefix} realm '{realm}' must not contain empty or whitespace-only role entries",
            )
        for name in names:
            if name.strip() and name != name.strip():
                yield Fault(at, f"{prefix} realm '{realm}' role '{name}' {_EDGES}")


def _stream_auths(document: Document) -> Iterator[tuple[str, StreamAuth]]:
    for event_type, entry in document.event_types.items():
        if entry.auth is not None:
            yield event_type, entry.auth
