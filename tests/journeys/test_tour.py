"""The README's tour, run as it stands there, and the example client it points to."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple
from urllib.request import Request, urlopen

import pytest
import yaml
from support.config import document
from support.process import ServerProcess, server_process

from aviso_server.core.json import Json

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:8000"
ESTABLISHED = "api.watch.stream.established"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CHANGING = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
)


class Step(NamedTuple):
    """A block of commands and what the README says it prints."""

    language: str
    text: str
    prints: str | None

    @property
    def watches(self) -> bool:
        """The step is for a terminal of its own: it does not end by itself."""
        return "/api/v1/watch" in self.text


def steps() -> list[Step]:
    """The tour's steps in order."""
    readme = (ROOT / "README.md").read_text()
    section = readme.split("## A five-minute tour\n")[1].split("\n## ")[0]
    blocks = _BLOCK.findall(section)
    following = [*blocks[1:], ("", "")]
    return [
        Step(language, text, printed if kind == "text" else None)
        for (language, text), (kind, printed) in zip(blocks, following, strict=True)
        if language != "text"
    ]


def masked(text: str) -> str:
    """The text without what differs from run to run: request ids and times."""
    return _CHANGING.sub("<changing>", text).strip()


def command(step: Step, url: str) -> list[str]:
    """How the step is run here: its address and its virtual environment are the test's."""
    text = step.text.replace(ADDRESS, url).replace(".venv/bin", str(Path(sys.executable).parent))
    if step.language == "python":
        return [sys.executable, "-c", text]
    return ["bash", "-e", "-o", "pipefail", "-c", text]


@contextmanager
def running(arguments: list[str]) -> Iterator[IO[str]]:
    """What a command prints, which is ended with the block."""
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """What ``make run`` starts, on a free port and with a log that machines read."""
    configuration = yaml.safe_load((ROOT / "examples" / "config.yaml").read_text())
    del configuration["logging"]["format"]
    configuration["notification_backend"]["jetstream"]["store_dir"] = str(tmp_path / "nats")
    configuration["lake"] = {"path": str(tmp_path / "lake"), "archive": "off"}
    with server_process(configuration, tmp_path) as process:
        yield process


def test_the_tour_works_as_written(server: ServerProcess) -> None:
    """Every command of the README's tour succeeds and prints what the README says."""
    watching, *others = steps()
    assert watching.watches
    assert watching.prints is not None
    assert len(others) >= 10
    with running(command(watching, server.url)) as watched:
        opening = "".join(watched.readline() for _ in watching.prints.splitlines())
        assert masked(opening) == masked(watching.prints)
        for step in others:
            done = subprocess.run(
                command(step, server.url), capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, f"{step.text}\n{done.stdout}{done.stderr}"
            if step.prints is not None:
                assert masked(done.stdout) == masked(step.prints), step.text
        events = [json.loads(data) for data in data_lines(watched, 2)]
    assert [event["sequence"] for event in events] == [1, 3]


def data_lines(stream: IO[str], count: int) -> list[str]:
    """The data of the next notifications."""
    found: list[str] = []
    while len(found) < count:
        line = stream.readline()
        assert line, "the stream ended"
        if "specversion" in line:
            found.append(line.removeprefix("data: "))
    return found


def test_the_example_client_reconnects_without_loss(tmp_path: Path) -> None:
    """``examples/follow.py`` prints each notification once, in order, over several connections."""
    rules: dict[str, Json] = {"connection_max_duration_sec": 1}
    with server_process(document({"watch_endpoint": rules}), tmp_path) as server:
        follow = [sys.executable, str(ROOT / "examples" / "follow.py"), server.url, "ev", "{}"]
        with running(follow) as printed:
            for connection in (1, 2, 3):
                server.printed(ESTABLISHED, times=connection)
                for _ in range(3):
                    _notify(server.url)
            events = [json.loads(printed.readline()) for _ in range(9)]
    assert [event["sequence"] for event in events] == list(range(1, 10))


def _notify(url: str) -> None:
    body = json.dumps({"event_type": "ev", "identifier": {"region": "n"}}).encode()
    with urlopen(Request(f"{url}/api/v1/notification", data=body), timeout=20) as response:  # noqa: S310
        assert response.status == 200
