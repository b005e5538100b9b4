"""Group commit on a real NATS: who goes together, and what becomes of a batch that fails."""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
from backends.contract import append, notification, read_all
from backends.jetstream.conftest import BRISK, Opener, backend_with, brisk, config_of
from support.cable import cable
from support.fuzz import LONG_FAULTS
from support.nats import NatsServer, nats_cluster, nats_server

from aviso_server.backends.backend import Outcome, Receipt
from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.jetstream.lanes import LARGEST_BYTES, MOST, TOGETHER
from aviso_server.core.errors import AvisoError, NoBatches, SetupFailed, StorageFailed
from aviso_server.core.json import Json
from aviso_server.core.notification import Notification, Record

PATIENT = replace(BRISK, ack_s=60)
"""No second copies, reported as repeats: on a busy machine an answer may take long."""


def items(count: int, prefix: str = "k", begin: int = 0) -> list[tuple[Notification, str]]:
    """Notifications and their keys."""
    return [(notification(payload=n), f"{prefix}/{n}") for n in range(begin, begin + count)]


async def payloads(backend: JetStreamBackend) -> list[bytes]:
    """What is stored, in its order; the sequences have no hole."""
    bounds = await backend.bounds("ev")
    entries = await read_all(backend, 1, bounds.last, limit=500)
    assert [entry.sequence for entry in entries] == list(range(1, bounds.last + 1))
    return [entry.notification.payload for entry in entries if isinstance(entry, Record)]


async def change(backend: JetStreamBackend, **settings: bool) -> None:
    """Change the stream behind the server's back."""
    await backend._connection.call("STREAM.UPDATE.EV", {**await config_of(backend), **settings})


def sequences(outcomes: Sequence[Outcome]) -> list[int]:
    """Of those that were all stored."""
    return [outcome.sequence for outcome in outcomes if isinstance(outcome, Receipt)]


async def test_few_go_alone_and_many_together(opened: Opener) -> None:
    """A few at a time are single messages; what waits behind them is one batch."""
    backend = await opened(pace=PATIENT)
    await append(backend, 3)
    assert backend.batches.stored == 0
    receipts = await asyncio.gather(
        *(backend.append(note, key=key) for note, key in items(TOGETHER * 4))
    )
    assert sorted(receipt.sequence for receipt in receipts) == list(range(4, 4 + TOGETHER * 4))
    assert (backend.batches.stored, backend.batches.notifications) == (1, TOGETHER * 3)


async def test_a_request_of_many_is_stored_in_its_order(opened: Opener) -> None:
    """As batches, and as what they leave; across event types each by itself."""
    backend = await opened(pace=PATIENT)
    await append(backend, 1)  # makes the stream known
    count = MOST + 3
    asked = [*items(count), (notification(payload=0, event_type="other"), "d")]
    outcomes = await backend.append_many(asked)
    assert sequences(outcomes) == [*range(2, count + 2), 1]
    assert await payloads(backend) == [b"0", *(b"%d" % n for n in range(count))]
    assert (backend.batches.stored, backend.batches.notifications) == (1, MOST)


async def test_a_repeat_spoils_the_batch_and_nothing_else(opened: Opener) -> None:
    """NATS refuses a batch with a known id as a whole; the others then go as a batch of theirs."""
    backend = await opened(pace=PATIENT)
    await backend.append(notification(payload="first"), key="k/7")
    outcomes = await backend.append_many(items(40))
    assert outcomes[7] == Receipt(1, repeated=True)
    assert sequences(outcomes) == [*range(2, 9), 1, *range(9, 41)]
    batches = backend.batches
    assert (batches.stored, batches.notifications, batches.failed) == (1, 39, 1)
    again = await backend.append_many(items(40))
    assert all(isinstance(outcome, Receipt) and outcome.repeated for outcome in again)
    assert sequences(again) == sequences(outcomes)


async def test_the_same_key_twice_is_stored_once(opened: Opener) -> None:
    """Two of a batch cannot have one id: the second goes alone, after the first."""
    backend = await opened(pace=PATIENT)
    await append(backend, 1)
    asked = items(40)
    outcomes = await backend.append_many([*asked, *asked[:5]])
    assert outcomes[40:] == [Receipt(n, repeated=True) for n in range(2, 7)]
    assert (backend.batches.stored, backend.batches.failed) == (1, 0)


async def test_a_large_notification_goes_alone(opened: Opener) -> None:
    """And the others go without it."""
    backend = await opened(pace=PATIENT)
    await append(backend, 1)
    large = (notification(payload="x" * LARGEST_BYTES), "large")
    outcomes = await backend.append_many([*items(20), large])
    assert sorted(sequences(outcomes)) == list(range(2, 23))
    assert backend.batches.notifications == 20


async def test_what_nats_never_takes_is_refused_alone(opened: Opener) -> None:
    """One that is over the limit of NATS does not keep the others."""
    backend = await opened(pace=PATIENT)
    await append(backend, 1)
    outcomes = await backend.append_many(
        [*items(20), (notification(payload="x" * 1_100_000), "huge")]
    )
    assert sequences(outcomes) == list(range(2, 22))
    assert isinstance(outcomes[20], StorageFailed)
    assert "exceeds the limit" in outcomes[20].details


async def test_a_stream_that_takes_no_batches(opened: Opener) -> None:
    """Someone has switched them off: everything is stored as before, and nothing is tried again."""
    backend = await opened(pace=PATIENT)
    await append(backend, 1)
    await change(backend, allow_atomic=False)
    assert sequences(await backend.append_many(items(40))) == list(range(2, 42))
    assert sequences(await backend.append_many(items(40, "l"))) == list(range(42, 82))
    assert (backend.batches.stored, backend.batches.failed) == (0, 1)
    with pytest.raises(NoBatches):
        await backend.append_together(items(3, "m"))


async def test_an_older_stream_gets_batches(opened: Opener) -> None:
    """A stream that an earlier version made is updated when it is first used."""
    backend = await opened(pace=PATIENT)
    await append(backend, 1)
    await change(backend, allow_atomic=False)
    other = await opened(pace=PATIENT)
    assert (await config_of(other))["allow_atomic"] is True
    assert sequences(await other.append_many(items(40))) == list(range(2, 42))
    assert other.batches.stored == 1


async def test_a_stream_that_is_removed(opened: Opener) -> None:
    """It is made again, and its sequences continue."""
    backend = await opened(pace=PATIENT)
    await append(backend, 3)
    await backend._connection.call("STREAM.DELETE.EV")
    assert sequences(await backend.append_many(items(40))) == list(range(4, 44))


async def test_a_smaller_limit_of_nats_is_found(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Batches become as small as the operator of NATS wants them; nothing is refused for it."""
    folder = tmp_path_factory.mktemp("nats")
    limits: Json = {"batch": {"max_msgs": 100}}
    settings: Json = {"store_dir": str(folder / "store"), "limits": limits}
    with nats_server(folder, {"jetstream": settings}) as server:
        async with backend_with(replace(brisk(server.url), pace=PATIENT)) as backend:
            await append(backend, 1)
            for begin in range(0, 2000, 500):
                await backend.append_many(items(500, begin=begin))
            assert backend.batches.failed == 3  # 500, 250, 125
            assert backend.batches.stored >= 5
            assert len(await payloads(backend)) == 2001


async def test_whoever_leaves_does_not_take_others_along(opened: Opener) -> None:
    """A caller that is cancelled while it waits is left out; all others are stored."""
    backend = await opened(pace=PATIENT)
    await append(backend, 1)
    waiting = [
        asyncio.ensure_future(backend.append(note, key=key)) for note, key in items(TOGETHER * 4)
    ]
    await asyncio.sleep(0)
    gone = waiting[TOGETHER + 5 : TOGETHER + 15]
    for one in gone:
        one.cancel()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert sum(isinstance(outcome, Receipt) for outcome in outcomes) == TOGETHER * 4 - 10
    assert len(await payloads(backend)) == 1 + TOGETHER * 4 - 10
    assert backend.batches.notifications == TOGETHER * 3 - 10


async def test_closing_answers_whoever_waits(opened: Opener) -> None:
    """A shutdown leaves nobody waiting."""
    backend = await opened(pace=PATIENT)
    await append(backend, 1)
    waiting = [asyncio.ensure_future(backend.append(note, key=key)) for note, key in items(100)]
    await asyncio.sleep(0)
    await backend.close()
    async with asyncio.timeout(30):
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(outcome, Receipt | StorageFailed) for outcome in outcomes)


async def test_together_is_all_or_none(opened: Opener) -> None:
    """Stored as one; again it is the same; with some of it known nothing is stored."""
    backend = await opened(pace=PATIENT)
    assert sequences(await backend.append_together(items(5))) == [1, 2, 3, 4, 5]  # type: ignore[arg-type]
    again = await backend.append_together(items(5))
    assert again == [Receipt(n, repeated=True) for n in range(1, 6)]
    some = await backend.append_together(items(5, begin=3))
    assert some == [Receipt(4, repeated=True), Receipt(5, repeated=True), None, None, None]
    assert len(await payloads(backend)) == 5
    # Asking which are known has left no trace.
    assert sequences(await backend.append_many(items(3, begin=5))) == [6, 7, 8]


@pytest.mark.slow
async def test_a_replicated_stream(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Three copies: the same batches, repeats and answers, also while the leader changes."""
    with nats_cluster(tmp_path_factory.mktemp("cluster")) as servers:
        options = brisk(*(server.url for server in servers))
        options = replace(
            options,
            retry_attempts=50,
            publish_retry_attempts=9,
            streams=replace(options.streams, replicas=3),
        )
        async with backend_with(options) as backend:
            assert sequences(await backend.append_many(items(200))) == list(range(1, 201))
            assert sequences(await backend.append_together(items(5, "t"))) == [*range(201, 206)]  # type: ignore[arg-type]
            some = await backend.append_together(items(5, "t", begin=3))
            assert [item and item.sequence for item in some] == [204, 205, None, None, None]
            assert sequences(await backend.append_many(items(3, "t", begin=5))) == [206, 207, 208]
            storing = [
                asyncio.ensure_future(backend.append_many(items(100, f"c{n}"))) for n in range(10)
            ]
            await backend._connection.call("STREAM.LEADER.STEPDOWN.EV")
            found = sequences([item for some in await asyncio.gather(*storing) for item in some])
            assert sorted(found) == list(range(209, 1209))
            assert len(await payloads(backend)) == 1208
            assert backend.batches.stored >= 2


# What is acknowledged is stored, once; what is stored was acknowledged or is unknown.


Harms = Sequence[Callable[[], Awaitable[None]]]


@asynccontextmanager
async def harmed_line(server: NatsServer) -> AsyncIterator[tuple[str, Harms]]:
    """The address of a connection that breaks at any moment, or hangs for a while."""
    async with cable(server.port) as line:

        async def cut() -> None:
            line.cut()
            line.mend()

        async def hang() -> None:
            line.hang()
            await asyncio.sleep(1.2)
            line.mend()

        yield f"nats://127.0.0.1:{line.port}", (cut, cut, hang)


@asynccontextmanager
async def harmed_server(server: NatsServer) -> AsyncIterator[tuple[str, Harms]]:
    """The address of a server that is killed at any moment, or hangs for a while."""

    async def kill() -> None:
        server.kill()
        await asyncio.to_thread(server.start)

    async def pause() -> None:
        server.pause()
        await asyncio.sleep(1.2)
        server.resume()

    yield server.url, (kill, kill, pause)


async def last_of(backend: JetStreamBackend) -> int:
    """The last sequence, once the last harm is overcome; it may be noticed only now."""
    while True:
        await backend._connection.until_connected(30)
        try:
            return (await backend.bounds("ev")).last
        except SetupFailed:
            continue


@pytest.mark.slow
@pytest.mark.parametrize("harmed", [harmed_line, harmed_server])
@pytest.mark.parametrize("seed", range(8 if LONG_FAULTS else 1))
async def test_the_acknowledged_set_is_the_stored_set(
    own: NatsServer,
    harmed: Callable[[NatsServer], AbstractAsyncContextManager[tuple[str, Harms]]],
    seed: int,
) -> None:
    """Concurrent appends with repeated keys while connections break and NATS is killed.

    Every key that was acknowledged is stored at the sequence of its receipt, no key is stored
    twice, and what is stored besides was sent and reported as failed.
    """
    draw = random.Random(seed)
    pace = replace(BRISK, ack_s=1)
    async with AsyncExitStack() as stack:
        url, harms = await stack.enter_async_context(harmed(own))
        options = replace(brisk(url), publish_retry_attempts=2, pace=pace)
        backend = await stack.enter_async_context(backend_with(options))
        await append(backend, 1)
        receipts: dict[str, int] = {}
        fresh = itertools.count()
        failed: set[str] = set()

        async def send() -> None:
            """One caller: singly or many, with new and with old keys."""
            for _ in range(12):
                count = draw.choice([1, 1, 3, 20, 60])
                # Most requests have new keys; one repeated key spoils a whole batch.
                old = draw.random() < 0.1
                keys = [str(draw.randrange(1500) if old else next(fresh)) for _ in range(count)]
                asked = [(notification(payload=key), f"a/{key}") for key in keys]
                if count == 1:
                    [found] = await asyncio.gather(
                        backend.append(*asked[0][:1], key=asked[0][1]), return_exceptions=True
                    )
                    outcomes: Sequence[object] = [found]
                else:
                    outcomes = await backend.append_many(asked)
                for key, outcome in zip(keys, outcomes, strict=True):
                    if isinstance(outcome, Receipt):
                        assert receipts.setdefault(key, outcome.sequence) == outcome.sequence
                    else:
                        assert isinstance(outcome, AvisoError)
                        failed.add(key)
                await asyncio.sleep(draw.uniform(0, 0.05))

        async with asyncio.timeout(240):
            callers = asyncio.gather(*(send() for _ in range(40)))
            while not callers.done():
                await asyncio.sleep(draw.uniform(0.3, 1))
                await draw.choice(harms)()
            await callers
            last = await last_of(backend)
        # On a busy machine few get through; but they went together.
        assert backend.batches.stored + backend.batches.failed > 1
        entries = await read_all(backend, 2, last, limit=500)
        stored = {
            entry.notification.payload.decode().strip('"'): entry.sequence
            for entry in entries
            if isinstance(entry, Record)
        }
        assert len(stored) == len(entries), Counter(e.sequence for e in entries)
        assert [entry.sequence for entry in entries] == list(range(2, len(entries) + 2))
        assert receipts.items() <= stored.items()
        assert stored.keys() - receipts.keys() <= failed
