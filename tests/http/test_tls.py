"""The TLS listener: streams over it, client certificates, new certificates, bad files."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.certificates import Authority
from support.config import settings
from support.raw import Wire, request

from aviso_server.core.json import Json
from aviso_server.http.tls import BadTls, TlsFiles, tls_context
from aviso_server.server.build import StartFailed
from aviso_server.server.serve import Running, serving

WATCH: dict[str, Any] = {"event_type": "ev", "identifier": {}}
NOTIFY: dict[str, Any] = {"event_type": "ev", "identifier": {"region": "n"}, "payload": "x" * 50000}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Signs the server's certificate and the client's."""
    return Authority(tmp_path)


def secure(authority: Authority, **more: Json) -> dict[str, Json]:
    """The section of a listener with a certificate."""
    pair = authority.sign("server")
    files: dict[str, Json] = {"certificate": str(pair.certificate), "key": str(pair.key)}
    return {"application": {"tls": {**files, **more}}}


@asynccontextmanager
async def wired(running: Running, context: ssl.SSLContext) -> AsyncIterator[Wire]:
    """A connection by hand, over TLS."""
    reader, writer = await asyncio.open_connection(
        running.host, running.port, ssl=context, limit=2**20
    )
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


def shown(wire: Wire) -> str:
    """The name in the certificate that the server showed."""
    certificate = wire.writer.get_extra_info("peercert")
    return str(certificate["serialNumber"])


async def test_notify_and_watch(authority: Authority) -> None:
    """Everything is as without TLS, large notifications on an open stream included."""
    connector = aiohttp.TCPConnector(ssl=authority.trusting())
    async with (
        serving(settings(secure(authority))) as running,
        aiohttp.ClientSession(connector=connector) as session,
        asyncio.timeout(20),
    ):
        assert running.url.startswith("https://127.0.0.1:")
        async with session.post(f"{running.url}/api/v1/watch", json=WATCH) as stream:
            assert stream.status == 200
            assert b"connection_established" in await stream.content.readuntil(b"\n\n")
            for sequence in (1, 2):
                async with session.post(
                    f"{running.url}/api/v1/notification", json=NOTIFY
                ) as answer:
                    assert (await answer.json())["sequence"] == sequence
            received = b""
            while received.count(b'"sequence":') < 2:
                received += await stream.content.readany()
            assert received.count(b"x" * 50000) == 2


async def test_plain_http_gets_nothing(authority: Authority) -> None:
    """The connection ends without an answer."""
    async with serving(settings(secure(authority))) as running:
        reader, writer = await asyncio.open_connection(running.host, running.port)
        writer.write(request("GET", "/health"))
        async with asyncio.timeout(20):
            with suppress(ConnectionError):
                assert not (await reader.read()).startswith(b"HTTP")
        writer.close()


async def test_client_certificates(authority: Authority, tmp_path: Path) -> None:
    """With a client CA nobody is let in without a certificate of it."""
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other").sign("stranger")
    chosen = settings(secure(authority, client_ca=str(authority.file)))
    async with serving(chosen) as running:
        known = authority.trusting(authority.sign("client"))
        async with wired(running, known) as wire:
            assert (await wire.ask("GET", "/health")).status == 200
        for context in (authority.trusting(), authority.trusting(stranger)):
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                async with wired(running, context) as wire:
                    await wire.ask("GET", "/health")


async def test_new_certificates_without_a_gap(authority: Authority) -> None:
    """Open connections stay, later ones see the new certificate, and nobody is refused."""
    chosen = settings(secure(authority))
    context = authority.trusting()
    async with serving(chosen) as running:
        assert running.live is not None
        async with wired(running, context) as before:
            assert (await before.ask("GET", "/health")).status == 200
            authority.sign("server")
            assert await running.live.adopt(chosen) == []
            async with wired(running, context) as after:
                assert (await after.ask("GET", "/health")).status == 200
                assert shown(after) != shown(before)
            assert (await before.ask("GET", "/health")).status == 200
    with pytest.raises(ConnectionError):
        async with wired(running, context):
            pass


@pytest.mark.parametrize(
    ("setting", "content", "why"),
    [
        ("certificate", None, "cannot be read: No such file or directory"),
        ("key", None, "cannot be read: No such file or directory"),
        ("client_ca", None, "cannot be read: No such file or directory"),
        ("certificate", "nonsense", "cannot be used"),
        ("key", "nonsense", "cannot be used"),
        ("client_ca", "nonsense", "cannot be used"),
    ],
)
async def test_bad_files_stop_the_start(
    authority: Authority, tmp_path: Path, setting: str, content: str | None, why: str
) -> None:
    """The message names the setting's file and says why."""
    file = tmp_path / "bad.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(StartFailed, match=rf"application\.tls.*'{file}'.*{why}"):
        async with serving(settings(secure(authority, **{setting: str(file)}))):
            pass


def test_keys_must_fit_and_be_open(authority: Authority, tmp_path: Path) -> None:
    """A key of another certificate, or one that needs a password, is refused, not asked about."""
    one, two = authority.sign("one"), authority.sign("two")
    with pytest.raises(BadTls, match="key values mismatch"):
        tls_context(TlsFiles(one.certificate, two.key))
    locked = authority.sign("locked", password=b"secret")
    with pytest.raises(BadTls, match="cannot be used"):
        tls_context(TlsFiles(locked.certificate, locked.key))


def test_old_protocols_are_not_spoken(authority: Authority) -> None:
    """TLS 1.2 at least."""
    pair = authority.sign("server")
    context = tls_context(TlsFiles(pair.certificate, pair.key))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
