"""Publishing many: each has its own outcome, whatever happens to the others."""

from support.faults import FaultyBackend

from aviso_server.core.errors import HistoryFailed
from aviso_server.core.schema import Catalogue
from aviso_server.relay.publish import BatchPublisher, Declined, Published


async def test_a_repeat_that_cannot_be_compared_fails_alone() -> None:
    """Those that were stored with it are acknowledged: sent again, they would be there twice."""
    store = FaultyBackend({"read": HistoryFailed("Failed to read history")})
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
