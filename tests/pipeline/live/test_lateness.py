"""When a cycle is late: whatever the micro-batches, the verdict is the same."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from aviso_server.pipeline.live.lateness import Cycle, Lateness, find_lateness


def test_a_part_in_time_is_not_late() -> None:
    """Stored exactly when it was due is in time; the first storage counts."""
    cycle, lateness = find_lateness(
        Cycle(), [("0", 10), ("0", 25), ("6", 20)], [("0", 10), ("6", 20)]
    )
    assert lateness is None
    assert cycle == Cycle({"0": 10, "6": 20})


def test_a_cycle_is_late_once() -> None:
    """The first due time that is missed makes the alert, and lists all that is missing then."""
    cycle, lateness = find_lateness(
        Cycle(), [("0", 5)], [("12", 30), ("0", 10), ("6", 20), ("3", 20)]
    )
    assert lateness == Lateness(20, ("3", "6"), arrived=1)
    again, silent = find_lateness(cycle, [("6", 26)], [("12", 30)])
    assert silent is None
    assert again == Cycle({"0": 5, "6": 26}, late=True)


def test_a_part_that_came_after_it_was_due_was_late() -> None:
    """Also if it is there when the question is asked, such as after a restart."""
    _, lateness = find_lateness(Cycle(), [("0", 11)], [("0", 10)])
    assert lateness == Lateness(10, ("0",), arrived=0)


_parts = st.sampled_from("abc")


@given(
    st.lists(st.tuples(_parts, st.integers(0, 20)), max_size=8),
    st.dictionaries(_parts, st.integers(0, 20)),
    st.lists(st.integers(0, 20), max_size=3),
)
def test_micro_batches_do_not_matter(
    arrivals: Sequence[tuple[str, int]], dues: dict[str, int], cuts: list[int]
) -> None:
    """Told in one go or cut anywhere in time: the same alert, at most once."""
    _, whole = find_lateness(Cycle(), arrivals, dues.items())
    found, cycle, before = [], Cycle(), -1
    for cut in [*sorted(cuts), 20]:
        cycle, lateness = find_lateness(
            cycle,
            [item for item in arrivals if before < item[1] <= cut],
            [item for item in dues.items() if before < item[1] <= cut],
        )
        found += [] if lateness is None else [lateness]
        before = cut
    assert found == ([] if whole is None else [whole])
