"""Connecting to NATS: credentials, TLS, retries, losing and finding it again."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from backends.jetstream.conftest import brisk, eventually
from support.certificates import Authority
from support.credentials import operator_mode
from support.journal import recorded
from support.nats import NatsServer, nats_server

from aviso_server.backends.jetstream.answers import RawAnswer
from aviso_server.backends.jetstream.connection import (
    Connection,
    Refused,
    Unavailable,
    _Question,
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


async def test_a_silent_server_is_given_up(own: NatsServer) -> None:
    """An attempt lasts ``timeout_seconds`` at the most."""
    own.pause()
    options = replace(brisk(own.url), timeout_s=0.2)
    assert "NATS connect failed: no answer within 0.2 s (" in await fails(options)
    own.resume()


async def test_any_of_the_addresses(own: NatsServer) -> None:
    """Of several addresses one that answers is enough."""
    await works(brisk(NOWHERE, own.url, "nats://127.0.0.1:2"))


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
    """A user known by its credentials file gets in, nobody else does, and typos are reported."""
    settings, file = operator_mode(tmp_path)
    with nats_server(tmp_path / "s", settings) as server:
        options = replace(brisk(server.url), credentials_file=str(file))
        connection = await Connection.open(options)
        assert connection.connected
        await connection.close()
        await fails(brisk(server.url))
        nothing = replace(options, credentials_file=str(tmp_path / "none.creds"))
        said = f"credentials_file {nothing.credentials_file}: No such file"
        assert said in await fails(nothing)


async def test_tls(tmp_path: Path) -> None:
    """``tls://`` or ``tls_required`` encrypts; an unknown authority is refused."""
    authority = Authority(tmp_path)
    pair = authority.sign("nats")
    files = {
        "ca_file": str(authority.file),
        "cert_file": str(pair.certificate),
        "key_file": str(pair.key),
    }
    tls = Tls(**files)
    with nats_server(tmp_path / "s", {"tls": {**files}}) as server:
        url = server.url.replace("nats://", "tls://")
        await works(replace(brisk(url), tls=tls))
        await works(replace(brisk(server.url), tls_required=True, tls=Tls(ca_file=tls.ca_file)))
        assert "certificate verify failed" in await fails(brisk(url))
        missing = Tls(ca_file=str(tmp_path / "none.crt"))
        words = await fails(replace(brisk(url), tls=missing))
        assert words.endswith(f"(tls_ca_file {missing.ca_file}): No such file or directory")


async def test_required_tls_is_required(own: NatsServer) -> None:
    """No credential goes over a plain connection when TLS was asked for."""
    options = replace(brisk(own.url), tls_required=True, token="secret")
    assert "does not offer TLS" in await fails(options)


async def test_lost_and_restored(own: NatsServer) -> None:
    """While NATS is away nothing is connected and nothing waits; then it comes back by itself."""
    connection = await Connection.open(brisk(own.url))
    changes = []
    connection.watch(lambda: changes.append(connection.connected))
    own.kill()
    await eventually(lambda: not connection.connected)
    with pytest.raises(Unavailable, match="not connected"):
        await connection.call("INFO")
    with pytest.raises(Unavailable, match="not connected"):
        await connection.collect("DIRECT.GET.X", {})
    own.start()
    await connection.until_connected(20)
    assert connection.reconnects == 1
    assert changes == [False, True]
    await connection.call("INFO")
    await connection.close()


async def test_a_request_does_not_outlive_its_connection(own: NatsServer) -> None:
    """An answer that can no longer come is not waited for."""
    options = brisk(own.url)
    connection = await Connection.open(replace(options, pace=replace(options.pace, request_s=60)))
    own.pause()
    waiting = [
        asyncio.ensure_future(connection.call("INFO")),
        asyncio.ensure_future(connection.collect("DIRECT.GET.X", {"seq": 1})),
    ]
    await asyncio.sleep(0)
    own.kill()
    async with asyncio.timeout(20):
        for item in waiting:
            with pytest.raises(Unavailable):
                await item
    await connection.close()


async def test_giving_up(own: NatsServer) -> None:
    """With a positive ``max_reconnect_attempts`` the connection is given up for good."""
    options = replace(brisk(own.url), max_reconnect_attempts=1, reconnect_delay_s=0.01)
    connection = await Connection.open(options)
    own.kill()
    await eventually(lambda: connection.ended)
    with pytest.raises(Unavailable, match="given up"):
        await connection.until_connected(1)
    await connection.close()


async def test_a_connection_closed_by_the_server_is_made_anew(own: NatsServer) -> None:
    """nats-py stops for good at a protocol error; we do not."""
    connection = await Connection.open(brisk(own.url))
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


async def test_a_message_without_its_properties_fails_the_question_alone() -> None:
    """It is raised to who asked; the connection goes on."""
    question = _Question(many=True)
    question.add(RawAnswer(b"NATS/1.0\r\nNats-Sequence: 1\r\n\r\n", b""))
    with pytest.raises(KeyError):
        await question.end
