"""Load for minutes: what the server does meanwhile, and whether it ends where it began.

Each scenario has a fresh server and a NATS server of its own, on loopback. Memory, descriptors,
tasks and consumers are counted when the server is warm and nobody is there, and again when
everybody has left; what is left over is a failure, as are lost or repeated notifications.
"""

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import nats
import uvloop
from bench.census import raise_file_limit
from bench.figures import Failed, Value
from bench.plots import Track
from bench.scenarios import SCENARIOS, Amounts, Load, World
from bench.served import Conditions, Served, served
from support.nats import nats_server

from aviso_server.core.json import Json


def soak(
    names: Sequence[str], amounts: Amounts, pictures: Path, progress: Callable[[str], None]
) -> Iterator[Value | Failed]:
    """Run the scenarios asked for, or all; a picture of each goes to a folder."""
    raise_file_limit()
    for name in names or SCENARIOS:
        if name not in SCENARIOS:
            raise SystemExit(f"no scenario {name}; there are {', '.join(SCENARIOS)}")
        progress(f"soak, {name}")
        track = Track()
        with tempfile.TemporaryDirectory() as folder:
            for item in _run(name, SCENARIOS[name], amounts, track, Path(folder)):
                yield replace(item, name=f"{name}: {item.name}")
        track.draw(pictures / f"soak-{name}.svg")


def _run(
    name: str, load: Load, amounts: Amounts, track: Track, folder: Path
) -> list[Value | Failed]:
    # As the embedded one: what is acknowledged is on disk.
    stored: dict[str, Json] = {
        "jetstream": {"store_dir": str(folder / "store"), "sync_interval": "always"}
    }
    with nats_server(folder, stored) as log:
        conditions = Conditions(backend="jetstream", nats_url=log.url, returns_memory=True)
        with (
            served(conditions, name) as server,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            return runner.run(_measured(load, server, log.url, amounts, track))


async def _measured(
    load: Load, server: Served, url: str, amounts: Amounts, track: Track
) -> list[Value | Failed]:
    client = await nats.connect(url)
    try:
        return [item async for item in load(World(server, client.jetstream(), amounts, track))]
    finally:
        await client.close()
