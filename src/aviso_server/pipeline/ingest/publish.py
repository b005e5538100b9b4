"""Publishing staged rows in the tasks of Spark: one ordered delivery per event type."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from aviso_server.pipeline.delivery.client import Rejected
from aviso_server.pipeline.delivery.delivery import Delivery, Item
from aviso_server.pipeline.delivery.ledger import DeliveryLedger, LedgerHead, LedgerLine
from aviso_server.pipeline.delivery.target import Target
from aviso_server.pipeline.ingest.rows import runs
from aviso_server.pipeline.ingest.state import IngestState
from aviso_server.pipeline.sink.request import RejectedRow, request_of, rows_of

KEY = "key"

PUBLISHED = "event_type string, added bigint, rejected bigint"
"""What a task reports of each event type, over all runs of the ingest."""


@dataclass(frozen=True, slots=True)
class IngestPublisher:
    """How a task publishes; travels to it by pickle."""

    state: IngestState
    run: str
    """Which run of the ingest staged the rows."""
    target: Target
    most_rejected: int | None = None

    def publish(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Publish rows that come by event type and in order; PUBLISHED, for each event type."""
        parts = (part for batch in batches for part in runs(batch))
        for name, mine in groupby(parts, key=lambda part: str(part["event_type"][0].as_py())):
            line = self._deliver(name, mine)
            yield pa.RecordBatch.from_pylist(
                [{"event_type": name, "added": line.added, "rejected": line.rejected}]
            )

    def _deliver(self, event_type: str, parts: Iterable[pa.Table]) -> LedgerLine:
        """Deliver what is not in the ledger; the same rows come in the same order in every run."""
        job = {"run": self.run, "event_type": event_type, "target": self.target.url}
        head = LedgerHead(job, 1, 0, self.target.batch_size)
        ledger = DeliveryLedger(self.state.ledger(event_type), head)
        with Delivery(self.target, event_type, ledger, most_rejected=self.most_rejected) as to:
            to.send(item for item in _items(parts) if item.position > ledger.line.through)
        return ledger.line


def _items(parts: Iterable[pa.Table]) -> Iterator[Item]:
    position = 0
    for part in parts:
        for batch in part.to_batches():
            sources, lines = batch["source"].to_pylist(), batch["line"].to_pylist()
            rows = rows_of(batch, key_column=KEY)
            for row, source, line in zip(rows, sources, lines, strict=True):
                position += 1
                about = {"source": source, "line": line, "event_type": row.event_type}
                request = request_of(row)
                if isinstance(request, RejectedRow):
                    problem = Rejected(request.code, message=request.message, field=request.field)
                    yield Item(position, b"", problem, about)
                else:
                    yield Item(position, request.body, None, about)
