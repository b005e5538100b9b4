"""A few notifications wait for others, and never for long."""

from aviso_server.backends.backend import Bounds
from aviso_server.pipeline.archive.patience import ENOUGH, Patience
from aviso_server.pipeline.source.ranges import Range

OLD = {"mars": Bounds(1, 1_000_000), "diss": Bounds(1, 1_000_000)}


def _begun() -> Patience:
    """Of a job that has committed already."""
    patience = Patience(60.0)
    assert patience.due([Range("mars", 1, 1)], OLD, 0.0)
    return patience


def test_what_is_there_at_the_beginning_is_committed_at_once() -> None:
    """However little it is; and then a few have to wait."""
    patience = Patience(60.0)
    assert not patience.due([], OLD, 0.0)
    assert patience.due([Range("mars", 1, 1)], OLD, 10.0)
    assert not patience.due([Range("mars", 2, 2)], OLD, 20.0)


def test_a_few_wait_for_their_time_and_many_do_not() -> None:
    """Time counts from when something was first seen waiting, for all event types together."""
    patience = _begun()
    assert not patience.due([Range("mars", 2, 3)], OLD, 100.0)
    assert not patience.due([Range("mars", 2, 9), Range("diss", 1, 1)], OLD, 159.0)
    assert patience.due([Range("mars", 2, 9), Range("diss", 1, 1)], OLD, 160.0)
    assert not patience.due([Range("mars", 10, 10)], OLD, 170.0)
    assert patience.due([Range("mars", 10, 9 + ENOUGH)], OLD, 171.0)
    # Nothing waits any more, then something does: its time begins anew.
    assert not patience.due([], OLD, 172.0)
    assert not patience.due([Range("mars", 30_000, 30_001)], OLD, 232.0)


def test_what_the_log_may_lose_does_not_wait() -> None:
    """A short log trims soon, and one with holes may keep only the newest of each topic."""
    few = [Range("mars", 976, 1000)]
    assert not _begun().due(few, {"mars": Bounds(1, 1000)}, 1.0)
    assert _begun().due(few, {"mars": Bounds(901, 1000)}, 1.0)
    assert _begun().due(few, {"mars": Bounds(1, 1000, deleted=1)}, 1.0)


def test_without_patience_everything_is_committed() -> None:
    """As it is where all that is there is to be archived."""
    patience = Patience(0.0)
    assert all(patience.due([Range("mars", n, n)], OLD, float(n)) for n in range(1, 4))
