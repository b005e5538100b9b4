"""Logs: one JSON object per line in the contract's shape (operations.md 9), or readable text.

Every record carries ``event_name``, a stable name for machines, and a body for people. Context
(request id, event type, topic) is bound explicitly by whoever knows it.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from typing import TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor

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
            *(_console(out) if console else [JsonLine(environ, now_ns)]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS.get(word, logging.INFO)),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )


class JsonLine:
    """Renders a record as one line of the contract's JSON."""

    def __init__(self, environ: Mapping[str, str], now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._resource = {"service.name": "aviso-server", "service.version": __version__}
        if namespace := environ.get("K8S_NAMESPACE_NAME"):
            self._resource["k8s.namespace.name"] = namespace
        if pod := environ.get("K8S_POD_NAME") or environ.get("HOSTNAME"):
            self._resource["k8s.pod.name"] = pod

    def __call__(self, _logger: object, _method: str, record: EventDict) -> str:
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


def _console(out: TextIO) -> list[Processor]:
    return [
        _for_people,
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
        structlog.dev.ConsoleRenderer(colors=out.isatty(), pad_event_to=0),
    ]


def _for_people(_logger: object, _method: str, record: EventDict) -> EventDict:
    """The whole configuration on one line helps nobody at a terminal; ``check`` prints it."""
    if record.get("event_name") == "startup.configuration.dumped":
        raise structlog.DropEvent
    return {
        name: redact(value, name)
        for name, value in record.items()
        if name != "event_name" and value is not None
    }
