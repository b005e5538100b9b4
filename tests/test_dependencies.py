"""Private interfaces of libraries: all in use are listed, and they are as we think."""

import ast
import asyncio
import importlib
import inspect
import re
import socket
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import opentelemetry._logs
import opentelemetry.sdk._logs.export
import pytest
from aiohttp import HttpVersion10, hdrs, web
from aiohttp.http_parser import HttpRequestParser, RawRequestMessage
from aiohttp.http_writer import _serialize_headers
from aiohttp.test_utils import make_mocked_request
from aiohttp.web_protocol import RequestHandler, _ErrInfo
from backends.jetstream.conftest import eventually
from multidict import CIMultiDict
from nats.aio.client import Client
from opentelemetry.exporter.otlp.proto.http import _log_exporter
from packaging.requirements import Requirement
from support.nats import nats_server

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "aviso_server"
CHECKS = Path(__file__).read_text()
PAGE = (ROOT / "docs" / "dependencies.md").read_text()
_ROW = re.compile(
    r"^\| ([\w-]+) \| `([\w.]+)` \| `([\w/.]+)` \| .* \| `(tests/[\w/.]+)::(\w+)` \|$"
)
_LIBRARIES = re.compile(r"^\s*(?:from|import) (?:aiohttp|nats|opentelemetry)\b", re.MULTILINE)
_HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the page's table."""

    library: str
    interface: str
    file: str
    test_file: str
    test: str


ROWS = [Row(*match.groups()) for line in PAGE.splitlines() if (match := _ROW.match(line))]


def test_every_private_interface_is_listed() -> None:
    """What the source uses and inherits is what the page lists, file by file; nothing else."""
    users = [path for path in SOURCE.rglob("*.py") if _LIBRARIES.search(path.read_text())]
    assert len(users) > 10
    used = {(found, file) for path in users for found, file in _private(path)}
    assert {(row.interface, row.file) for row in ROWS} == used


def test_every_row_has_its_test_and_every_library_a_bound() -> None:
    """Tests of its use and its shape are there; pyproject.toml bounds the versions."""
    for row in ROWS:
        assert row.interface.rpartition(".")[2] in CHECKS, row
        assert f"def {row.test}(" in (ROOT / row.test_file).read_text(), row
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["otlp"]
    requirements = [Requirement(text) for text in wanted]
    for library in {row.library for row in ROWS}:
        bounds = [item.specifier for item in requirements if item.name.startswith(library)]
        assert bounds
        assert all("<" in str(bound) for bound in bounds), library


def _private(path: Path) -> Iterator[tuple[str, str]]:
    """Private names of others that a module imports, inherits or reaches into."""
    file = path.relative_to(SOURCE).as_posix()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and "aviso_server" not in node.module:
            if "._" in node.module:
                yield node.module, file
            for alias in node.names:
                if alias.name.startswith("_"):
                    yield f"{node.module.rpartition('.')[2]}.{alias.name}", file
        elif isinstance(node, ast.ClassDef) and node.bases:
            for name in _inherited(path, node):
                yield name, file
    if "request._version" in path.read_text():  # the one that is neither imported nor inherited
        yield "BaseRequest._version", file


def _inherited(path: Path, node: ast.ClassDef) -> Iterator[str]:
    """Private attributes that a class of ours shares with the library's class it extends."""
    module = ".".join(("aviso_server", *path.relative_to(SOURCE).with_suffix("").parts))
    ours = getattr(importlib.import_module(module), node.name, None)
    if ours is None:
        return
    used = {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)}
    used |= {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    used |= {item.name for item in node.body if isinstance(item, ast.AsyncFunctionDef)}
    own = {"aviso_server", "asyncio", "builtins", "collections", "threading", "typing", "enum"}
    for base in ours.__mro__[1:]:
        if base.__module__.partition(".")[0] in own:
            continue
        try:
            text = inspect.getsource(base)
        except (OSError, TypeError):
            continue  # compiled
        for name in used:
            private = name.startswith("_") and not name.startswith("__")
            if private and re.search(rf"(self\.|def ){name}\b", text):
                used = used - {name}
                yield f"{base.__name__}.{name}"


@asynccontextmanager
async def _connection() -> AsyncIterator[RequestHandler]:
    """A connection of aiohttp's own that waits for its first request."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response()

    here, there = socket.socketpair()
    loop = asyncio.get_running_loop()
    server = web.Server(answer)
    _, handler = await loop.create_connection(server, sock=here)
    await asyncio.sleep(0)
    try:
        yield handler
    finally:
        handler.force_close()
        await server.shutdown(1)
        there.close()


async def test_requests_wait_to_be_taken() -> None:
    """aiohttp counts a request, queues it with its body and wakes whoever waits."""
    async with _connection() as handler:
        waiter = handler._waiter
        assert waiter is not None
        assert (handler._request_count, list(handler._messages)) == (0, [])
        handler.data_received(_HEAD)
        assert handler._request_count == 1
        ((message, body),) = handler._messages
        assert isinstance(message, RawRequestMessage)
        assert body.is_eof()
        assert waiter.done()


async def test_what_is_no_request_waits_likewise() -> None:
    """aiohttp queues what it cannot read as a status, an error and a text."""
    async with _connection() as handler:
        handler.data_received(b"nonsense\r\n\r\n")
        ((fault, _),) = handler._messages
        assert isinstance(fault, _ErrInfo)
        assert (fault.status, fault.message) == (400, fault.exc.message)  # type: ignore[attr-defined]
        assert _ErrInfo(431, ValueError(), "text").status == 431


async def test_the_queue_is_bounded() -> None:
    """aiohttp parses a second request when the first was taken, with a parser of ours too."""
    async with _connection() as handler:
        handler._max_msg_queue_size, handler._msg_queue_resume_size = 1, 0
        handler._parser = HttpRequestParser(
            handler, handler._loop, 2**16, max_msg_queue_size=handler._max_msg_queue_size
        )
        handler.data_received(2 * _HEAD)
        assert len(handler._messages) == 1
        await eventually(lambda: handler._request_count == 2)  # once the first was taken


async def test_a_connection_can_be_given_away() -> None:
    """aiohttp knows its server and task, whether it reads, and ends without a transport."""
    async with _connection() as handler:
        task, transport = handler._task_handler, handler.transport
        assert handler._manager is not None
        assert task is not None
        assert transport is not None
        assert not handler._buffer_paused
        handler._force_close, handler.transport = True, None
        handler.data_received(_HEAD)
        assert not handler._messages
        task.cancel()
        await asyncio.wait([task])
        assert not transport.is_closing()
        handler.transport = transport


async def test_a_connection_can_be_kept_open_and_paused() -> None:
    """aiohttp knows when it has to close, whether a request is served, and pauses its reader."""
    async with _connection() as handler:
        assert handler.transport is not None
        assert handler._next_keepalive_close_time > handler._loop.time()
        assert (handler._request_in_progress, handler._handler_waiter) == (False, None)
        assert _parameters(handler._process_keepalive) == []
        handler._pause_transport_reading()
        assert not handler.transport.is_reading()
        handler._resume_transport_reading()
        assert handler.transport.is_reading()


async def test_a_head_is_written_in_one_place() -> None:
    """aiohttp makes the bytes of a head, and refuses what would break out of it."""
    head = _serialize_headers("HTTP/1.1 200 OK", CIMultiDict({"A": "1"}))
    assert head == b"HTTP/1.1 200 OK\r\nA: 1\r\n\r\n"
    with pytest.raises(ValueError, match="control character"):
        _serialize_headers("HTTP/1.1 200 OK", CIMultiDict({"A": "1\r\nB: 2"}))


async def test_the_end_is_known() -> None:
    """A connection of aiohttp knows its loop, and that it will close."""
    async with _connection() as handler:
        assert handler._loop is asyncio.get_running_loop()
        assert handler._close is False
        handler.close()
        assert handler._close is True


async def test_the_version_can_be_set() -> None:
    """The version of a request is the one that was set."""
    request = make_mocked_request("GET", "/")
    request._version = HttpVersion10
    assert request.version is HttpVersion10


async def test_headers_are_made_in_one_place() -> None:
    """Answers get their headers where ours takes the name of the software away."""
    response = web.Response()
    await response.prepare(make_mocked_request("GET", "/"))
    assert hdrs.SERVER in response.headers
    assert _parameters(web.StreamResponse._prepare_headers) == ["self"]


async def test_the_file_is_chosen_in_one_place() -> None:
    """aiohttp asks one method which file to send; without encodings it is the plain one."""
    path, status, encoding = web.FileResponse(__file__)._get_file_path_stat_encoding("")
    assert (path, encoding) == (Path(__file__), None)
    assert status.st_size == len(CHECKS.encode())


async def test_a_site_knows_its_runner() -> None:
    """The runner of a site is where ours looks for it."""
    runner = web.AppRunner(web.Application())
    await runner.setup()
    assert web.TCPSite(runner)._runner is runner
    await runner.cleanup()


async def test_headers_are_parsed_in_one_place() -> None:
    """nats-py parses the headers of every message with the method that ours replaces."""
    assert Client._parse_header_lines(b"A: 1\r\nB: 2\r\n\r\n") == {"A": "1", "B": "2"}


async def test_a_client_parses_with_its_parser() -> None:
    """nats-py hands what it parsed to one method."""
    client = Client()
    assert client._ps.nc is client
    assert _parameters(client._process_msg) == ["sid", "subject", "reply", "data", "headers"]


async def test_a_client_knows_its_server(tmp_path: Path) -> None:
    """nats-py processes the first words of a server before it says who we are."""
    heard: list[tuple[bool, bool]] = []

    class Listener(Client):
        async def _process_info(self, info: Any, initial_connection: bool = False) -> None:  # noqa: FBT002
            heard.append((initial_connection, self.is_connected))
            await super()._process_info(info, initial_connection)

    with nats_server(tmp_path) as server:
        client = Listener()
        assert client._server_info == {}
        await client.connect(server.url)
        assert heard == [(True, False)]
        assert client._server_info["max_payload"] == client.max_payload
        silent = await client.subscribe("silent")
        await client._send_command(b"PUB silent 2\r\nhi\r\n")
        assert client._flush_queue is not None
        await client._flush_pending()
        assert not client._flush_queue.empty()  # somebody is asked to send
        assert (await silent.next_msg()).data == b"hi"
        assert _parameters(Client._close) == ["self", "status", "do_cbs"]
        assert _parameters(Client._attempt_reconnect) == ["self"]
        assert client._status == client.CONNECTED
        await client._close(client.CLOSED, do_cbs=False)
        assert client.is_closed


async def test_errors_are_reported_through_one_callback() -> None:
    """nats-py awaits one callback with each error."""
    client = Client()
    assert inspect.iscoroutinefunction(client._error_cb)
    assert _parameters(client._error_cb) in (["ex"], ["e"])


async def test_log_records_can_be_exported() -> None:
    """OpenTelemetry takes records, batches and results in the form in which we give them."""
    assert {"timestamp", "trace_id", "span_id", "severity_text", "severity_number", "body"} <= {
        *_parameters(opentelemetry._logs.LogRecord)
    }
    assert "shutdown_on_exit" in _parameters(opentelemetry.sdk._logs.LoggerProvider)
    export = opentelemetry.sdk._logs.export
    assert {"max_queue_size", "max_export_batch_size", "schedule_delay_millis"} <= {
        *_parameters(export.BatchLogRecordProcessor)
    }
    assert "SUCCESS" in export.LogRecordExportResult.__members__
    assert _parameters(export.LogRecordExporter.export) == ["self", "batch"]


async def test_the_exporter_takes_an_endpoint() -> None:
    """The batches go through the method of the exporter that ours wraps."""
    exporter = _log_exporter.OTLPLogExporter
    assert {"endpoint", "timeout"} <= {*_parameters(exporter)}


def _parameters(function: Callable[..., object]) -> list[str]:
    return list(inspect.signature(function).parameters)
