"""Log and lake agree or say so: what is restored or lost never gives a sequence twice."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from backends.jetstream.conftest import BRISK, eventually
from support import backup
from support.backup import ALL, OLD, announce, archive, chosen, older_log, payloads
from support.nats import NatsServer
from support.server import Client, connected


async def refused(client: Client, path: str, **more: str) -> dict[str, Any]:
    """The error of a request that must be refused with 500 and Retry-After."""
    body = {"event_type": "alert", "identifier": ALL, **more}
    async with client.session.post(f"{client.running.url}/api/v1/{path}", json=body) as answer:
        assert (answer.status, "Retry-After" in answer.headers) == (500, True), await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def test_an_older_log_takes_nothing(own: NatsServer, tmp_path: Path) -> None:
    """Both numbers and the remedy are named; nothing is stored, and no replay looks complete."""
    lake = tmp_path / "lake"
    await older_log(own, lake)
    async with connected(chosen(own, lake), pace=BRISK) as client:
        for path, more in (
            ("notification", {}),
            ("replay", {"from_id": "1"}),
            ("watch", {"from_id": "6"}),
            ("watch", {}),
        ):
            details = (await refused(client, path, **more))["details"]
            assert "the log ends at sequence 5, and the lake has it up to 10" in details
            assert "aviso-server pipeline recover alert" in details
    async with connected(chosen(own, None), pace=BRISK) as client:
        assert await payloads(client) == OLD[:5]


async def test_another_log_takes_nothing_however_long_it_is(
    own: NatsServer, tmp_path: Path
) -> None:
    """A log that went on by itself beyond the mark is recognised by what it has at the mark."""
    lake = tmp_path / "lake"
    await older_log(own, lake)
    async with connected(chosen(own, None), pace=BRISK) as client:
        assert (await announce(client, *(f"NEW-{n}" for n in range(6, 14))))[-1] == 13
    async with connected(chosen(own, lake), pace=BRISK) as client:
        details = (await refused(client, "notification"))["details"]
        assert "ends at sequence 13, stored sequence 10 at" in details
        assert "has it up to 10" in details
    async with connected(chosen(own, None), pace=BRISK) as client:
        assert await client.delete("alert@10") == 200
    async with connected(chosen(own, lake), pace=BRISK) as client:
        # The proof itself is gone from the log; its neighbour is too young to stand below it.
        assert "stored sequence 9 at" in (await refused(client, "notification"))["details"]


@pytest.mark.parametrize("restart", [False, True])
async def test_a_lost_log_goes_on_where_the_lake_ends(
    own: NatsServer, tmp_path: Path, restart: bool
) -> None:
    """Sequences are not handed out twice, the lake is replayed, and restarts change nothing."""
    of = chosen(own, tmp_path / "lake")
    async with connected(of, pace=BRISK) as client:
        await announce(client, *OLD)
    await archive(of)
    backup.lose(own)
    if restart:  # a server without a lake makes the stream, and leaves it empty
        async with connected(chosen(own, None), pace=BRISK) as client:
            assert await payloads(client) == []
    async with connected(of, pace=BRISK) as client:
        assert await payloads(client) == OLD
        assert await announce(client, "new-11") == [11]
    own.restart()
    async with connected(of, pace=BRISK) as client:
        assert await announce(client, "new-12") == [12]
        assert await payloads(client) == [*OLD, "new-11", "new-12"]
    assert await archive(of) == 12


async def test_a_log_lost_under_a_running_server(own: NatsServer, tmp_path: Path) -> None:
    """What was handed out and not archived yet is gone, but its sequences are not given again."""
    of = chosen(own, tmp_path / "lake", publish_retry_attempts=20)
    async with connected(of, pace=BRISK) as client:
        await announce(client, *OLD[:4])
        await archive(of)
        await announce(client, *OLD[4:6])
        await asyncio.to_thread(backup.lose, own)
        assert await announce(client, "new-7") == [7]


async def test_a_lake_that_cannot_be_read(own: NatsServer, tmp_path: Path) -> None:
    """Nobody can know whether the log goes on from there: refused, until the lake is back."""
    lake = tmp_path / "lake"
    of = chosen(own, lake)
    async with connected(of, pace=BRISK) as client:
        await announce(client, *OLD[:2])
    await archive(of)
    log = lake / "notifications" / "_delta_log"
    away = log.rename(log.with_name("away"))
    log.write_text("not a folder")
    async with connected(of, pace=BRISK) as client:
        assert "Cannot verify that" in (await refused(client, "notification"))["details"]
        log.unlink()
        away.rename(log)
        await eventually(lambda: client.stores("alert", ALL, "third"))
        assert await payloads(client) == [*OLD[:2], "third"]
