"""The recipe that gets a browser for the tests, on machines made up of a few commands."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.browser import MISSING, NAMES

ROOT = Path(__file__).parents[1]


class Machine:
    """A folder of commands that stands for a whole PATH; nothing real is installed or removed."""

    def __init__(self, folder: Path, *, user: int) -> None:
        self.folder = folder
        self.journal = folder / "journal"
        self.command("id", f"echo {user}")

    def command(self, name: str, script: str = "") -> None:
        """Add a command."""
        file = self.folder / name
        file.write_text(f"#!/bin/bash\n{script}\n")
        file.chmod(0o755)

    def with_packages(self, *packages: str) -> None:
        """Add an apt-get that knows these packages: it notes what it is asked, and makes them."""
        known = " | ".join(packages) or "nothing"
        self.command(
            "apt-get",
            f'echo "$DEBIAN_FRONTEND $*" >> {self.journal}\n'
            '[ "$1" = update ] && exit 0\n'
            'package="${@: -1}"\n'
            f'case "$package" in {known}) ;; *) exit 100 ;; esac\n'
            # No PATH leads to the commands that could make one: bash itself can.
            f'printf "#!/bin/bash\\n" > "{self.folder}/$package"\n'
            f'{shutil.which("chmod")} +x "{self.folder}/$package"',
        )

    def make_browser(self, **variables: str) -> str:
        """What the recipe prints; it always succeeds."""
        make = shutil.which("make")
        assert make
        environment = {"PATH": str(self.folder), "HOME": os.environ.get("HOME", "/"), **variables}
        # The environment is ready: these tests run in it.
        ready = ("-o", f"{sys.prefix}/.ready", f"VENV={sys.prefix}")
        done = subprocess.run(
            [make, "--no-print-directory", *ready, "browser"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_a_browser_that_is_there_is_enough(tmp_path: Path, name: str) -> None:
    """Nothing is installed and nothing is said, whatever the browser is called."""
    machine = Machine(tmp_path, user=0)
    machine.with_packages("chromium")
    machine.command(name)
    assert machine.make_browser() == ""
    assert not machine.journal.exists()


def test_a_browser_may_be_anywhere(tmp_path: Path) -> None:
    """CHROMIUM names it."""
    machine = Machine(tmp_path, user=1000)
    assert machine.make_browser(CHROMIUM=sys.executable) == ""
    assert machine.make_browser(CHROMIUM=str(tmp_path / "nothing")) == f"{MISSING}\n"


@pytest.mark.parametrize("package", ["chromium", "chromium-browser"])
def test_root_on_debian_gets_one(tmp_path: Path, package: str) -> None:
    """The package of that system is installed, without what it only recommends."""
    machine = Machine(tmp_path, user=0)
    machine.with_packages(package)
    assert machine.make_browser() == "Installing Chromium for the tests of the console ...\n"
    asked = machine.journal.read_text().splitlines()
    assert asked[0] == "noninteractive update"
    assert asked[-1] == f"noninteractive install -y --no-install-recommends {package}"


def test_others_are_told_what_to_install(tmp_path: Path) -> None:
    """Users who are not root, or have another system, see the exact command."""
    elsewhere = Machine(tmp_path, user=0)
    assert elsewhere.make_browser() == f"{MISSING}\n"
    somebody = Machine(tmp_path, user=1000)
    somebody.with_packages("chromium")
    assert somebody.make_browser() == f"{MISSING}\n"
    assert not somebody.journal.exists()


def test_an_installation_that_fails_is_reported(tmp_path: Path) -> None:
    """Root reads it too, when the system has no such package or no network."""
    machine = Machine(tmp_path, user=0)
    machine.with_packages()
    assert machine.make_browser() == (
        "Installing Chromium for the tests of the console ...\n"
        f"apt-get could not install it\n{MISSING}\n"
    )
