"""Finding a Java that Spark can run on, or saying how to get one."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aviso_server.core.errors import AvisoError

OLDEST = 17
"""What Spark 4 needs."""

USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)

HOW_TO_INSTALL = (
    "install it with 'apt-get install openjdk-17-jre-headless' (Debian, Ubuntu), "
    "'dnf install java-17-openjdk-headless' (Fedora, RHEL) or 'brew install openjdk@17' (macOS), "
    "or set JAVA_HOME to the folder of an installed one"
)

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_ANSWER_S = 20


class JavaMissing(AvisoError):
    """There is no Java, or none that is new enough; the message says how to install one."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was found."""

    home: Path
    version: int


def find_java(environ: Mapping[str, str], places: Iterable[str] = USUAL_PLACES) -> Java:
    """The Java of JAVA_HOME, else of the path, else of the usual places; or JavaMissing."""
    too_old: list[Java] = []
    for home in _candidates(environ, places):
        version = version_of(home)
        if version is not None and version >= OLDEST:
            return Java(home, version)
        if version is not None:
            too_old.append(Java(home, version))
    found = "no Java was found"
    if too_old:
        found = f"Java {too_old[0].version} in {too_old[0].home} is too old"
    raise JavaMissing(f"Spark needs Java {OLDEST} or newer: {found}; {HOW_TO_INSTALL}")


def version_of(home: Path) -> int | None:
    """The feature release of the Java in a folder, or None when it is not one."""
    program = home / "bin" / "java"
    if not program.is_file():
        return None
    # Its own notes cost nothing to read; starting it takes a good part of a second.
    try:
        noted = _RELEASE.search((home / "release").read_text(errors="replace"))
    except OSError:
        noted = None
    if noted is not None:
        return int(noted[1])
    try:
        asked = subprocess.run(  # noqa: S603 - a program the operator chose
            [str(program), "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    told = _VERSION.search(asked.stderr + asked.stdout)
    return None if told is None else int(told[1])


def _candidates(environ: Mapping[str, str], places: Iterable[str]) -> Iterator[Path]:
    if chosen := environ.get("JAVA_HOME"):
        yield Path(chosen)
    if program := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(program).resolve().parents[1]
    # The oldest that will do comes first: it is the one Spark was tried with.
    homes = [home for place in places for home in Path("/").glob(place.removeprefix("/"))]
    yield from sorted(homes, key=lambda home: (version_of(home) or 0, str(home)))
