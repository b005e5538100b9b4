"""The soak of the benchmark, in small."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

# The benchmark is not installed; it is run from the repository.
sys.path.append(str(Path(__file__).parents[1]))

from bench.census import MEBIBYTE, Census
from bench.figures import Failed
from bench.scenarios import SCENARIOS, Amounts
from bench.soak import soak

SMALL = Amounts(seconds=1, watchers=40, churn=50, rate=50, callers=60, cycles=60, slow=10)
BEFORE = Census(memory_bytes=100 * MEBIBYTE, descriptors=17, tasks=9, consumers=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_server_ends_where_it_began(name: str, tmp_path: Path) -> None:
    """Nothing is lost, repeated or left over, and there is a picture of it."""
    items = list(soak([name], SMALL, tmp_path, lambda _: None))
    assert [item for item in items if isinstance(item, Failed)] == []
    assert {
        f"{name}: {what}, after" for what in ("memory", "descriptors", "tasks", "consumers")
    } <= {item.name for item in items}
    assert "<path" in (tmp_path / f"soak-{name}.svg").read_text()


@pytest.mark.parametrize(
    ("what", "left", "fault"),
    [
        ("memory_bytes", 130 * MEBIBYTE, "memory ends at 130 MiB, at most 122 expected"),
        ("descriptors", 18, "descriptors end at 18, began at 17"),
        ("tasks", 10, "tasks end at 10, began at 9"),
        ("consumers", 2, "consumers end at 2, began at 1"),
    ],
)
def test_what_is_left_over_is_a_failure(what: str, left: int, fault: str) -> None:
    """Each kind separately; less than before is none."""
    assert list(replace(BEFORE, **{what: left}).beyond(BEFORE)) == [fault]
    assert list(BEFORE.beyond(replace(BEFORE, **{what: left}))) == []
