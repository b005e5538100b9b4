"""The client's command line, `aviso`, against a server in this process."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.config import settings
from support.journal import WATCHING, Journal
from support.server import Client, connected

AVISO = str(Path(sys.executable).with_name("aviso"))
INLINE = ("--event", "ev", "--identifier", "region=n")


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def items(self) -> list[dict[str, Any]]:
        """The JSON lines it printed."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
async def server() -> AsyncIterator[Client]:
    """A server."""
    async with connected(settings()) as client:
        yield client


async def start(server: Client, *arguments: str) -> Process:
    """Start a command; the home directory is the empty one of the test."""
    environ = {"HOME": os.environ["HOME"], "AVISO_BASE_URL": server.running.url}
    return await asyncio.create_subprocess_exec(
        AVISO, *arguments, stdout=PIPE, stderr=PIPE, env=environ
    )


async def run(server: Client, *arguments: str) -> Done:
    """Run a command to its end."""
    process = await start(server, *arguments)
    async with asyncio.timeout(20):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


@asynccontextmanager
async def listening(server: Client, *arguments: str) -> AsyncIterator[Process]:
    """`aviso listen`, interrupted at the end of the block: an orderly end, exit code 0."""
    process = await start(server, "listen", *arguments)
    try:
        yield process
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(20):
            await process.communicate()
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def line(process: Process) -> dict[str, Any]:
    """The next notification it prints."""
    assert process.stdout is not None
    async with asyncio.timeout(20):
        printed: dict[str, Any] = json.loads(await process.stdout.readline())
    return printed


async def test_notify_and_replay(server: Client) -> None:
    """What `notify` publishes, `replay` prints, with every kind of payload and an exact end."""
    for data in ('data={"a":1}', "data=null", "data=3"):
        done = await run(server, "notify", f"event=ev,region=n,{data}")
        assert done.code == 0, done.err
        assert done.items[0]["status"] == "success"
    done = await run(server, "replay", *INLINE, "--from", "0", "--until", "2")
    assert done.code == 0, done.err
    assert [(item["sequence"], item["payload"]) for item in done.items] == [
        (1, {"a": 1}),
        (2, None),
    ]


async def test_replay_by_date(server: Client) -> None:
    """The command line spells dates out; all its forms select by storage time."""
    await server.notify("ev", {"region": "n"})
    everything = ("replay", "--event", "ev", "--identifiers", "{}")
    for start_at, expected in (("2020-01-01", [1]), ("2999-12-31T00:00:00Z", [])):
        done = await run(server, *everything, "--from", start_at)
        assert done.code == 0, done.err
        assert [item["sequence"] for item in done.items] == expected


@pytest.mark.parametrize(
    ("parameters", "advice"),
    [
        ("event=nope,region=n", "the event_type is not configured on the server"),
        ("event=ev,regin=n", "Unknown field 'regin'"),
        ("event=extreme,region=north", "missing for notify operation"),
    ],
)
async def test_notify_refused(server: Client, parameters: str, advice: str) -> None:
    """A refused notify exits with 1 and says what to do."""
    done = await run(server, "notify", parameters)
    assert done.code == 1
    assert advice in done.err


async def test_listen(journal: Journal, server: Client) -> None:
    """`listen` prints what is published from now on, and ends in order on Ctrl-C."""
    await server.notify("ev", {"region": "n"})
    async with listening(server, *INLINE) as process:
        await journal.seen(WATCHING)
        await server.notify("ev", {"region": "s"})
        for value in range(3):
            await server.notify("ev", {"region": "n"}, payload=value)
        items = [await line(process) for _ in range(3)]
    assert [(item["sequence"], item["payload"]) for item in items] == [(3, 0), (4, 1), (5, 2)]


async def test_listen_resumes(journal: Journal, server: Client, tmp_path: Path) -> None:
    """A second run with the same state file prints what was published in between."""
    state = ("--state-file", str(tmp_path / "state.json"))
    for value, expected in ((0, [1]), (1, [2])):
        await server.notify("ev", {"region": "n"}, payload=value)
        start_at = ("--from", "0") if value == 0 else ()
        async with listening(server, *INLINE, *state, *start_at) as process:
            assert [(await line(process))["sequence"]] == expected
    assert [record["start_at"] for record in journal.all(WATCHING)] == ["1", "2"]


async def test_cap(server: Client) -> None:
    """A replay beyond the cap exits with 1 after printing the cap."""
    limited = settings({"watch_endpoint": {"max_historical_notifications": 2}})
    async with connected(limited) as client:
        for _ in range(3):
            await client.notify("ev", {"region": "n"})
        done = await run(client, "replay", *INLINE, "--from", "0")
    assert done.code == 1
    assert [item["sequence"] for item in done.items] == [1, 2]


async def test_schemas(server: Client) -> None:
    """`schema list` and `schema get`; an unknown type exits with 1 and lists the known ones."""
    listed = await run(server, "schema", "list")
    assert {"event_type": "ev"} in listed.items
    got = await run(server, "schema", "get", "ev")
    assert json.loads(got.out)["schema"]["identifier"]["region"]["type"] == "StringHandler"
    missing = await run(server, "schema", "get", "nope")
    assert missing.code == 1
    assert "Available event_types: area, diss2, ev, extreme" in missing.err


async def test_administration(server: Client) -> None:
    """Every admin command works once and explains its failure; without --yes it does nothing."""
    for _ in range(3):
        await server.notify("ev", {"region": "n"})
    for arguments, code, text in (
        (("delete", "ev@1"), 2, "requires --yes"),
        (("delete", "ev@1", "--yes"), 0, '"status":"ok"'),
        (("delete", "ev@1", "--yes"), 1, "Notification not found"),
        (("delete", "ev", "--yes"), 1, "the notification id is malformed"),
        (("wipe-stream", "ev", "--yes"), 0, '"status":"ok"'),
        (("wipe-stream", "evv", "--yes"), 1, "Stream not found: evv"),
        (("wipe-all", "--yes"), 0, '"status":"ok"'),
    ):
        done = await run(server, "admin", *arguments)
        assert done.code == code, arguments
        assert text in done.out + done.err
    await server.notify("ev", {"region": "n"})
    done = await run(server, "replay", *INLINE, "--from", "0")
    assert [item["sequence"] for item in done.items] == [4]
