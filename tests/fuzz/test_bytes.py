"""Damaged bytes over real connections: an answer or a close, no fault, no hang, no growth."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from support.config import document
from support.fuzz import examples, seed
from support.mutate import SEEDS, mutated, with_true_length
from support.process import ServerProcess, server_process
from support.raw import request

REQUESTS = examples(1500)
AT_ONCE = 60
PATIENCE_S = 60
"""Much more than the server gives a head and a body: whoever waits so long waits for ever."""
LONGEST = 100_000
GROWTH_BYTES = 96 * 2**20
"""Of resident memory, from the first quarter to the end. The log may have 8 MiB of it."""

_STATUS = re.compile(rb"^HTTP/1\.[01] ([0-9]{3}) ", re.MULTILINE)
_CLOSED = 0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that is quick to give up on what does not arrive."""
    configuration = document(
        {
            "application": {"head_timeout_seconds": 1, "body_timeout_seconds": 1},
            "notification_backend": {"in_memory": {"max_bytes": "8Mi"}},
        }
    )
    with server_process(configuration, tmp_path) as process:
        yield process


async def test_no_bytes_do_harm(server: ServerProcess) -> None:
    """Every connection is answered below 500, or closed; the log knows no failure."""
    number = seed()
    rng = Random(number)
    sent = [_drawn(rng) for _ in range(REQUESTS)]
    first, rest = sent[: REQUESTS // 4], sent[REQUESTS // 4 :]
    faults: list[tuple[int, bytes]] = []
    statuses = await _all_answered(server, first, faults)
    before = _resident(server)
    statuses += await _all_answered(server, rest, faults)
    grown = _resident(server) - before
    assert await _answer(server, request("GET", "/health")) == [200]
    assert not faults, f"seed {number}: {faults[:3]}"
    assert not server.faults, f"seed {number}"
    assert grown < GROWTH_BYTES, f"seed {number}"
    # A search that is always turned away at the door finds nothing behind it.
    assert statuses[200] > REQUESTS // 50
    assert statuses[400] > REQUESTS // 10


def _drawn(rng: Random) -> bytes:
    text = mutated(rng, rng.choice(SEEDS), SEEDS, longest=LONGEST)
    return with_true_length(text) if rng.random() < 0.7 else text


async def _all_answered(
    server: ServerProcess, sent: list[bytes], faults: list[tuple[int, bytes]]
) -> Counter[int]:
    statuses: Counter[int] = Counter()
    waiting = iter(sent)

    async def work() -> None:
        for text in waiting:
            for status in await _answer(server, text):
                statuses[status] += 1
                if status >= 500:
                    faults.append((status, text))

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
    return statuses


async def _answer(server: ServerProcess, text: bytes) -> list[int]:
    """The statuses of what came back for one connection; 0 where it was only closed."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    came = b""
    try:
        async with asyncio.timeout(PATIENCE_S):
            writer.write(text)
            # An answer is enough: a stream goes on, and a connection is kept for the next request.
            while b"\r\n\r\n" not in came.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b""):
                piece = await reader.read(65536)
                if not piece:
                    break
                came += piece
    except ConnectionError:
        pass  # closed while we were still sending
    except TimeoutError:
        raise AssertionError(f"neither answered nor closed: {text[:2000]!r}") from None
    finally:
        writer.close()
    return [int(status) for status in _STATUS.findall(came)] or [_CLOSED]


def _resident(server: ServerProcess) -> int:
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096
