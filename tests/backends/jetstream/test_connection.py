"""Connecting to NATS: credentials, TLS, retries, losing and finding it again."""

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from backends.jetstream.conftest import brisk, eventually
from support.credentials import operator_mode
from support.journal import recorded
from support.nats import nats_server

from aviso_server.backends.jetstream.connection import (
    Connection,
    Refused,
    Unavailable,
    check_version,
    read_answer,
)
from aviso_server.backends.jetstream.options import CannotStart, JetStreamOptions, Tls
from aviso_server.core.json import Json

NOWHERE = "nats://127.0.0.1:1"


async def works(options: JetStreamOptions) -> None:
    """Connecting and asking succeeds."""
    connection = await Connection.open(options)
    assert connection.connected
    assert "memory" in await connection.call("INFO")
    await connection.close()
    assert not connection.connected


async def fails(options: JetStreamOptions) -> str:
    """Connecting is refused; why."""
    with pytest.raises(CannotStart) as failure:
        await Connection.open(options)
    return str(failure.value).replace("Authorization", "authorization")


async def test_nowhere(tmp_path: Path) -> None:
    """As many attempts as configured, a warning between them, then an error."""
    options = replace(brisk(NOWHERE), retry_attempts=3, reconnect_delay_s=0.01)
    with recorded() as journal:
        message = await fails(options)
    assert message.startswith("NATS connect failed: ")
    assert message.endswith("(notification_backend.jetstream.nats_url 127.0.0.1:1)")
    retries = journal.all("backend.jetstream.connection.retry")
    assert [(r["attempt"], r["max_attempts"], r["retry_delay_ms"]) for r in retries] == [
        (1, 3, 10),
        (2, 3, 10),
    ]


async def test_a_silent_server_is_given_up(tmp_path: Path) -> None:
    """An attempt lasts ``timeout_seconds`` at the most."""
    with nats_server(tmp_path) as server:
        server.pause()
        options = replace(brisk(server.url), timeout_s=0.2)
        assert "NATS connect failed: no answer within 0.2 s (" in await fails(options)
        server.resume()


async def test_any_of_the_addresses(tmp_path: Path) -> None:
    """Of several addresses one that answers is enough."""
    with nats_server(tmp_path) as server:
        await works(brisk(NOWHERE, server.url, "nats://127.0.0.1:2"))


async def test_tokens_and_passwords(tmp_path: Path) -> None:
    """Token, or user and password; a wrong one is refused at once."""
    with nats_server(tmp_path / "t", {"authorization": {"token": "sesame"}}) as server:
        await works(replace(brisk(server.url), token="sesame"))
        assert "authorization" in await fails(replace(brisk(server.url), token="wrong"))
        assert "authorization" in await fails(brisk(server.url))
    users: Json = {"authorization": {"users": [{"user": "u", "password": "p"}]}}
    assert isinstance(users, dict)
    with nats_server(tmp_path / "u", users) as server:
        await works(replace(brisk(server.url), username="u", password="p"))
        assert "authorization" in await fails(replace(brisk(server.url), username="u"))


async def test_jetstream_must_be_on(tmp_path: Path) -> None:
    """A NATS server without JetStream is no backend."""
    with nats_server(tmp_path, {"jetstream": False}) as server:
        assert "JetStream is not available" in await fails(brisk(server.url))


def test_old_servers_are_refused() -> None:
    """Servers before 2.10.23 cannot keep what is promised here."""
    check_version((2, 10, 23))
    check_version((3, 0, 0))
    with pytest.raises(CannotStart, match=r"2\.10\.22 is too old; 2\.10\.23 or newer is needed"):
        check_version((2, 10, 22))


async def test_credentials_files(tmp_path: Path) -> None:
    """A user known by its credentials file gets in, nobody else does, and typos are told."""
    settings, file = operator_mode(tmp_path)
    with nats_server(tmp_path / "s", settings) as server:
        options = replace(brisk(server.url), credentials_file=str(file))
        connection = await Connection.open(options)
        assert connection.connected
        await connection.close()
        with pytest.raises(CannotStart):
            await Connection.open(brisk(server.url))
        with pytest.raises(CannotStart, match=r"credentials_file .*/none\.creds: No such file"):
            await Connection.open(replace(options, credentials_file=str(tmp_path / "none.creds")))


def certificates(folder: Path) -> Tls:
    """A self-signed certificate for loopback."""
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", key, "-out", cert, "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
        ],
        check=True,
        capture_output=True,
    )
    return Tls(ca_file=cert, cert_file=cert, key_file=key)


async def test_tls(tmp_path: Path) -> None:
    """``tls://`` or ``tls_required`` encrypts; an unknown authority is refused."""
    tls = certificates(tmp_path)
    server_tls: dict[str, Json] = {
        "tls": {"cert_file": tls.cert_file, "key_file": tls.key_file, "ca_file": tls.ca_file}
    }
    with nats_server(tmp_path / "s", server_tls) as server:
        url = server.url.replace("nats://", "tls://")
        await works(replace(brisk(url), tls=tls))
        await works(replace(brisk(server.url), tls_required=True, tls=Tls(ca_file=tls.ca_file)))
        assert "certificate verify failed" in await fails(brisk(url))
        missing = Tls(ca_file=str(tmp_path / "none.crt"))
        words = await fails(replace(brisk(url), tls=missing))
        assert words.endswith(f"(tls_ca_file {missing.ca_file}): No such file or directory")


async def test_required_tls_is_required(tmp_path: Path) -> None:
    """No credential goes over a plain connection when TLS was asked for."""
    with nats_server(tmp_path) as server:
        options = replace(brisk(server.url), tls_required=True, token="secret")
        assert "does not offer TLS" in await fails(options)


async def test_lost_and_restored(tmp_path: Path) -> None:
    """While NATS is away nothing is connected and nothing waits; then it comes back by itself."""
    with nats_server(tmp_path) as server:
        connection = await Connection.open(brisk(server.url))
        changes = []
        connection.watch(lambda: changes.append(connection.connected))
        server.kill()
        await eventually(lambda: not connection.connected)
        with pytest.raises(Unavailable, match="not connected"):
            await connection.call("INFO")
        with pytest.raises(Unavailable, match="not connected"):
            await connection.collect("DIRECT.GET.X", {})
        server.start()
        await connection.until_connected(20)
        assert connection.reconnects == 1
        assert changes == [False, True]
        await connection.call("INFO")
        await connection.close()


async def test_a_request_does_not_outlive_its_connection(tmp_path: Path) -> None:
    """An answer that can no longer come is not waited for."""
    with nats_server(tmp_path) as server:
        options = brisk(server.url)
        connection = await Connection.open(
            replace(options, pace=replace(options.pace, request_s=60))
        )
        server.pause()
        waiting = [
            asyncio.ensure_future(connection.call("INFO")),
            asyncio.ensure_future(connection.collect("DIRECT.GET.X", {"seq": 1})),
        ]
        await asyncio.sleep(0)
        server.kill()
        async with asyncio.timeout(20):
            for item in waiting:
                with pytest.raises(Unavailable):
                    await item
        await connection.close()


async def test_giving_up(tmp_path: Path) -> None:
    """With a positive ``max_reconnect_attempts`` the connection is given up for good."""
    with nats_server(tmp_path) as server:
        options = replace(brisk(server.url), max_reconnect_attempts=1, reconnect_delay_s=0.01)
        connection = await Connection.open(options)
        server.kill()
        await eventually(lambda: connection.ended)
        with pytest.raises(Unavailable, match="given up"):
            await connection.until_connected(1)
        await connection.close()


async def test_a_connection_closed_by_the_server_is_made_anew(tmp_path: Path) -> None:
    """nats-py stops for good at a protocol error; we do not."""
    with nats_server(tmp_path) as server:
        connection = await Connection.open(brisk(server.url))
        generation = connection.generation
        await connection._client._send_command(b"NONSENSE\r\n")
        await connection._client._flush_pending()
        await eventually(lambda: connection.generation > generation and connection.connected)
        await connection.call("INFO")
        assert connection.reconnects == 1
        await connection.close()


def test_answers() -> None:
    """Errors of the API keep their code; anything that is not JSON is no answer."""
    with pytest.raises(Refused) as refusal:
        read_answer(b'{"error":{"code":404,"err_code":10059,"description":"stream not found"}}')
    assert (refusal.value.status, refusal.value.code) == (404, 10059)
    with pytest.raises(Unavailable):
        read_answer(b"<html>")
