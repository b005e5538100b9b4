"""Checks on the ECPDS plugin, made only if a stream lists it."""

import json
import re
from collections.abc import Iterator

from aviso_server.settings import addresses
from aviso_server.settings.faults import Fault
from aviso_server.settings.model import Document, Ecpds, EventType
from aviso_server.telemetry.redaction import redact_text

_NUMBERS = (
    "cache_ttl_seconds",
    "max_entries",
    "request_timeout_seconds",
    "connect_timeout_seconds",
)
_SPATIAL = frozenset({"PolygonHandler", "PointCloudHandler"})


def ecpds(document: Document) -> Iterator[Fault]:
    """The section itself, then its match key in every stream that uses the plugin."""
    users = {
        name: entry for name, entry in document.event_types.items() if "ecpds" in entry.plugins
    }
    section = document.ecpds
    if not users:
        return
    if section is None:
        yield Fault(
            "ecpds",
            f"Streams {json.dumps(sorted(users), ensure_ascii=False)} reference the 'ecpds' plugin"
            " but no 'ecpds' configuration section was found",
        )
        return
    yield from _servers(section)
    yield from _texts(section)
    why = _bad_match_key(section.match_key)
    if why:
        yield Fault("ecpds.match_key", why)
    for key in _NUMBERS:
        if getattr(section, key) <= 0:
            yield Fault(f"ecpds.{key}", f"ecpds.{key} must be greater than zero")
    if not why:
        for event_type, entry in users.items():
            yield from _match(section.match_key, event_type, entry)


def _servers(section: Ecpds) -> Iterator[Fault]:
    if not section.servers:
        yield Fault("ecpds.servers", "ecpds.servers must contain at least one server URL")
    for index, server in enumerate(section.servers):
        where = f"ecpds.servers[{index}]"
        if not server.strip():
            yield Fault(where, f"{where} must not be empty or whitespace")
            continue
        # The message goes to stderr and to the log: an address may hold a password.
        shown = redact_text(server)
        for why in _server(server):
            yield Fault(where, f"{where} '{shown}' {why}")


def _server(text: str) -> Iterator[str]:
    """What is wrong with a server address, in the protocol's order."""
    url = addresses.split(text)
    if isinstance(url, str):
        yield f"is not a valid URL: {url}"
        return
    if url.scheme == "http" and url.hostname not in addresses.LOOPBACK:
        yield (
            "uses plain http:// to a non-loopback host."
            " The service account's password would cross the network unencrypted; use https://."
        )
    elif url.scheme not in {"http", "https"}:
        yield (
            f"has unsupported scheme '{url.scheme}';"
            " only 'http' (loopback only) and 'https' are accepted"
        )
    if "?" in text.split("#", 1)[0]:
        yield ("must not contain a query string; the plugin appends '?id=<username>' itself")
    if "#" in text:
        yield "must not contain a URL fragment"


def _texts(section: Ecpds) -> Iterator[Fault]:
    texts = (
        ("username", section.username),
        ("password", section.password.get_secret_value()),
        ("target_field", section.target_field),
    )
    for key, text in texts:
        if not text.strip():
            yield Fault(f"ecpds.{key}", f"ecpds.{key} must not be empty or whitespace")
        elif text != text.strip():
            yield Fault(f"ecpds.{key}", f"ecpds.{key} must not have leading or trailing whitespace")


def _bad_match_key(key: str) -> str | None:
    if not key.strip():
        return "ecpds.match_key must not be empty or whitespace"
    if re.search(r"[\s/\0]", key):
        return (
            f"ecpds.match_key '{key}' must be a single bare identifier name;"
            " whitespace, '/' and NUL are not allowed"
        )
    return None


def _match(key: str, event_type: str, entry: EventType) -> Iterator[Fault]:
    """The match key must be a required, plain field of the stream."""
    prefix = f"ecpds.match_key '{key}'"
    if key not in entry.identifier:
        yield Fault(
            "ecpds.match_key", f"{prefix} has no identifier rule defined in schema '{event_type}'"
        )
        return
    spec = entry.identifier[key]
    rule = spec if isinstance(spec, dict) else {}
    if rule.get("required") is not True:
        yield Fault(
            "ecpds.match_key",
            f"{prefix} must be required: true in schema '{event_type}'"
            " so the value is guaranteed to be present before the plugin runs",
        )
    if rule.get("type") in _SPATIAL:
        yield Fault(
            "ecpds.match_key",
            f"{prefix} must not be a spatial identifier in schema '{event_type}'",
        )
