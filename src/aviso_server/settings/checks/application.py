"""Checks on the ``application`` section."""

from collections.abc import Iterator

from aviso_server.settings import addresses
from aviso_server.settings.faults import Fault
from aviso_server.settings.model import Document, Homepage

MIN_HEAD_BYTES = 8192
"""Of a request: what every HTTP server takes, and ordinary tokens need."""


def application(document: Document) -> Iterator[Fault]:
    """Home page links, polygon output, body limits, time limits and origins."""
    section = document.application
    for key in Homepage.model_fields:
        if not _public_url(getattr(section.homepage, key)):
            where = f"application.homepage.{key}"
            yield Fault(
                where,
                f"{where} must be an absolute HTTP(S) URL with a host and no embedded credentials",
            )
    if section.polygon_output not in {"array", "string"}:
        yield Fault(
            "application.polygon_output", "application.polygon_output must be 'array' or 'string'"
        )
    for key in (
        "max_batch_bytes",
        "max_batch_items",
        "head_timeout_seconds",
        "body_timeout_seconds",
        "idle_timeout_seconds",
    ):
        if getattr(section, key) <= 0:
            path = f"application.{key}"
            yield Fault(path, f"{path} must be greater than zero")
    if section.max_body_bytes <= 0:
        yield Fault(
            "application.max_body_bytes", "application.max_body_bytes must be greater than zero"
        )
    together = document.limits.max_batch_bytes_in_progress
    # One that came compressed takes its own size and what it may become.
    if 0 < together < 2 * section.max_batch_bytes:
        yield Fault(
            "limits.max_batch_bytes_in_progress",
            "limits.max_batch_bytes_in_progress must be at least twice application.max_batch_bytes,"
            " or 0 for no limit",
        )
    if section.max_head_bytes < MIN_HEAD_BYTES:
        yield Fault(
            "application.max_head_bytes",
            f"application.max_head_bytes must be at least {MIN_HEAD_BYTES}",
        )
    for origin in section.cors_allowed_origins:
        if origin != "*" and not _is_origin(origin):
            yield Fault(
                "application.cors_allowed_origins",
                f"'{origin}' is not an origin: scheme and host, with a port if it is not the"
                " usual one, such as https://console.example, or '*'",
            )


def _is_origin(text: str) -> bool:
    """As browsers send it: lower case, no path, no trailing slash."""
    url = addresses.split(text)
    return (
        not isinstance(url, str)
        and url.scheme in {"http", "https"}
        and "@" not in url.netloc
        and text == f"{url.scheme}://{url.netloc}".lower()
    )


def _public_url(text: str) -> bool:
    url = addresses.split(text)
    return not isinstance(url, str) and url.scheme in {"http", "https"} and "@" not in url.netloc
