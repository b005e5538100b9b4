"""What a server loads to start, and what only when it is asked for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = Path(__file__).parents[2] / "examples" / "config.yaml"
SERVE = """
import asyncio, json, sys, threading
from pathlib import Path
from aiohttp import ClientSession
from aviso_server.cli import serve
from aviso_server.server.serve import serving
from aviso_server.settings import load

class Finder:
    loaded_in = None

    def find_spec(self, name, *_):
        if name == "numpy":
            self.loaded_in = threading.current_thread().name

async def main():
    settings = load(
        config_file=Path(sys.argv[1]), environ={}, cwd=Path.cwd(), home=None,
        overrides={
            "application": {"port": 0},
            "notification_backend": {"kind": "in_memory"},
            "lake": {"path": None, "archive": "off"},
        },
    )
    finder = Finder()
    sys.meta_path.insert(0, finder)
    async with serving(settings) as running:
        names = {name.partition(".")[0] for name in sys.modules}
        path, body = sys.argv[2:]
        if path:
            async with ClientSession() as client:
                async with client.post(running.url + path, data=body) as answer:
                    assert answer.status == 200, await answer.text()
        print(json.dumps([sorted(names), finder.loaded_in]), file=sys.stderr)

asyncio.run(main())
"""
UNUSED = {
    *("pyspark", "pyarrow", "deltalake", "numpy", "shapely", "rich", "pygments"),
    *("nats", "jwt", "cryptography", "prometheus_client", "opentelemetry"),
}
POINTS = ",".join(f"[{1 + n / 1000},{n % 2}]" for n in range(200))
AREA = f'{{"date":"20250706","time":"1200","polygon":[[0,0],{POINTS},[0,0]]}}'


def serve(path: str = "", body: str = "") -> tuple[set[str], str | None]:
    """What a server had loaded to start, and the thread that loaded numpy after a request."""
    done = subprocess.run(
        [sys.executable, "-c", SERVE, str(CONFIG), path, body],
        capture_output=True,
        text=True,
        check=True,
    )
    names, thread = json.loads(done.stderr)
    return set(names), thread


def test_a_server_loads_only_what_it_is_configured_to_use() -> None:
    """Without lake, JetStream, access control, metrics and export, none of their libraries.

    Event types with areas are configured, but arrays are for those who ask for some: an area that
    is announced needs none.
    """
    announced = f'{{"event_type":"test_polygon","identifier":{AREA},"payload":1}}'
    loaded, thread = serve("/api/v1/notification", announced)
    assert "aiohttp" in loaded
    assert not UNUSED & loaded
    assert thread is None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("watch", f'{{"event_type":"test_polygon","identifier":{AREA}}}'),
        ("watch", '{"event_type":"extreme_event","identifier":{"severity":{"gte":4}}}'),
        ("notifications", '{"event_type":"extreme_event"}\n{"event_type":"extreme_event"}'),
    ],
    ids=["area", "range", "lines"],
)
def test_what_takes_long_to_load_is_loaded_in_a_thread(path: str, body: str) -> None:
    """The event loop does not wait for it, and who asks for it does."""
    _, thread = serve(f"/api/v1/{path}", body)
    assert thread is not None
    assert thread.startswith("aviso-aside")
