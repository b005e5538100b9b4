"""What nats-py alone gets out of NATS: what a server that adds its own work is measured by.

The same embedded NATS server with every write synced, and the same messages, without anything of
ours in between. The server's share of a core is that of NATS, the client's that of nats-py.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count, cycle, islice
from pathlib import Path
from time import monotonic, process_time

import msgspec
import nats
import uvloop
from bench.figures import Figure, Run
from bench.served import CONFIG, cpu_s
from bench.wire import DISTINCT, fields
from nats.aio.client import Client
from nats.aio.msg import Msg
from structlog.testing import capture_logs

from aviso_server.backends.jetstream.answers import read_fields
from aviso_server.backends.jetstream.embedded import EmbeddedServer
from aviso_server.backends.jetstream.messages import MESSAGE_ID, Message, encode
from aviso_server.backends.jetstream.options import Embedded
from aviso_server.core.announcement import notification_of
from aviso_server.core.wire import parse_request
from aviso_server.settings import load

TIMEOUT_S = 30
STREAM = "MARS"


def bare(
    notifications: int, connections: int, runs: int, progress: Callable[[str], None]
) -> Iterator[Figure]:
    """Messages per second: single ones, atomic batches, and an ordered consumer that reads all."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, capture_logs():
        yield from runner.run(_measured(notifications, connections, runs, progress))


async def _measured(
    notifications: int, connections: int, runs: int, progress: Callable[[str], None]
) -> list[Figure]:
    figures = list[Figure]()
    async with _nats() as (client, pid):
        talk = _Talk(client)

        async def measure(name: str, act: Callable[[], Awaitable[int]]) -> None:
            progress(name)
            measured = [await _run(act, pid) for _ in range(runs + 1)]
            figures.append(Figure(f"bare nats-py, {name}", "msg/s", tuple(measured[1:])))

        alone = f"single messages, {connections} under way"
        await measure(alone, lambda: talk.single(notifications, connections))
        await measure("batches of 64", lambda: talk.batches(notifications, 64))
        await measure("batches of 500", lambda: talk.batches(notifications, 500))
        await measure("all read by an ordered consumer", talk.read)
    return figures


async def _run(act: Callable[[], Awaitable[int]], pid: int) -> Run:
    begun, own, theirs = monotonic(), process_time(), cpu_s(pid)
    items = await act()
    return Run(items, monotonic() - begun, cpu_s(pid) - theirs, (process_time() - own,))


@asynccontextmanager
async def _nats() -> AsyncIterator[tuple[Client, int]]:
    with tempfile.TemporaryDirectory() as store:
        server = await EmbeddedServer.start(Embedded(Path(store)))
        client = await nats.connect(server.url, token=server.token)
        try:
            config = {"name": STREAM, "subjects": ["mars.>"], "allow_atomic": True}
            _check(await _api(client, f"STREAM.CREATE.{STREAM}", config))
            assert server.pid is not None
            yield client, server.pid
        finally:
            await client.close()
            await server.stop()


class _Talk:
    """Publishes and reads as the documentation of nats-py does."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._messages = cycle(_messages())
        self._numbers = count()
        self._stored = 0

    async def single(self, messages: int, under_way: int) -> int:
        async def publish() -> None:
            for _ in range(messages // under_way):
                await self._publish({}, last=True)

        await asyncio.gather(*(publish() for _ in range(under_way)))
        return messages // under_way * under_way

    async def batches(self, messages: int, size: int) -> int:
        for _ in range(messages // size):
            batch = {"Nats-Batch-Id": f"b{next(self._numbers)}"}
            for place in range(1, size):
                await self._publish({**batch, "Nats-Batch-Sequence": str(place)}, last=False)
            end = {"Nats-Batch-Sequence": str(size), "Nats-Batch-Commit": "1"}
            await self._publish({**batch, **end}, last=True)
        return messages // size * size

    async def _publish(self, more: dict[str, str], *, last: bool) -> None:
        """Send a message; the last of a batch, or the only one, is answered."""
        message, key = next(self._messages), f"key-{next(self._numbers)}"
        headers = {**read_fields(message.head), MESSAGE_ID: key, **more}
        self._stored += 1
        if not last:
            await self._client.publish(message.subject, message.body, headers=headers)
            return
        ask = self._client.request
        answer = await ask(message.subject, message.body, timeout=TIMEOUT_S, headers=headers)
        _check(answer.data)

    async def read(self) -> int:
        seen, all_seen = 0, asyncio.Event()

        async def take(_: Msg) -> None:
            nonlocal seen
            seen += 1
            if seen == self._stored:
                all_seen.set()

        context = self._client.jetstream()
        reading = await context.subscribe("mars.>", stream=STREAM, ordered_consumer=True, cb=take)
        await asyncio.wait_for(all_seen.wait(), TIMEOUT_S)
        await reading.unsubscribe()
        return seen


async def _api(client: Client, name: str, body: object) -> bytes:
    asked = json.dumps(body).encode()
    return (await client.request(f"$JS.API.{name}", asked, timeout=TIMEOUT_S)).data


def _check(answer: bytes) -> None:
    if b'"error"' in answer:
        raise SystemExit(f"NATS refused: {answer.decode()}")


def _messages() -> list[Message]:
    """What a server would store for the load of the other parts."""
    loaded = load(config_file=CONFIG, environ={}, cwd=Path.cwd(), home=None)
    schema = loaded.catalogue.find("mars")
    asked = (parse_request(msgspec.json.encode(each)) for each in islice(fields(), DISTINCT))
    return [encode(schema, notification_of(schema, each), "") for each in asked]
