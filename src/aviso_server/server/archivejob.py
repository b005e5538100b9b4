"""The archive job as a child of the server: started, watched, started again, ended with it.

Rules
- The job is a separate process. Whatever happens to it, the server continues to serve.
- It is started when the server serves, and again whenever it ends, with growing pauses.
- It reports its state: one JSON object per line on its stdout. Its other output, which Spark makes
  plenty of, is kept only to explain a failure.
- It ends with the server, even if the server is killed (process).
- Without Java or PySpark there is no job. That is said once, with what to install.
"""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec
import structlog

from aviso_server import tasks
from aviso_server.core.json import UNREADABLE
from aviso_server.pipeline.spark.java import JavaMissing, find_java
from aviso_server.process import Backoff, kill_group, replace_file, signal_child, start_child
from aviso_server.settings import Settings
from aviso_server.telemetry.metrics import SILENT, ArchiveMeter

NO_SPARK = "PySpark is not installed. Install it: pip install 'aviso-server[spark]'"

LAST_WORDS = 20
"""Lines of the job's stderr that are kept to explain its end."""

LONGEST_LINE = 1 << 20
"""Bytes of one line of the job; a longer one is passed over."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things take, in seconds."""

    restarts_s: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
    """Pauses before a restart: the first, and those that follow soon."""
    settled_s: float = 60.0
    """After a job that ran this long they start again."""
    grace_s: float = 20.0
    """For the job to finish its micro-batch; the server must be gone within 30 s."""
    logged_s: float = 60.0
    """The log hears of progress at most so often."""


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the job is doing: a line of it, and what its supervisor adds."""

    state: Literal["starting", "running", "stopped", "failed", "unavailable"]
    archived: int = 0
    """Notifications since the job began."""
    rate: float = 0.0
    lag: int | None = None
    lag_seconds: float | None = None
    error: str | None = None
    restarts: int = 0


_STATUS = msgspec.json.Decoder(JobStatus)


def is_managed(settings: Settings) -> bool:
    """Whether this server is to look after an archive job."""
    return settings.lake.archive == "managed"


def command(config: Path | None) -> list[str]:
    """The archive job with the configuration the server has."""
    chosen = [] if config is None else ["--config", str(config)]
    return [
        *(sys.executable, "-m", "aviso_server", "pipeline", "archive"),
        *(*chosen, "--progress", "json"),
    ]


def obstacle(environ: Mapping[str, str]) -> str | None:
    """Why the job cannot run on this machine, with what to install."""
    if find_spec("pyspark") is None:
        return NO_SPARK
    try:
        find_java(environ)
    except JavaMissing as error:
        return str(error)
    return None


class Archiving:
    """The job, and what is known of it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        place: str = "",
        patience: Patience | None = None,
        obstacle: Callable[[], str | None] = lambda: obstacle(os.environ),
        board: Path | None = None,
    ) -> None:
        self._command = list(command)
        self._place = place
        self._patience = patience or Patience()
        self._obstacle = obstacle
        self._board = board
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()
        self._patient_until = 0.0
        self._seen = JobStatus(state="stopped")
        self._counted = 0
        """Of this run of the job, in the meter already."""
        self._logged_at = 0.0
        self._last_words: deque[str] = deque(maxlen=LAST_WORDS)
        self._meter: ArchiveMeter = SILENT.archive()

    @classmethod
    def of(
        cls, settings: Settings, config: Path | None, *, board: Path | None = None
    ) -> "Archiving | None":
        """What the settings ask for; None if they ask for no job."""
        if not is_managed(settings):
            return None
        return cls(command(config), place=settings.lake.path or "", board=board)

    def view(self) -> JobStatus:
        """How the job is doing."""
        return self._seen

    def words(self, behind: int | None = None) -> str:
        """The same for the person at the terminal; ``behind`` is how much waits to be archived."""
        if self._seen.state == "unavailable":
            return f"off: {self._seen.error}"
        lag = "" if behind is None else f", {behind or 'nothing'} behind now"
        return f"into {self._place}, by Spark{lag}; the log shows its progress"

    async def start(self, meter: Callable[[], ArchiveMeter] = SILENT.archive) -> None:
        """Begin to look after the job, if it can run at all."""
        self._meter = meter()
        journal = structlog.get_logger()
        missing = await asyncio.to_thread(self._obstacle)
        if missing is not None:
            journal.warning(
                f"Nothing is archived: {missing}", event_name="archive.unavailable", error=missing
            )
            self._note(JobStatus(state="unavailable", error=missing))
            return
        self._task = asyncio.create_task(self._supervise(), name="archive job")

    def leave(self) -> None:
        """Ask the job to end, and do not start it again; from now on its grace is counted."""
        if not self._leaving.is_set():
            self._patient_until = asyncio.get_running_loop().time() + self._patience.grace_s
        self._leaving.set()
        if self._process is not None:
            signal_child(self._process, signal.SIGTERM)

    async def ended(self) -> None:
        """Wait for the job to end, and make it end if it does not."""
        self.leave()
        task, self._task = self._task, None
        if task is None:
            return
        process = self._process
        if process is not None:
            try:
                async with asyncio.timeout_at(self._patient_until):
                    await process.wait()
            except TimeoutError:
                structlog.get_logger().warning(
                    "The archive job did not end and is killed", event_name="archive.killed"
                )
        await tasks.end(task)
        await self._kill()
        self._note(msgspec.structs.replace(self._seen, state="stopped"))

    # The job

    async def _supervise(self) -> None:
        """Keep the job running until we leave."""
        backoff = Backoff(self._patience.restarts_s, settled_s=self._patience.settled_s)
        while not self._leaving.is_set():
            backoff.begin()
            try:
                code = await self._run()
            except OSError as error:
                code, self._last_words = None, deque([str(error)], LAST_WORDS)
            if self._leaving.is_set():
                return
            pause = backoff.failed()
            self._failed(code, pause)
            await asyncio.sleep(pause)
            self._meter.restarts.add()

    async def _run(self) -> int:
        """Run the job once; its exit code."""
        self._counted = 0
        self._last_words.clear()
        self._note(JobStatus(state="starting", restarts=self._seen.restarts))
        process = self._process = await start_child(
            *self._command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE,
        )
        structlog.get_logger().info(
            "Archive job started", event_name="archive.started", pid=process.pid, lake=self._place
        )
        if self._leaving.is_set():  # asked to while the process was being made
            signal_child(process, signal.SIGTERM)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_lines(process.stdout, self._heard))
                group.create_task(_lines(process.stderr, self._overheard))
                code = await process.wait()
                # A JVM that outlives its driver holds the pipes, and would continue writing.
                kill_group(process.pid)
            return code
        finally:
            await self._kill()

    async def _kill(self) -> None:
        """End what is left of the job and of its JVM."""
        process, self._process = self._process, None
        if process is not None:
            kill_group(process.pid)
            await process.wait()

    # What it says

    def _heard(self, line: bytes) -> None:
        try:
            report = _STATUS.decode(line)
        except UNREADABLE:
            self._overheard(line)
            return
        if report.archived > self._counted:
            self._meter.archived.add(report.archived - self._counted)
            self._counted = report.archived
        before = self._seen
        self._note(msgspec.structs.replace(report, restarts=before.restarts))
        if report.state != "failed" and report.error not in (None, before.error):
            structlog.get_logger().warning(
                f"Archive {report.state}: {report.error}",
                event_name="archive.trouble",
                error=report.error,
            )
        self._log_progress(report, changed=report.state != before.state)

    def _overheard(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        if text:
            self._last_words.append(text)

    def _log_progress(self, report: JobStatus, *, changed: bool) -> None:
        """Log a change at once, progress now and then."""
        now = asyncio.get_running_loop().time()
        recently = now - self._logged_at < self._patience.logged_s
        if not changed and (recently or report.state != "running"):
            return
        self._logged_at = now
        journal = structlog.get_logger()
        (journal.error if report.state == "failed" else journal.info)(
            f"Archive {report.state}{_behind(report)}",
            event_name="archive.state.changed" if changed else "archive.progress",
            state=report.state,
            archived=report.archived,
            rate=round(report.rate, 1),
            lag=report.lag,
            lag_seconds=report.lag_seconds,
            **({"error": report.error} if report.error else {}),
        )

    def _failed(self, code: int | None, pause: float) -> None:
        """The job ended unasked."""
        why = self._seen.error or (self._last_words[-1] if self._last_words else "no reason given")
        structlog.get_logger().error(
            f"Archive job ended, starting it again in {pause:g} s: {why}",
            event_name="archive.ended",
            exit_code=code,
            error=why,
            last_words=list(self._last_words),
        )
        restarts = self._seen.restarts + 1
        self._note(
            msgspec.structs.replace(self._seen, state="failed", error=why, restarts=restarts)
        )

    def _note(self, seen: JobStatus) -> None:
        """Remember the state, and put it where metrics and other processes find it."""
        self._seen = seen
        self._meter.up.set(seen.state == "running")
        self._meter.lag.set(seen.lag or 0)
        self._meter.lag_seconds.set(seen.lag_seconds or 0.0)
        if self._board is not None:
            replace_file(self._board, msgspec.json.encode(seen))


@dataclass(frozen=True, slots=True)
class Posted:
    """The job of another process, as a worker sees its supervisor's; there is nothing to do."""

    board: Path

    @staticmethod
    def words() -> None:
        """The supervisor says it."""

    async def start(self, _: Callable[[], ArchiveMeter]) -> None:
        """The supervisor does."""

    def leave(self) -> None:
        """The supervisor does."""

    async def ended(self) -> None:
        """The supervisor waits."""

    def view(self) -> JobStatus | None:
        """How the job was doing when it was last noted."""
        try:
            return _STATUS.decode(self.board.read_bytes())
        except (OSError, *UNREADABLE):
            return None


async def _lines(stream: asyncio.StreamReader | None, take: Callable[[bytes], None]) -> None:
    assert stream is not None  # noqa: S101 - asked for as a pipe
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than the limit: that much is discarded
            continue
        if not line:
            return
        take(line)


def _behind(report: JobStatus) -> str:
    if report.lag is None or report.state != "running":
        return ""
    if not report.lag:
        return ", up to date"
    seconds = "" if report.lag_seconds is None else f", {report.lag_seconds:.1f} s"
    what = "notification" if report.lag == 1 else "notifications"
    return f", {report.lag} {what}{seconds} behind"
