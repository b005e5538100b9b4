"""Logs: one JSON object per line (docs/operations.md#logs), or readable text.

Every record carries ``event_name``, a stable name for machines, and a body for people. Context
(request id, event type, topic, caller) is bound explicitly where it is known.
"""

import inspect
import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from types import CodeType
from typing import TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from aviso_server import __version__
from aviso_server.core.excerpt import excerpt
from aviso_server.core.moment import seconds
from aviso_server.telemetry import levels
from aviso_server.telemetry.levels import BadDirectives, Levels
from aviso_server.telemetry.redaction import redact

_SEVERITY = {"debug": (5, "DEBUG"), "info": (9, "INFO"), "warning": (13, "WARN")}
_ERROR = (17, "ERROR")
_RENAMED = {
    "event_name": "event.name",
    "error_type": "error.type",
    "error_message": "exception.message",
}
_OUTSIDE = {"trace_id": "traceId", "span_id": "spanId"}
"""Fields that stand beside the attributes, where the caller's trace is known."""
_ENCODER = msgspec.json.Encoder(order="sorted", enc_hook=str)

Line = dict[str, object]
Export = Callable[[EventDict, Line], None]
"""Takes a record and the line made of it."""


def configure(
    level: str,
    *,
    environ: Mapping[str, str],
    now_ns: Callable[[], int],
    console: bool = False,
    stream: TextIO | None = None,
    export: Export | None = None,
) -> None:
    """Set logging up for the process; ``RUST_LOG`` beats the configured level.

    ``export`` is shown every record besides; it must neither wait nor fail.
    """
    out = sys.stdout if stream is None else stream
    chosen = _levels(level, environ)
    shape = Shape(environ, now_ns)
    processors: list[Processor] = [structlog.processors.add_log_level]
    if chosen.named:
        processors.append(Sieve(chosen))
    if export is not None:
        processors.append(Tap(shape, export))
    structlog.configure(
        processors=[*processors, *(_console(out) if console else [JsonLine(shape)])],
        wrapper_class=structlog.make_filtering_bound_logger(chosen.floor),
        # A line and its end in one write: workers share the stream, and lines must not mix.
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )


def _levels(configured: str, environ: Mapping[str, str]) -> Levels:
    fallback = levels.level(configured)
    text = environ.get("RUST_LOG", "").strip()
    if not text:
        return Levels(fallback)
    try:
        return levels.directives(text, otherwise=fallback)
    except BadDirectives as error:
        sys.stderr.write(f"warning: RUST_LOG is ignored: {error}\n")
        return Levels(fallback)


def resource(environ: Mapping[str, str]) -> dict[str, str]:
    """What is the same in every record of a process."""
    about = {"service.name": "aviso-server", "service.version": __version__}
    if namespace := environ.get("K8S_NAMESPACE_NAME"):
        about["k8s.namespace.name"] = namespace
    if pod := environ.get("K8S_POD_NAME") or environ.get("HOSTNAME"):
        about["k8s.pod.name"] = pod
    return about


class Shape:
    """Lays a record out as the protocol's object."""

    def __init__(self, environ: Mapping[str, str], now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._resource = resource(environ)

    def __call__(self, record: Mapping[str, object]) -> Line:
        """The object; redacted, without what is not set."""
        number, text = _SEVERITY.get(str(record.get("level", "")), _ERROR)
        attributes = _callsite()
        line: Line = {
            "attributes": attributes,
            "body": redact(record.get("event", "")),
            "resource": self._resource,
            "severityNumber": number,
            "severityText": text,
            "timestamp": seconds(self._now_ns()),
        }
        for name, value in record.items():
            if value is None or name in {"event", "level"}:
                continue
            if name == "exc_info":
                attributes["exception.stacktrace"] = redact(_traceback())
                continue
            if name in _OUTSIDE:
                line[_OUTSIDE[name]] = value
            else:
                attributes[_RENAMED.get(name, name)] = _loggable(name, value)
        return line


def _loggable(name: str, value: object) -> object:
    """A value as it may be logged: redacted, and what clients sent cut to a bounded length."""
    return redact(excerpt(value) if isinstance(value, str) else value, name)


class JsonLine:
    """Renders a record as one line of JSON, keys sorted at every level."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def __call__(self, _logger: object, _method: str, record: EventDict) -> str:
        """The line, without its newline."""
        return _ENCODER.encode(self._shape(record)).decode()


class Tap:
    """Shows every record to an export on its way to stdout."""

    def __init__(self, shape: Shape, export: Export) -> None:
        self._shape = shape
        self._export = export

    def __call__(self, _logger: object, _method: str, record: EventDict) -> EventDict:
        """The record, unchanged."""
        self._export(record, self._shape(record))
        return record


class Sieve:
    """Drops records below the level of the module that logs."""

    def __init__(self, chosen: Levels) -> None:
        self._levels = chosen

    def __call__(self, _logger: object, _method: str, record: EventDict) -> EventDict:
        """The record, or DropEvent."""
        number = logging.getLevelNamesMapping().get(str(record["level"]).upper(), logging.ERROR)
        if number < self._levels.of(str(_callsite()["code.target"])):
            raise structlog.DropEvent
        return record


_PLACES: dict[CodeType, tuple[str, str]] = {}
"""File and module of every function that has logged: there are few, and they log again."""


def _callsite() -> dict[str, object]:
    """Where the record comes from: the nearest code that is not part of logging."""
    frame = inspect.currentframe()
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != __name__ and not name.startswith("structlog."):
            break
        frame = frame.f_back
    if frame is None:  # pragma: no cover - there is always a caller
        return {}
    place = _PLACES.get(frame.f_code)
    if place is None:
        target = str(frame.f_globals.get("__name__", ""))
        # Where the package is installed is private.
        _, package, inside = frame.f_code.co_filename.rpartition("/aviso_server/")
        file = f"aviso_server/{inside}" if package else inside.rpartition("/")[2]
        place = _PLACES[frame.f_code] = (file, target)
    return {
        "code.filepath": place[0],
        "code.lineno": frame.f_lineno,
        "code.target": place[1],
    }


def _console(out: TextIO) -> list[Processor]:
    return [
        _for_people,
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
        structlog.dev.ConsoleRenderer(colors=out.isatty(), pad_event_to=0),
    ]


def _for_people(_logger: object, _method: str, record: EventDict) -> EventDict:
    """The whole configuration on one line is useless at a terminal; ``check`` prints it."""
    if record.get("event_name") == "startup.configuration.dumped":
        raise structlog.DropEvent
    if record.pop("exc_info", None):
        # The renderer's own tracebacks show local variables, secrets included.
        record["exception"] = _traceback()
    return {
        name: _loggable(name, value)
        for name, value in record.items()
        if name != "event_name" and name not in _OUTSIDE and value is not None
    }


def _traceback() -> str:
    """Of the error that is being handled."""
    return traceback.format_exc().rstrip()
