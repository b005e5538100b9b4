"""The seam between history and live on the memory backend, over real sockets.

The same seeded simulation as on JetStream: publishers, watchers that come at any time with any
start and filter, readers that stall, deletions. Queues and batches are small.
"""

import random

import pytest
from support.config import settings
from support.server import connected
from support.simulation import STORED, Simulation
from support.storm import LAST, SCHEMA, weather


@pytest.mark.parametrize("seed", range(100, 108))
async def test_every_watcher_gets_exactly_what_it_asked_for(seed: int) -> None:
    """No gap, no duplicate, in order, history before live, whatever happens around."""
    chance = random.Random(seed)
    chosen = settings(
        {
            "watch_endpoint": {
                "sse_heartbeat_interval_sec": 1,
                "client_queue_size": chance.choice([1, 8, 100]),
                "replay_batch_size": chance.choice([3, 20]),
            }
        },
        schemas={"storm": SCHEMA},
    )
    async with connected(chosen) as server, weather(server.running.url) as storm:
        await storm.publisher().publish(LAST)
        await Simulation(seed, storm).play()
        for watcher in storm.watchers:
            watcher.check_frames()
        assert sorted(storm.book.sent) == list(range(1, STORED + 3))
