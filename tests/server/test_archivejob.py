"""The archive job as a child: watched, started again, ended; with stand-ins that do as told."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from backends.jetstream.conftest import eventually
from support.config import settings
from support.journal import Journal, recorded
from support.metrics import counting, page_url, scrape
from support.process import alive

from aviso_server.cli.banner import banner
from aviso_server.server.archivejob import (
    NO_SPARK,
    Archiving,
    JobStatus,
    Patience,
    Posted,
    command,
    obstacle,
)
from aviso_server.server.serve import serving
from aviso_server.telemetry.cells import CellKey, Cells
from aviso_server.telemetry.metrics import ArchiveMeter

BRISK = Patience(restarts_s=(0.01, 0.02, 0.04, 0.05), grace_s=10, logged_s=3600)

RUNNING = {"state": "running", "archived": 7, "rate": 3.5, "lag": 2, "lag_seconds": 0.5}

# Says what it is told to, then waits to be ended.
_JOB = """
import signal, sys, time
for line in sys.argv[1:]:
    print(line, flush=True)
print("a traceback", file=sys.stderr, flush=True)
signal.pause()
"""


def job(*reports: dict[str, Any] | str) -> list[str]:
    """A job that says these lines and runs on."""
    lines = [line if isinstance(line, str) else json.dumps(line) for line in reports]
    return [sys.executable, "-c", _JOB, *lines]


@asynccontextmanager
async def looked_after(
    command: list[str], patience: Patience = BRISK, *, cells: Cells | None = None, **more: Any
) -> AsyncIterator[tuple[Archiving, Journal]]:
    """Run a job for the length of the block; what is logged goes to the journal."""
    with recorded() as journal:
        archiving = Archiving(
            command, place="the lake", patience=patience, **{"obstacle": lambda: None, **more}
        )
        await archiving.start(lambda: ArchiveMeter.on(cells))
        try:
            yield archiving, journal
        finally:
            archiving.leave()
            await archiving.ended()


async def test_its_reports_become_state_metrics_and_log(tmp_path: Path) -> None:
    """What the job says is shown; lines that are no reports are passed over."""
    cells = Cells.private()
    again = {**RUNNING, "archived": 9, "lag": 0, "lag_seconds": 0.0}
    board = tmp_path / "board.json"
    command = job({"state": "starting"}, "Spark says hello", RUNNING, again)
    async with looked_after(command, cells=cells, board=board) as (archiving, journal):
        await eventually(lambda: archiving.view().lag == 0)
        assert archiving.view() == msgspec.convert(again, JobStatus)
        assert Posted(board).view() == archiving.view()
        shown = {key.name: values[0] for key, values in cells.snapshot().items()}
        assert shown == {
            "aviso_archive_up": 1,
            "aviso_archive_lag_notifications": 0,
            "aviso_archive_lag_seconds": 0,
            "aviso_archive_notifications_total": 9,
            "aviso_archive_restarts_total": 0,
        }
        (told,) = journal.all("archive.state.changed")
        assert told["event"] == "Archive running, 2 notifications, 0.5 s behind"
        assert journal.all("archive.progress") == []  # not more often than the patience says
    assert archiving.view().state == "stopped"
    assert Posted(board).view() == archiving.view()
    assert Posted(tmp_path / "nothing").view() is None


async def test_progress_is_logged_now_and_then() -> None:
    """With no patience at all every report is."""
    patience = Patience(logged_s=0)
    async with looked_after(job(RUNNING, RUNNING, RUNNING), patience) as (_, journal):
        await journal.seen("archive.progress", 2)
        assert journal.all("archive.progress")[0]["lag"] == RUNNING["lag"]


async def test_a_job_that_dies_is_started_again() -> None:
    """With growing pauses; the log has its last words, the archive counts on."""
    cells = Cells.private()
    dies = "import sys; print(sys.argv[1]); sys.exit('out of memory')"
    command = [sys.executable, "-c", dies, json.dumps(RUNNING)]
    async with looked_after(command, cells=cells) as (archiving, journal):
        await journal.seen("archive.ended", 4)
        pauses = [record["event"].split(": ")[0][-6:] for record in journal.all("archive.ended")]
        assert pauses[:4] == ["0.01 s", "0.02 s", "0.04 s", "0.05 s"]
        told = journal.all("archive.ended")[0]
        assert (told["exit_code"], told["error"]) == (1, "out of memory")
        assert archiving.view().restarts >= 3
        shown = cells.snapshot()
        assert shown[CellKey("aviso_archive_notifications_total", ())][0] >= 21
        assert shown[CellKey("aviso_archive_restarts_total", ())][0] >= 3


async def test_a_job_that_ran_long_begins_with_the_first_pause() -> None:
    """Only failures in a row make the pauses grow."""
    patience = Patience(restarts_s=(0.01, 60), settled_s=0)
    dies = [sys.executable, "-c", "raise SystemExit(3)"]
    async with looked_after(dies, patience) as (_, journal):
        await journal.seen("archive.ended", 3)
        assert all("in 0.01 s" in record["event"] for record in journal.all("archive.ended"))


async def test_a_failure_it_reports_is_the_reason() -> None:
    """The job knows better than its last words."""
    fails = "import sys; print(sys.argv[1]); sys.exit(1)"
    report = json.dumps({"state": "failed", "error": "the log lost 5 to 9"})
    async with looked_after([sys.executable, "-c", fails, report]) as (_, journal):
        await journal.seen("archive.ended")
        assert journal.all("archive.ended")[0]["error"] == "the log lost 5 to 9"
        assert journal.all("archive.state.changed")[0]["error"] == "the log lost 5 to 9"


async def test_trouble_that_does_not_end_it_is_a_warning() -> None:
    """Said once for each, however often the job says so."""
    away = {**RUNNING, "error": "NATS is away; trying again in 30 s"}
    async with looked_after(job(RUNNING, away, away, RUNNING)) as (archiving, journal):
        await journal.seen("archive.trouble")
        await eventually(lambda: archiving.view().error is None)
        (told,) = journal.all("archive.trouble")
        assert (told["log_level"], told["error"]) == ("warning", away["error"])


async def test_a_program_that_is_not_there() -> None:
    """It fails like any other, and the server goes on."""
    async with looked_after(["/nowhere/python"]) as (archiving, journal):
        await journal.seen("archive.ended")
        assert archiving.view().state == "failed"


async def test_the_job_may_finish_before_it_ends() -> None:
    """SIGTERM first, and time to commit what is in hand."""
    finishes = (
        "import signal, sys\n"
        "def finish(*_):\n"
        "    print(sys.argv[2], flush=True)\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, finish)\n"
        "print(sys.argv[1], flush=True)\n"
        "while True: signal.pause()\n"
    )
    last = {**RUNNING, "state": "stopped", "archived": 8}
    command = [sys.executable, "-c", finishes, json.dumps(RUNNING), json.dumps(last)]
    cells = Cells.private()
    async with looked_after(command, cells=cells) as (archiving, journal):
        await eventually(lambda: archiving.view().state == "running")
        archiving.leave()
        await journal.seen("archive.state.changed", 2)
    assert journal.all("archive.killed") == journal.all("archive.ended") == []
    assert cells.snapshot()[CellKey("aviso_archive_notifications_total", ())] == (8.0,)


async def test_a_job_that_does_not_end_is_killed_with_its_children() -> None:
    """A JVM that hangs must not keep the server from ending."""
    stubborn = (
        "import signal, subprocess, sys, json\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "print(json.dumps({'state': 'running', 'lag': child.pid}), flush=True)\n"
        "while True: signal.pause()\n"
    )
    patience = Patience(grace_s=0.05)
    async with looked_after([sys.executable, "-c", stubborn], patience) as (archiving, journal):
        await eventually(lambda: archiving.view().state == "running")
        child = archiving.view().lag
        assert child is not None
        assert alive(child)
    assert len(journal.all("archive.killed")) == 1
    await eventually(lambda: not alive(child))


async def test_children_do_not_outlive_a_killed_job() -> None:
    """A JVM that holds the pipes of its dead driver does not keep the next one from starting."""
    leaves = (
        "import os, signal, subprocess, sys, json\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "print(json.dumps({'state': 'running', 'lag': child.pid}), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    async with looked_after([sys.executable, "-c", leaves]) as (_, journal):
        await journal.seen("archive.ended", 2)
        assert journal.all("archive.ended")[0]["exit_code"] == -signal.SIGKILL


async def test_it_dies_with_a_killed_server(tmp_path: Path) -> None:
    """kill -9 of the server ends the job: the kernel sees to it."""
    server = (
        "import asyncio, sys\n"
        "from aviso_server.server.archivejob import Archiving\n"
        "async def main():\n"
        "    job = Archiving(sys.argv[1:], obstacle=lambda: None)\n"
        "    await job.start()\n"
        "    while job.view().lag is None: await asyncio.sleep(0.01)\n"
        "    print(job.view().lag, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    says = (
        "import os, signal\n"
        'print(\'{"state":"running","lag":%d}\' % os.getpid(), flush=True)\n'
        "signal.pause()"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", server, sys.executable, "-c", says),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    async with asyncio.timeout(20):
        lines = [await process.stdout.readline()]
        while not lines[-1].strip().isdigit():
            lines.append(await process.stdout.readline())
    pid = int(lines[-1])
    assert alive(pid)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await eventually(lambda: not alive(pid))


async def test_without_java_the_server_says_so_once(tmp_path: Path) -> None:
    """What to install is in the log and in the banner; nothing is started."""
    missing = "Spark needs Java 17 or newer: no Java was found. Install it:\n  apt-get ..."
    async with looked_after(job(), obstacle=lambda: missing) as (archiving, journal):
        assert archiving.view() == JobStatus(state="unavailable", error=missing)
        assert archiving.words().startswith("off: Spark needs Java 17")
        assert len(journal.all("archive.unavailable")) == 1
        assert journal.all("archive.started") == []


def test_the_banner_says_how_much_waits() -> None:
    """At start-up, before the job itself can say anything."""
    archiving = Archiving(job(), place="var/lake")
    assert "nothing behind now" in archiving.words(0)
    assert "12 behind now" in archiving.words(12)


def test_what_stands_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java is looked for as the job does it; PySpark must be installed."""
    assert obstacle(os.environ) is None
    monkeypatch.setattr("aviso_server.server.archivejob.find_spec", lambda _: None)
    assert obstacle(os.environ) == NO_SPARK


def test_the_settings_decide(tmp_path: Path) -> None:
    """Only ``lake.archive: managed`` makes a job, with the configuration of the server."""
    assert Archiving.of(settings(), None) is None
    told = command(tmp_path / "c.yaml")
    assert told[1:5] == ["-m", "aviso_server", "pipeline", "archive"]
    assert told[5:] == ["--config", str(tmp_path / "c.yaml"), "--progress", "json"]
    assert "--config" not in command(None)


async def _ready(url: str, session: Any) -> tuple[int, str]:
    async with session.get(url) as response:
        return response.status, await response.text()


async def test_a_server_looks_after_its_job() -> None:
    """It runs while the server serves; /ready and the metrics tell, and it ends with the server."""
    archiving = Archiving(job(RUNNING), obstacle=lambda: None, patience=BRISK, place="var/lake")
    with recorded() as journal:
        async with (
            serving(counting(), job=archiving) as running,
            aiohttp.ClientSession() as session,
        ):
            assert running.archive is not None
            assert "into var/lake" in running.archive
            await journal.seen("archive.state.changed")
            status, text = await _ready(f"{running.url}/ready?details=1", session)
            assert status == 200
            assert json.loads(text)["archive"] == {
                "state": "running",
                "lag": 2,
                "lag_seconds": 0.5,
                "rate": 3.5,
                "restarts": 0,
                "error": None,
            }
            page = await scrape(page_url(running))
            assert page.value("aviso_archive_up") == 1
            assert page.value("aviso_archive_lag_notifications") == 2
            assert page.value("aviso_archive_notifications_total") == 7
    assert archiving.view().state == "stopped"


async def test_a_server_without_a_job_shows_none_of_its_series() -> None:
    """A zero would look like an alarm."""
    async with serving(counting()) as running:
        page = await scrape(page_url(running))
        assert not page.named("aviso_archive_up")
        assert page.named("aviso_backend_connected")


def test_the_banner_says_where_the_archive_goes() -> None:
    """Also what to install, in lines that stand below each other."""
    catalogue = settings().catalogue
    assert "archive" not in banner("http://h", catalogue, kept="here")
    shown = banner("http://h", catalogue, kept="here", archive="off: no Java. Install it:\n  apt")
    assert "  archive   off: no Java. Install it:\n              apt\n" in shown
