"""``pipeline recover``: log and lake go on as one history, and nothing of either is lost."""

import asyncio
from pathlib import Path

import pytest
from backends.jetstream.conftest import BRISK, eventually
from support import backup
from support.backup import OLD, announce, archive, chosen, older_log, payloads
from support.nats import NatsServer
from support.server import connected

from aviso_server.backends.jetstream.connection import Connection
from aviso_server.core.json import Json
from aviso_server.lake.layout import DELETED, Place
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.pipeline.recover.job import (
    RecoverFailed,
    RecoverOptions,
    RecoverOutcome,
    recover,
    settled,
)
from aviso_server.server.joboptions import source_options
from aviso_server.settings import Settings

NEW: list[Json] = [f"NEW-{n}" for n in range(6, 14)]


async def run(of: Settings, folder: Path, *, apply: bool = True) -> RecoverOutcome:
    """The command, for the one event type."""
    place = Place(of.lake.path or "")
    (found,) = await recover(
        RecoverOptions(place, source_options(of), ("alert",), folder / "saved", apply)
    )
    return found


async def stored(of: Settings, payload: Json) -> int:
    """Publish through a server that has to notice that all is well again."""
    async with connected(of, pace=BRISK) as client:
        (sequence,) = await announce(client, payload)
        return sequence


async def test_an_older_log_is_left_to_the_lake(own: NatsServer, tmp_path: Path) -> None:
    """All it has is archived: nothing is saved, and a running server takes notifications again."""
    of = chosen(own, tmp_path / "lake")
    await older_log(own, tmp_path / "lake")
    async with connected(of, pace=BRISK) as client:
        looked = await run(of, tmp_path, apply=False)
        assert (looked.stand.last, looked.stand.mark.through, looked.only_here) == (5, 10, 0)
        assert not settled([looked])
        done = await run(of, tmp_path)
        assert settled([done])
        assert done.restored == 0
        await eventually(lambda: client.stores("alert", backup.ALL, "new-11"))
        assert await payloads(client) == [*OLD, "new-11"]
    assert not (tmp_path / "saved").exists() or not [*(tmp_path / "saved").iterdir()]
    assert await archive(of) == 11


async def test_what_is_only_in_the_log_is_stored_again(own: NatsServer, tmp_path: Path) -> None:
    """In its order, above every sequence that was handed out; what was deleted stays deleted."""
    of = chosen(own, tmp_path / "lake", max_messages=1000)
    await older_log(own, tmp_path / "lake")
    async with connected(chosen(own, None, max_messages=1000), pace=BRISK) as client:
        await announce(client, *NEW)
    await asyncio.to_thread(
        append_tombstones, Place(str(tmp_path / "lake")), [("alert", 5, 5)], kind=DELETED
    )
    looked = await run(of, tmp_path, apply=False)
    assert looked.only_here == len(NEW)
    done = await run(of, tmp_path)
    assert (done.only_here, done.restored) == (len(NEW), len(NEW))
    assert done.file is not None
    assert len(done.file.read_text().splitlines()) == len(NEW)
    assert settled([await run(of, tmp_path)])
    async with connected(of, pace=BRISK) as client:
        assert await announce(client, "last") == [14 + len(NEW)]
        expected = [*(p for p in OLD if p != "old-5"), *NEW, "last"]
        assert await payloads(client) == expected
    await archive(of)
    async with connected(of, pace=BRISK) as client:
        assert await payloads(client) == expected


@pytest.mark.parametrize("call", range(1, 8))
async def test_it_may_die_anywhere(
    own: NatsServer, tmp_path: Path, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended before its n-th change of the log, it is run again: everything once, in order."""
    of = chosen(own, tmp_path / "lake", max_messages=1000)
    await older_log(own, tmp_path / "lake")
    async with connected(chosen(own, None, max_messages=1000), pace=BRISK) as client:
        await announce(client, *NEW[:4])
    with monkeypatch.context() as patched:
        die_before(patched, call)
        with pytest.raises(KeyboardInterrupt):
            await run(of, tmp_path)
    await run(of, tmp_path)
    async with connected(of, pace=BRISK) as client:
        assert await payloads(client) == [*OLD, *NEW[:4]]


def die_before(patched: pytest.MonkeyPatch, number: int) -> None:
    """End the process, as far as the job can see, before the n-th change of the log."""
    left = number
    call, request = Connection.call, Connection.request

    def count(subject: str) -> None:
        nonlocal left
        if subject.startswith(("STREAM.PURGE", "STREAM.UPDATE", "alert.")):
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

    async def calling(self: Connection, api: str, *rest: object) -> object:
        count(api)
        return await call(self, api, *rest)  # type: ignore[arg-type]

    async def requesting(self: Connection, subject: str, *rest: object, **more: object) -> object:
        count(subject)
        return await request(self, subject, *rest, **more)  # type: ignore[arg-type]

    patched.setattr(Connection, "call", calling)
    patched.setattr(Connection, "request", requesting)


async def test_what_need_not_be_recovered(own: NatsServer, tmp_path: Path) -> None:
    """A log that goes on from the lake, and one that was lost: nothing to do, and it says so."""
    of = chosen(own, tmp_path / "lake")
    async with connected(of, pace=BRISK) as client:
        await announce(client, *OLD)
    await archive(of)
    assert settled([found := await run(of, tmp_path)])
    assert not found.stand.empty
    backup.lose(own)
    assert settled([found := await run(of, tmp_path)])
    assert (found.stand.empty, found.stand.continues) == (True, 11)
    assert await stored(of, "new-11") == 11
    with pytest.raises(RecoverFailed, match=r"no event type 'nope'.*there are: alert"):
        await recover(RecoverOptions(Place(of.lake.path or ""), source_options(of), ("nope",)))
