"""What a lake holds, compared with what the log holds."""

from support.log import everything, log_at

from aviso_server.core.notification import Record
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.record import batch_to_records
from aviso_server.lake.table import find


def archived(place: Place, event_type: str) -> list[Record]:
    """What the lake has of an event type, in order."""
    table = find(place, NOTIFICATIONS)
    if table is None:
        return []
    rows = table.to_pyarrow_table(filters=[("event_type", "=", event_type)])
    ordered = rows.sort_by("sequence").to_batches()
    return [item for batch in ordered for item in batch_to_records(batch)]


async def assert_same(url: str, place: Place, *event_types: str) -> int:
    """The lake has what the log has, each once, bit by bit; how many that is."""
    count = 0
    async with log_at(url) as log:
        for name in event_types:
            found = await everything(log, name)
            assert archived(place, name) == found
            count += len(found)
    return count
