"""What a server loads to start."""

import json
import subprocess
import sys
from pathlib import Path

CONFIG = Path(__file__).parents[2] / "examples" / "config.yaml"
SERVE = """
import asyncio, json, sys
from pathlib import Path
from aviso_server.cli import serve
from aviso_server.server.serve import serving
from aviso_server.settings import load

async def main():
    settings = load(
        config_file=Path(sys.argv[1]), environ={}, cwd=Path.cwd(), home=None,
        overrides={
            "application": {"port": 0},
            "notification_backend": {"kind": "in_memory"},
            "lake": {"path": None, "archive": "off"},
        },
    )
    async with serving(settings):
        names = {name.partition(".")[0] for name in sys.modules}
        print(json.dumps(sorted(names)), file=sys.stderr)

asyncio.run(main())
"""
UNUSED = {
    *("pyspark", "pyarrow", "deltalake"),
    *("nats", "jwt", "cryptography", "prometheus_client", "opentelemetry"),
}


def test_a_server_loads_only_what_it_is_configured_to_use() -> None:
    """Without lake, JetStream, access control, metrics and export, none of their libraries."""
    done = subprocess.run(
        [sys.executable, "-c", SERVE, str(CONFIG)], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stderr))
    assert "aiohttp" in loaded
    assert not UNUSED & loaded
