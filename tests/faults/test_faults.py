"""Every fault while producers produce, watchers watch and the archive archives: nothing is lost.

In ``make test`` each case runs once and shortly. ``make faults`` runs them longer and under several
seeds, one after the other in one run, and prints what was counted (docs/reliability.md).
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from support import backup
from support.archive import ArchiveProcess
from support.disk import small_disk
from support.farlake import far_lakes
from support.fuzz import LONG_FAULTS as LONG
from support.jetstream import behind
from support.nats import NatsServer, nats_cluster
from support.world import Harm, World, world

from aviso_server.core.errors import AvisoError
from aviso_server.lake.layout import Place
from aviso_server.pipeline.recover.job import RecoverOptions, recover, settled

Recorder: TypeAlias = Callable[[str, object], None]

ROUNDS = 3 if LONG else 1
MORE = 120 if LONG else 40
"""Notifications between two harms."""
SEEDS = range(2) if LONG else range(1)

BRISK_JOB = ("--master", "local[2]", "--interval", "1s")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 if LONG else 120)]


async def kill_nats(here: World) -> None:
    """kill -9 of NATS, and its return."""
    (store,) = here.nats
    store.kill()
    await asyncio.sleep(here.draw.uniform(0, 0.5))
    await asyncio.to_thread(store.start)


async def pause_nats(here: World) -> None:
    """NATS hangs for a while."""
    (store,) = here.nats
    store.pause()
    await asyncio.sleep(here.draw.uniform(0.2, 3))
    store.resume()


async def cut_cable(here: World) -> None:
    """The network between server and NATS is cut."""
    (line,) = here.cables
    line.cut()
    await asyncio.sleep(here.draw.uniform(0, 1))
    line.mend()


async def hang_cable(here: World) -> None:
    """The network swallows everything without a sign."""
    (line,) = here.cables
    line.hang()
    await asyncio.sleep(here.draw.uniform(0.2, 3))
    line.mend()


async def slow_cable(here: World) -> None:
    """The network is slow."""
    (line,) = here.cables
    line.delay(here.draw.uniform(0.05, 0.3))
    await here.stored(8)
    line.mend()


async def kill_server(here: World) -> None:
    """kill -9 of the server, and its return on the same port."""
    await here.kill_server()
    await here.serve()


async def pause_server(here: World) -> None:
    """The server hangs for a while."""
    here.signal_server(signal.SIGSTOP)
    await asyncio.sleep(here.draw.uniform(0.2, 2))
    here.signal_server(signal.SIGCONT)


async def kill_worker(here: World) -> None:
    """kill -9 of one worker; its supervisor starts another."""
    here.signal_child(signal.SIGKILL)


async def pause_worker(here: World) -> None:
    """One worker hangs for a while, and with it whoever is connected to it."""
    worker = here.signal_child(signal.SIGSTOP)
    await asyncio.sleep(here.draw.uniform(0.2, 2))
    with contextlib.suppress(ProcessLookupError):  # its supervisor may have given it up
        os.kill(worker, signal.SIGCONT)


async def lose_checkpoint(here: World) -> None:
    """The archive forgets where it was."""
    await here.archive()
    here.checkpoint = type(here.checkpoint)()
    await here.archive()


async def stop_nats_in_order(here: World) -> None:
    """An orderly restart of NATS while the archive runs."""
    (store,) = here.nats
    archiving = asyncio.create_task(here.archive())
    store.stop()
    await asyncio.to_thread(store.start)
    await asyncio.gather(archiving, return_exceptions=True)
    await here.archive()


ALONE: dict[str, Harm] = {
    "kill NATS": kill_nats,
    "pause NATS": pause_nats,
    "restart NATS under the archive": stop_nats_in_order,
    "kill the server": kill_server,
    "pause the server": pause_server,
    "lose the checkpoint": lose_checkpoint,
}
CABLED: dict[str, Harm] = {
    "cut the network": cut_cable,
    "hang the network": hang_cable,
    "slow the network": slow_cable,
}


async def harmed(here: World, *harms: Harm) -> None:
    """Do the harms at drawn moments, and archive between them."""
    for _ in range(ROUNDS):
        for harm in here.draw.sample(harms, len(harms)):
            await here.stored(here.draw.randint(MORE // 2, MORE))
            await harm(here)
    await here.stored(MORE)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", ALONE | CABLED)
async def test_one_nats(
    own: NatsServer, tmp_path: Path, fault: str, seed: int, record_property: Recorder
) -> None:
    """One NATS, one server: each fault by itself, of one of them or of the network between them."""
    async with world(tmp_path, [own], seed, cabled=fault in CABLED) as here:
        await harmed(here, (ALONE | CABLED)[fault])
        record_property("acknowledged", await here.check())


@pytest.mark.parametrize("seed", SEEDS)
async def test_workers(
    own: NatsServer, tmp_path: Path, seed: int, record_property: Recorder
) -> None:
    """Several worker processes behind one port, killed and paused one at a time."""
    async with world(tmp_path, [own], seed, workers=2) as here:
        await harmed(here, kill_worker, pause_worker)
        record_property("acknowledged", await here.check())


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_cluster(tmp_path: Path, seed: int, record_property: Recorder) -> None:
    """Three NATS nodes, three replicas: the leader is killed, another hangs, is cut off or slow."""

    async def kill_leader(here: World) -> None:
        async with behind(here.nats[0]) as api:
            found = (await api.stream_info("STORM")).cluster
        assert found is not None
        node = here.nats[int(str(found.leader).removeprefix("n"))]
        node.kill()
        await here.stored(5)
        await asyncio.to_thread(node.start)

    async def pause_node(here: World) -> None:
        node = here.draw.choice(here.nats)
        node.pause()
        await here.stored(5)
        node.resume()

    async def cut_node(here: World) -> None:
        line = here.draw.choice(here.cables)
        line.cut()
        await here.stored(5)
        line.mend()

    async def slow_node(here: World) -> None:
        line = here.draw.choice(here.cables)
        line.delay(here.draw.uniform(0.05, 0.3))
        await here.stored(5)
        line.mend()

    with nats_cluster(tmp_path / "nats") as nodes:
        async with world(tmp_path, nodes, seed, cabled=True) as here:
            await harmed(here, kill_leader, pause_node, cut_node, slow_node)
            record_property("acknowledged", await here.check())


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_object_store_that_loses_answers(
    own: NatsServer, tmp_path: Path, seed: int, record_property: Recorder
) -> None:
    """The archive writes to an S3-like store that loses answers, goes away, or is slow."""
    with far_lakes() as lakes:
        far = next(lakes)
        async with world(tmp_path, [own], seed, place=far.direct) as here:
            here.archived_to = far.seen(repeats=2)
            for number in range(4 + ROUNDS):
                await here.stored(20)
                if not LONG:
                    await here.quiet()  # else they produce thousands while a slow store is written
                far.proxy.lose(
                    here.draw.randrange(1, 6),
                    here.draw.choice(["before", "after"]),
                    away=number == 2,
                    delay_s=here.draw.choice([0, 0, 0.02]),
                )
                await asyncio.gather(here.archive(), return_exceptions=True)
                far.proxy.heal()
                here.go()
            record_property("acknowledged", await here.check())


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_lake_on_a_full_disk(
    own: NatsServer, tmp_path: Path, seed: int, record_property: Recorder
) -> None:
    """The archive fails while the disk is full, and goes on when there is room."""
    with small_disk(tmp_path / "small", 16) as disk:
        place = Place(str(tmp_path / "small" / "lake"))
        async with world(tmp_path, [own], seed, place=place) as here:
            for _ in range(ROUNDS):
                await here.stored(MORE)
                await here.archive()
                await here.stored(MORE)
                disk.fill()
                with pytest.raises(AvisoError):
                    await here.archive()
                disk.clear()
            record_property("acknowledged", await here.check())


if LONG:

    @pytest.mark.parametrize("seed", SEEDS)
    async def test_everything_at_once(
        own: NatsServer, tmp_path: Path, seed: int, record_property: Recorder
    ) -> None:
        """All harms in drawn order, the real Spark job paused and killed too; then the audit."""
        async with world(tmp_path, [own], seed, cabled=True) as here:
            killed = 0
            harms = here.draw.sample([*ALONE.values(), *CABLED.values()], 8)
            for number in range(3):
                job = ArchiveProcess(tmp_path / "config.yaml", *BRISK_JOB)
                try:
                    for harm in harms[number * 2 : number * 2 + 2]:
                        if harm not in (lose_checkpoint, stop_nats_in_order):
                            await here.stored(MORE)
                            await harm(here)
                    job.signal(signal.SIGSTOP)
                    await here.stored(MORE)
                    job.signal(signal.SIGCONT)
                    await here.quiet()  # two cores are few for Spark beside a storm
                    await asyncio.to_thread(job.until, lambda line: line["archived"] > 0)
                    here.go()
                finally:
                    await asyncio.to_thread(job.close)  # kill -9
                killed += 1
            record_property("acknowledged", await here.check())
            record_property("archive killed", killed)
            config = str(tmp_path / "config.yaml")
            command = [sys.executable, "-m", "aviso_server", "pipeline", "audit", "-c", config]
            audit = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
            said, _ = await audit.communicate()
            assert audit.returncode == 0, said.decode()

    async def test_temporary_files_on_a_full_disk(own: NatsServer, tmp_path: Path) -> None:
        """A job whose temporary folder is full takes another or says so; nothing is harmed."""
        with small_disk(tmp_path / "small", 4) as disk:
            async with world(tmp_path, [own], 0) as here:
                await here.stored(MORE)
                disk.fill()
                config = str(tmp_path / "config.yaml")
                command = [sys.executable, "-m", "aviso_server", "pipeline", "archive", "--once"]
                job = await asyncio.create_subprocess_exec(
                    *(*command, "--config", config),
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    env={**os.environ, "TMPDIR": str(disk.folder)},
                )
                _, said = await job.communicate()
                assert job.returncode in {0, 1}, said.decode()
                assert "Traceback" not in said.decode()
                disk.clear()
                await here.check()


@asynccontextmanager
async def stopped(here: World) -> AsyncIterator[None]:
    """The server is down while the block runs, as when an operator restores something.

    Nobody waits for an answer then: keys are remembered in the log, and lost or put back with it.
    """
    await here.quiet()
    await here.kill_server()
    yield
    await here.serve()
    here.go()


async def test_a_lost_log(own: NatsServer, tmp_path: Path, record_property: Recorder) -> None:
    """Everything was archived: it is replayed from the lake, and the log goes on behind it."""
    async with world(tmp_path, [own], 0) as here:
        await here.stored(MORE)
        async with stopped(here):
            await here.archive()
            await asyncio.to_thread(backup.lose, own)
        await here.stored(MORE)
        record_property("acknowledged", await here.check())


async def test_an_older_log(own: NatsServer, tmp_path: Path, record_property: Recorder) -> None:
    """Put back beside a newer lake: nothing is stored until it is recovered, nothing is lost."""
    async with world(tmp_path, [own], 0) as here:
        await here.stored(MORE)
        kept = await asyncio.to_thread(backup.copy, own)
        await here.stored(MORE)
        async with stopped(here):
            await here.archive()
            await asyncio.to_thread(backup.put_back, own, kept)
        before = len(here.storm.book.sent)
        options = RecoverOptions(
            here.lake, {"servers": here.log}, folder=tmp_path / "recovered", apply=True
        )
        assert settled(await recover(options))
        assert len(here.storm.book.sent) == before
        await here.stored(MORE)
        record_property("acknowledged", await here.check())


async def test_a_lost_lake(own: NatsServer, tmp_path: Path, record_property: Recorder) -> None:
    """The log has everything: the archive starts afresh."""
    async with world(tmp_path, [own], 0) as here:
        await here.stored(MORE)
        await here.archive()
        async with stopped(here):
            (tmp_path / "lake").rename(tmp_path / "lost")
            here.checkpoint = type(here.checkpoint)()
        await here.stored(MORE)
        record_property("acknowledged", await here.check())
