"""How much there is and how fast it comes, from what the tiers tell."""

from hypothesis import given
from hypothesis import strategies as st

from aviso_server.backends.backend import Bounds
from aviso_server.lake.bounds import LakeBounds
from aviso_server.relay.recent import Recent
from aviso_server.relay.totals import (
    WINDOWS_S,
    Archived,
    Logged,
    Retention,
    TierBounds,
    known,
    totals,
)

UNLIMITED = Retention()


def logged(bounds: Bounds, *since: int, newest_ns: int | None = None) -> Logged:
    return Logged(bounds, since or (bounds.last + 1,) * len(WINDOWS_S), newest_ns)


@st.composite
def pasts(draw: st.DrawFn) -> tuple[Bounds, LakeBounds, set[int]]:
    """Log and lake, and the sequences that a replay would find in them."""
    last = draw(st.integers(0, 30))
    first = draw(st.integers(1, last + 1))
    holes = (
        set(draw(st.lists(st.integers(first + 1, last), unique=True))) if first < last else set()
    )
    through = draw(st.integers(0, last))
    begin = draw(st.integers(1, through + 1))
    cuts = sorted(set(draw(st.lists(st.integers(1, max(1, through)), max_size=6))))
    lost = [pair for pair in zip(cuts[::2], cuts[1::2], strict=False) if pair[1] <= through]
    gone = {sequence for low, high in lost for sequence in range(low, high + 1)}
    archived = {sequence for sequence in range(begin, through + 1) if sequence not in gone}
    extent = LakeBounds(min(archived, default=through + 1), through, tuple(lost))
    found = {sequence for sequence in range(first, last + 1) if sequence not in holes}
    found |= {sequence for sequence in archived if sequence < first}
    return Bounds(first, last, first - 1, len(holes)), extent, found


@given(pasts())
def test_what_is_stored_is_what_the_tiers_have_together(
    past: tuple[Bounds, LakeBounds, set[int]],
) -> None:
    """Overlaps count once; holes of the log and ranges that nobody has do not count."""
    bounds, extent, found = past
    lake = Archived(extent, (bounds.last + 1,) * len(WINDOWS_S), None)
    seen = totals(logged(bounds), lake, None, UNLIMITED)
    assert seen.stored == len(found)
    assert seen.first == min(found, default=None)
    assert seen.last == bounds.last
    waiting = [n for n in range(bounds.first, bounds.last + 1) if n > extent.through]
    assert seen.tiers[-1].lag == len(waiting)


def test_rates_are_what_came_since() -> None:
    """The last sequence and the first of a window tell how many, whatever became of them."""
    seen = totals(logged(Bounds(1, 720, 0, 3), 715, 601, 1), None, None, UNLIMITED)
    assert seen.rates == (0.1, 0.4, 0.2)


def test_what_came_while_we_looked_makes_no_rate_negative() -> None:
    """The window was read after the bounds, and begins above them."""
    assert totals(logged(Bounds(1, 5), 9, 9, 9), None, None, UNLIMITED).rates == (0, 0, 0)


def test_a_window_that_retention_may_have_cut_has_no_rate() -> None:
    """By number or size when the log begins in it, by age when it is longer than that."""
    trimmed = logged(Bounds(101, 200, 100), 190, 101, 101)
    assert known(trimmed, UNLIMITED) == (190, 101, 101)
    assert known(trimmed, Retention(max_messages=100)) == (190, None, None)
    assert known(trimmed, Retention(max_bytes=100)) == (190, None, None)
    assert known(trimmed, Retention(seconds=300)) == (190, 101, None)
    seen = totals(trimmed, None, None, Retention(seconds=300))
    assert seen.rates == (round(11 / 60, 6), round(100 / 300, 6), None)


def test_a_log_that_nothing_was_cut_from_always_has_rates() -> None:
    """Limits alone take nothing away."""
    whole = logged(Bounds(1, 50), 1, 1, 1)
    assert known(whole, Retention(seconds=10, max_messages=50)) == (1, 1, 1)


def test_an_idle_log_has_the_rate_zero() -> None:
    """Age has emptied it, long after its windows; a limit in number never empties a log."""
    idle = logged(Bounds(51, 50, 50), 51, 51, 51)
    assert totals(idle, None, None, Retention(seconds=3600, max_messages=9)).rates == (0, 0, 0)
    assert known(idle, Retention(seconds=60)) == (51, None, None)
    # In memory others' notifications push ours out.
    assert known(idle, Retention(max_messages=9, shared=True)) == (None, None, None)


def test_tiers_newest_first() -> None:
    """Memory only where it is held, and no further than the log; nothing is null."""
    recent = Recent(Bounds(1, 40), 1000)
    held = totals(logged(Bounds(11, 60)), None, recent, UNLIMITED)
    assert held.tiers == (TierBounds("memory", None, None), TierBounds("log", 11, 60))
    empty = Archived(LakeBounds(1, 0), (61,) * 3, None)
    seen = totals(logged(Bounds(61, 60)), empty, None, UNLIMITED)
    assert seen.tiers == (TierBounds("log", None, None), TierBounds("lake", None, None, 0))
    assert (seen.stored, seen.first, seen.last) == (0, None, 60)
