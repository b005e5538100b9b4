"""Install the wheel in dist/ into an empty environment and let a server from it store and replay.

Nothing of the source tree is used: what the package forgets to bring along is missing here too.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import yaml

ROOT = Path(__file__).parents[1]
NOTIFICATION = {
    "event_type": "extreme_event",
    "identifier": {"region": "north", "run_time": "12:00", "severity": 4, "anomaly": 42.5},
}
REPLAY = {"event_type": "extreme_event", "identifier": {}, "from_id": "1"}


def installed(folder: Path) -> Path:
    """The command of an environment that has the wheel and what it asks for, as pinned."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    pinned = ("--constraint", ROOT / "requirements.lock")
    subprocess.run([uv, "pip", "install", "--quiet", "-p", python, *pinned, wheel], check=True)
    return folder / "bin" / "aviso-server"


@contextmanager
def serving(command: Path, folder: Path) -> Iterator[str]:
    """The address of a server with its own NATS; it must end well when told to."""
    config = yaml.safe_load((ROOT / "examples" / "config.yaml").read_text())
    config["notification_backend"]["jetstream"]["store_dir"] = str(folder / "nats")
    for section in ("lake", "logging"):
        config.pop(section, None)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    arguments = ("serve", "--config", folder / "config.yaml", "--port", "0")
    server = subprocess.Popen([command, *arguments], cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        started = next(line for line in server.stdout if "startup.server.started" in line)
        yield json.loads(started)["attributes"]["swagger_url"].removesuffix("/swagger-ui/")
        server.terminate()
        server.communicate(timeout=30)
        assert server.returncode == 0, f"the server ended with {server.returncode}"
    finally:
        server.kill()
        server.wait()


def asked(url: str, body: object) -> str:
    """What the server answers."""
    with urlopen(url, json.dumps(body).encode(), timeout=30) as answer:  # noqa: S310 - our own
        return str(answer.read().decode())


def main() -> None:
    """Build nothing: that is done."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = installed(folder / "environment")
        version = subprocess.check_output([command, "--version"], text=True).strip()
        with serving(command, folder) as url:
            asked(f"{url}/api/v1/notification", NOTIFICATION)
            assert '"region":"north"' in asked(f"{url}/api/v1/replay", REPLAY)
            with urlopen(f"{url}/", timeout=30) as page:  # noqa: S310 - our own
                assert b"<title>" in page.read()
    print(f"{version}: installed from the wheel, stored and replayed")


if __name__ == "__main__":
    main()
