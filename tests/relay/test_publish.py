"""Publishing many: each has its own outcome, whatever happens to the others."""

from aviso_server.backends.backend import Batch
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.errors import HistoryFailed
from aviso_server.core.filter import Filter
from aviso_server.core.schema import Catalogue
from aviso_server.relay.publish import BatchPublisher, Declined, Published


class Forgetful(MemoryBackend):
    """Stores everything and can read nothing."""

    async def read(
        self, event_type: str, first: int, last: int, *, limit: int, wanted: Filter | None = None
    ) -> Batch:
        asked = f"{limit} of {event_type}, {first} to {last}, by {wanted}"
        raise HistoryFailed("Failed to read history", details=asked)


async def test_a_repeat_that_cannot_be_compared_fails_alone() -> None:
    """Those that were stored with it are acknowledged: sent again, they would be there twice."""
    store = Forgetful(MemoryLimits(), now_ns=lambda: 1)
    batch = BatchPublisher(store, Catalogue(strict=False), key="k", owner="anonymous")
    old = b'{"event_type":"ev","identifier":{"n":"0"},"idempotency_key":"mine"}'
    await batch.publish([old])
    new = [b'{"event_type":"ev","identifier":{"n":"%d"}}' % number for number in (1, 2)]
    one, repeat, two = await batch.publish([new[0], old, new[1]])
    assert isinstance(one, Published)
    assert isinstance(two, Published)
    assert (one.receipt.sequence, two.receipt.sequence) == (2, 3)
    assert isinstance(repeat, Declined)
    assert type(repeat.error).__name__ == "StorageFailed"
