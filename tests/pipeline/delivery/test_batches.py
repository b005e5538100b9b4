"""How much at a time, and how fast."""

from dataclasses import dataclass
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.pipeline.delivery import batches as batching
from aviso_server.pipeline.delivery.batches import SendingPace, batches


@dataclass(frozen=True)
class Item:
    """Something with a body."""

    body: bytes


@given(st.lists(st.integers(0, 700), max_size=30), st.integers(1, 6))
def test_requests_are_bounded_in_number_and_bytes(sizes: list[int], most: int) -> None:
    """Nothing is lost or moved; no batch could have taken the next item; a large one goes alone."""
    items = [Item(b"x" * size) for size in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "MAX_BATCH_BYTES", 500)
        made = list(batches(items, most))
    assert [item for batch in made for item in batch] == items
    used = [sum(len(item.body) + 1 for item in batch) for batch in made]
    for number, batch in enumerate(made):
        assert 1 <= len(batch) <= most
        assert used[number] <= 500 or len(batch) == 1
        if number + 1 < len(made):
            assert len(batch) == most or used[number] + len(made[number + 1][0].body) + 1 > 500


def test_the_rate_is_held() -> None:
    """30 notifications at 1000 a second take 20 ms before the last ten are sent."""
    begun = monotonic()
    pace = SendingPace(1000)
    for _ in range(3):
        pace.wait(10)
    assert monotonic() - begun >= 0.02
    SendingPace(None).wait(10**9)
    SendingPace(0.001).wait(0)
