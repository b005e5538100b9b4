"""The workers that run the tests: one that dies takes one test along, and its children."""

import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_SUITE = """
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

@pytest.mark.parametrize("number", range(40))
def test_fine(number):
    with (HERE / "done").open("a") as file:
        file.write(f"{number}\\n")

def test_deadly():
    with (HERE / "deaths").open("a") as file:
        file.write(".")
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    (HERE / "child").write_text(str(child.pid))
    os._exit(1)
"""


def _wait_for_its_end(pid: int) -> None:
    with suppress(ProcessLookupError):
        select.select([os.pidfd_open(pid)], [], [])


def test_a_run_ends_although_a_worker_dies(tmp_path: Path) -> None:
    """Every other test runs once, the deadly one fails once, its child is ended."""
    (tmp_path / "test_suite.py").write_text(_SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"]
    command += ["-c", os.devnull, "--rootdir", str(tmp_path), "-p", "xdist"]
    command += ["-p", "support.workers", "-p", "no:cacheprovider", "test_suite.py"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    run = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert "1 failed, 40 passed" in run.stdout
    done = (tmp_path / "done").read_text().split()
    assert sorted(map(int, done)) == list(range(40))
    assert (tmp_path / "deaths").read_text() == "."
    child = int((tmp_path / "child").read_text())
    _wait_for_its_end(child)
