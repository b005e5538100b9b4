"""The log of the embedded server, in ours."""

import os

from support.journal import recorded

from aviso_server.backends.jetstream.natslog import ServerLog

PREFIX = "[7] 2026/11/15 23:29:26.266576"
FULL = f"{PREFIX} [ERR] Filestore [A] Critical write error: write /x/1.blk: no space left on device"


async def read(*lines: str) -> tuple[ServerLog, list[str]]:
    """Let a server say something and end."""
    heard: list[str] = []
    log = ServerLog(heard.append)
    os.write(
        log.descriptor, "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")
    )
    await log.start()
    await log.end()
    return log, heard


async def test_errors_and_warnings_are_ours() -> None:
    """With their cause; the rest is for those who debug."""
    with recorded() as journal:
        log, heard = await read(
            f"{PREFIX} [INF] Server is ready", f"{PREFIX} [WRN] Slow", FULL, f"{PREFIX} [INF] Bye"
        )
    (error,) = journal.all("backend.jetstream.embedded.error")
    assert error["error"].endswith("/x/1.blk: no space left on device")
    (warning,) = journal.all("backend.jetstream.embedded.warning")
    assert warning["error"] == "Slow"
    assert heard == ["no space left on device"]
    assert log.complaint.startswith("Filestore [A]")


async def test_a_flood_is_cut() -> None:
    """A full disk is reported for every notification; the log must not fill another disk."""
    with recorded() as journal:
        _, heard = await read(*[FULL] * 500)
    assert len(journal.all("backend.jetstream.embedded.error")) == 10
    assert len(heard) == 500


async def test_odd_lines_do_no_harm() -> None:
    """Endless ones, bytes that are no text, and lines of another shape."""
    with recorded() as journal:
        log, heard = await read("x" * 60_000, "\udcff", "nats-server: bad flag", FULL)
        assert heard == ["no space left on device"]
        silent, _ = await read("nats-server: bad flag")
    assert log.complaint.startswith("Filestore")
    assert silent.complaint == "nats-server: bad flag"
    assert len(journal.all("backend.jetstream.embedded.error")) == 1
