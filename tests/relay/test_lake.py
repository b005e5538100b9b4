"""How far the archive is behind the log."""

from itertools import count
from pathlib import Path

from support.lake import filled, record

from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import Place
from aviso_server.relay.lake import behind


async def test_what_waits_is_counted_over_all_event_types(tmp_path: Path) -> None:
    """What retention removed before anything was archived does not wait for anybody."""
    clock = count(1)
    log = MemoryBackend(MemoryLimits(max_messages=8), now_ns=lambda: next(clock))
    for number in range(1, 6):
        await log.append(record(number, "mars").notification, key=f"m{number}")
    for number in range(1, 6):
        await log.append(record(number, "storm").notification, key=f"s{number}")
    lake = Lake(Place(str(tmp_path)))
    assert (await log.bounds("mars")).first == 3
    assert await behind(lake, log, ["mars", "storm", "never"]) == 8
    filled(Place(str(tmp_path)), [record(n, "mars") for n in (3, 4)])
    filled(Place(str(tmp_path)), [record(n, "storm") for n in range(1, 6)])
    await lake.bounds("mars", fresh=True)
    assert await behind(lake, log, ["mars", "storm", "never"]) == 1
    await lake.close()
