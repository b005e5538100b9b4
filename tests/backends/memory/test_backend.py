"""The in-memory backend: the shared contract, and its own limits."""

from collections.abc import AsyncIterator
from itertools import count

import pytest
from backends.contract import BackendContract, append, notification, read_all
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.backends.backend import Bounds
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.backends.memory.keys import WINDOW_NS
from aviso_server.core import footprint
from aviso_server.core.errors import StorageFailed


class Ticking:
    """A clock that moves by a microsecond whenever it is read, and that tests put ahead."""

    def __init__(self) -> None:
        self._ticks = count(1_700_000_000_000_000_000, 1000)
        self.ahead_ns = 0

    def __call__(self) -> int:
        return next(self._ticks) + self.ahead_ns


def backend_with(**limits: int) -> MemoryBackend:
    """A backend with these limits."""
    return MemoryBackend(MemoryLimits(**limits), now_ns=Ticking())


class TestContract(BackendContract):
    """The shared contract."""

    @pytest.fixture
    async def backend(self) -> AsyncIterator[MemoryBackend]:
        """A fresh backend."""
        backend = backend_with()
        yield backend
        await backend.close()


async def test_the_oldest_go_first_over_all_streams() -> None:
    """Over max_messages the oldest by storage time go, from whichever stream holds them."""
    backend = backend_with(max_messages=3)
    await append(backend, 2)
    await append(backend, 2, "made_up")
    assert await backend.bounds("ev") == Bounds(2, 2, lost=1)
    assert await backend.bounds("made_up") == Bounds(1, 2)


async def test_the_byte_budget_counts_what_is_taken() -> None:
    """Over max_bytes the oldest go too; keys that are remembered count with the rest."""
    size = footprint.of_notification(notification(payload=0))
    backend = backend_with(max_bytes=3 * size + 5 * footprint.of_key("ev-0"))
    await append(backend, 5)
    assert await backend.bounds("ev") == Bounds(3, 5, lost=2)
    assert backend.total_bytes <= 3 * size + 5 * footprint.of_key("ev-0")


async def test_keys_leave_room_for_notifications() -> None:
    """Keys take at most half of the budget: beyond it the oldest are forgotten."""
    backend = backend_with(max_bytes=100_000)
    for number in range(300):
        await backend.append(notification(payload=number), key=f"{number:0300}")
    assert backend.total_bytes <= 100_000
    bounds = await backend.bounds("ev")
    assert bounds.last - bounds.first + 1 >= 50
    assert (await backend.append(notification(), key=f"{299:0300}")).repeated
    assert not (await backend.append(notification(), key=f"{0:0300}")).repeated


async def test_a_notification_over_the_budget_is_refused() -> None:
    """A single notification larger than max_bytes is a storage failure and takes no sequence."""
    backend = backend_with(max_bytes=2000)
    with pytest.raises(StorageFailed):
        await backend.append(notification(payload="x" * 2000), key="big")
    assert await append(backend, 1) == [1]


async def test_keep_latest_per_topic() -> None:
    """max_history_per_topic keeps the newest n of each exact topic; the rest are holes."""
    backend = backend_with(max_history_per_topic=1)
    for number, region in enumerate("abaab"):
        await backend.append(notification({"region": region}), key=str(number))
    assert [e.sequence for e in await read_all(backend, 1, 5)] == [4, 5]
    assert (await backend.bounds("ev")).lost == 0


async def test_max_topics_gives_up_the_stalest_topic() -> None:
    """max_topics: the topic whose newest notification is oldest goes with all its notifications."""
    backend = backend_with(max_topics=2)
    for number, region in enumerate("abac"):
        await backend.append(notification({"region": region}), key=str(number))
    assert [e.sequence for e in await read_all(backend, 1, 4)] == [1, 3, 4]


async def test_keys_are_forgotten_after_the_window() -> None:
    """After 120 s the same key stores again."""
    clock = Ticking()
    backend = MemoryBackend(MemoryLimits(), now_ns=clock)
    await backend.append(notification(), key="k")
    clock.ahead_ns = WINDOW_NS + 1_000_000
    again = await backend.append(notification(), key="k")
    assert (again.sequence, again.repeated) == (2, False)


async def test_a_clock_that_goes_back_does_not_reorder() -> None:
    """Stamps are the larger of the clock and the previous stamp."""
    clock = Ticking()
    backend = MemoryBackend(MemoryLimits(), now_ns=clock)
    await append(backend, 2)
    clock.ahead_ns = -3_600_000_000_000
    await backend.append(notification(payload="late"), key="late")
    times = [e.stored_at_ns for e in await read_all(backend, 1, 3)]
    assert times == sorted(times)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.sampled_from("abc")),
            st.tuples(st.just("delete"), st.integers(1, 30)),
            st.tuples(st.just("wipe"), st.just(0)),
        ),
        max_size=40,
    ),
    st.integers(1, 12),
)
async def test_a_log_is_what_a_list_would_be(
    steps: list[tuple[str, str | int]], budget: int
) -> None:
    """Model check: appends, deletes, wipes and evictions agree with a plain dictionary."""
    backend = backend_with(max_messages=budget)
    kept: dict[int, str] = {}
    last = 0
    for number, (action, value) in enumerate(steps):
        if action == "append":
            last += 1
            kept[last] = str(value)
            await backend.append(notification({"region": str(value)}), key=str(number))
            while len(kept) > budget:
                del kept[min(kept)]
        elif action == "delete":
            assert await backend.delete("ev", int(value)) == (
                kept.pop(int(value), None) is not None
            )
        else:
            assert await backend.wipe("ev") == len(kept)
            kept.clear()
    bounds = await backend.bounds("ev")
    assert (bounds.first, bounds.last) == (min(kept, default=last + 1), last)
    entries = await read_all(backend, 1, last, limit=3)
    assert {e.sequence: e.notification.identifier["region"] for e in entries} == kept  # type: ignore[union-attr]
