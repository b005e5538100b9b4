"""The seam between history and live on JetStream, over real sockets.

A seeded simulation: publishers, watchers that come at any time with any start and filter, readers
that stall, deletions, and consumers that disappear on the NATS side. Queues, batches and the
memory tail are small, so that every switch between the tiers happens many times.
"""

import random
from functools import partial

import pytest
from support.jetstream import behind, lose_consumers, stormy
from support.nats import NatsServer
from support.simulation import STORED, Simulation
from support.storm import LAST

from aviso_server.core.json import Json


@pytest.mark.parametrize("seed", range(6))
async def test_every_watcher_gets_exactly_what_it_asked_for(
    seed: int, nats: NatsServer, account: dict[str, Json]
) -> None:
    """No gap, no duplicate, in order, history before live, whatever happens around."""
    chance = random.Random(seed)
    watch: dict[str, Json] = {
        "client_queue_size": chance.choice([1, 8, 100]),
        "replay_batch_size": chance.choice([3, 20]),
        "replay_batch_delay_ms": chance.choice([0, 1]),
    }
    tail = chance.choice([0, 20_000, 1 << 20])
    async with (
        stormy(nats, {"memory_tail_bytes": tail, **account}, watch=watch) as storm,
        behind(nats, account) as api,
    ):
        await storm.publisher().publish(LAST)
        await Simulation(seed, storm, partial(lose_consumers, api)).play()
        for watcher in storm.watchers:
            watcher.check_frames()
        assert sorted(storm.book.sent) == list(range(1, STORED + 3))
