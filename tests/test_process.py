"""Children and files of a process."""

import asyncio
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from aviso_server.process import (
    Backoff,
    end_child,
    lock,
    replace_file,
    scratch_folder,
    set_by_signals,
    start_child,
)

STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
while True: signal.pause()
"""


@pytest.mark.parametrize(
    ("program", "within_s", "number"),
    [
        ("import signal; print(flush=True); signal.pause()", 30.0, signal.SIGTERM),
        (STUBBORN, 0.05, signal.SIGKILL),
    ],
)
async def test_a_child_is_asked_before_it_is_made_to_end(
    program: str, within_s: float, number: signal.Signals
) -> None:
    """With SIGTERM, then with SIGKILL; one that is gone is left alone."""
    child = await start_child(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    await child.stdout.readline()
    await end_child(child, within_s=within_s)
    assert await child.wait() == -number
    await end_child(child, within_s=within_s)


def test_pauses_grow_until_a_try_lasted() -> None:
    """The last one stays; where every try counts as lasting, it is the first each time."""
    growing = Backoff((1, 2, 5), settled_s=3600)
    assert [growing.failed() for _ in range(5)] == [1, 2, 5, 5, 5]
    settled = Backoff((1, 2, 5), settled_s=0)
    assert [settled.failed() for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, durable: bool) -> None:
    """With the permissions asked for; nothing else is left in the folder."""
    path = tmp_path / "state"
    replace_file(path, b"one", durable=durable)
    replace_file(path, b"two", mode=0o600, durable=durable)
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "folder", b"three", durable=durable)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["folder", "state"]


def test_a_lock_is_held_until_it_is_closed(tmp_path: Path) -> None:
    """By one at a time, and what the file holds stays in it."""
    (tmp_path / "lock").write_bytes(b"kept")
    with lock(tmp_path / "lock"), pytest.raises(BlockingIOError):
        lock(tmp_path / "lock")
    lock(tmp_path / "lock").close()
    assert (tmp_path / "lock").read_bytes() == b"kept"


def test_signals_set_the_event_while_the_block_runs() -> None:
    """Afterwards they do what they did before."""
    before = signal.getsignal(signal.SIGTERM)
    stop = threading.Event()
    with set_by_signals(stop):
        signal.raise_signal(signal.SIGTERM)
        assert stop.wait(10)
    assert signal.getsignal(signal.SIGTERM) is before


OWNER = """
from aviso_server.process import scratch_folder
with scratch_folder("test") as folder:
    (folder / "spark").mkdir()
    print(folder, flush=True)
    input()
"""


def test_what_killed_processes_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next of its kind; not what a living one has, nor what nobody is known to own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    unknown = tmp_path / "aviso-test-unknown"
    unknown.mkdir()
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", OWNER]
    with (
        Popen(command, stdin=PIPE, stdout=PIPE, env=environ) as living,
        Popen(command, stdin=PIPE, stdout=PIPE, env=environ) as killed,
    ):
        assert living.stdout is not None
        assert killed.stdout is not None
        kept = Path(living.stdout.readline().decode().strip())
        left = Path(killed.stdout.readline().decode().strip())
        killed.kill()
        killed.wait()
        assert left.is_dir()
        with scratch_folder("test") as folder:
            assert set(tmp_path.iterdir()) == {folder, kept, unknown}
        living.communicate(b"\n")
    assert list(tmp_path.iterdir()) == [unknown]
