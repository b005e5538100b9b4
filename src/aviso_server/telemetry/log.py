"""Logs: one JSON object per line in the contract's shape (operations.md 9), or readable text.

Every record carries ``event_name``, a stable name for machines, and a body for people. Context
(request id, event type, topic) is bound explicitly by whoever knows it.
"""

import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import TextIO

import msgspec
import structlog

from aviso_server import __version__
from aviso_server.core.moment import seconds
from aviso_server.telemetry.redaction import redact

_SEVERITY = {"debug": (5, "DEBUG"), "info": (9, "INFO"), "warning": (13, "WARN")}
_ERROR = (17, "ERROR")
_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_RENAMED = {
    "event_name": "event.name",
    "error_type": "error.type",
    "error_message": "exception.message",
}
_ENCODER = msgspec.json.Encoder(order="sorted", enc_hook=str)

_Record = MutableMapping[str, object]


def configure(
    level: str,
    *,
    environ: Mapping[str, str],
    now_ns: Callable[[], int],
    console: bool = False,
    stream: TextIO | None = None,
) -> None:
    """Set logging up for the process; ``RUST_LOG`` beats the configured level."""
    out = sys.stdout if stream is None else stream
    word = (environ.get("RUST_LOG", "").strip() or level).lower()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(colors=out.isatty())
            if console
            else Json(environ, now_ns),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS.get(word, logging.INFO)),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )


class Json:
    """Renders a record as one line of the contract's JSON."""

    def __init__(self, environ: Mapping[str, str], now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._resource = {"service.name": "aviso-server", "service.version": __version__}
        if namespace := environ.get("K8S_NAMESPACE_NAME"):
            self._resource["k8s.namespace.name"] = namespace
        if pod := environ.get("K8S_POD_NAME") or environ.get("HOSTNAME"):
            self._resource["k8s.pod.name"] = pod

    def __call__(self, _logger: object, _method: str, record: _Record) -> str:
        """The line, without its newline."""
        body = record.pop("event", "")
        number, text = _SEVERITY.get(str(record.pop("level", "")), _ERROR)
        attributes = {
            _RENAMED.get(name, name): redact(value, name)
            for name, value in record.items()
            if value is not None
        }
        line = {
            "attributes": attributes,
            "body": redact(body),
            "resource": self._resource,
            "severityNumber": number,
            "severityText": text,
            "timestamp": seconds(self._now_ns()),
        }
        return _ENCODER.encode(line).decode()
