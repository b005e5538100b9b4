"""The archive job's work without Spark: what the log has goes into the lake."""

from support.source import read_batch

from aviso_server.lake.commit import commit
from aviso_server.lake.files import FileWriter
from aviso_server.lake.layout import RECORD, Place


def archive(place: Place, url: str, event_type: str, *, first: int = 1, last: int) -> None:
    """Archive a range of the log at a NATS address."""
    rows = read_batch(
        servers=url,
        eventType=event_type,
        startingSequence=str(first),
        endingSequence=str(last),
    )
    writer = FileWriter(place)
    for batch in rows.select(RECORD.names).to_batches():
        writer.write(batch)
    commit(place, writer.close(), {event_type: last})
