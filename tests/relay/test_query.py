"""What a watch or replay asks for, once it has been checked."""

import gc
from weakref import ref

from support.relay import asked

from aviso_server.core.operation import Operation


def test_equal_filters_are_held_once() -> None:
    """Whoever asks for the same shares it, for as long as anybody does."""
    identifier = {"region": "a" * 1000}
    one, other = (asked(Operation.WATCH, dict(identifier)).filter for _ in range(2))
    assert one is other
    assert asked(Operation.WATCH, {"region": "s"}).filter is not one
    gone = ref(one)
    del one, other
    gc.collect()
    assert gone() is None
