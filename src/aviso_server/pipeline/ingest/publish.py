"""Publishing staged rows: one ordered stream per event type, a chunk at a time.

Rules
- A chunk is a fixed number of rows in a fixed order. It is done when the server has answered and
  the ledger says so; then it is never sent again.
- Before a chunk is sent the ledger says that it is being tried. A chunk that was being tried when
  the job was ended is sent again with the same keys while the server remembers them. After that the
  server is asked what it has stored since, and what is there already is not sent again
  (sink/stored.py).
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from aviso_server.core.errors import AvisoError
from aviso_server.core.json import compact
from aviso_server.lake.layout import TIME
from aviso_server.pipeline.ingest.rows import runs
from aviso_server.pipeline.ingest.state import Ledger, State
from aviso_server.pipeline.pace import Pace
from aviso_server.pipeline.sink.client import Client, NotSent, Stored
from aviso_server.pipeline.sink.options import Options as Server
from aviso_server.pipeline.sink.request import Refusal, Request, prepared, rows_of
from aviso_server.pipeline.sink.stored import Stored as StoredThere
from aviso_server.pipeline.sink.writer import MAX_BATCH_BYTES

CHUNK = 500
"""Rows: what is sent in one request, and what a kill may leave undecided."""

KEYS_KEPT_S = 90.0
"""How long a server surely remembers keys; it keeps them for 120 s."""

KEY = "key"

LETTERS = pa.schema(
    [
        pa.field("source", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("event_type", pa.string()),
        pa.field("code", pa.string()),
        pa.field("field", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("raw", pa.string()),
        pa.field("rejected_at", TIME),
    ]
)
"""Rejected rows, whoever rejected them."""


class PublishFailed(AvisoError):
    """Not everything could be published; running it again goes on. The message says why."""


class TooManyRefused(AvisoError):
    """The server refuses more rows than may be rejected."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """How a task publishes; travels to it by pickle."""

    state: State
    server: Server
    most_refused: int | None = None
    chunk: int = CHUNK

    def publish(self, batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
        """Publish rows that come by event type and in order; event types as they are done."""
        client = Client(self.server)
        pace = Pace(self.server.rate)
        try:
            current: tuple[str, int] | None = None
            for event_type, rows in chunks(batches, self.chunk):
                if current is None or current[0] != event_type:
                    if current is not None:
                        yield current[0]
                    current = (event_type, 0)
                self._one(client, pace, current, rows)
                current = (event_type, current[1] + 1)
            if current is not None:
                yield current[0]
        except NotSent as error:
            raise PublishFailed(str(error)) from error
        finally:
            client.close()

    def _one(self, client: Client, pace: Pace, which: tuple[str, int], rows: pa.Table) -> None:
        event_type, number = which
        ledger = self.state.ledger(event_type)
        if number < ledger.chunks:
            return
        requests = _requests(rows)
        bodies = [request.body for request in requests]
        there = StoredThere(self.server, event_type)
        doubtful = ledger.trying_since
        todo, reached = list(range(len(requests))), 0
        if doubtful is None and ledger == Ledger():
            ledger = replace(ledger, last=_last(there, bodies))
        elif doubtful is not None and time.time() - doubtful > KEYS_KEPT_S:
            found, reached = there.of(bodies, above=ledger.last)
            todo = [n for n in todo if not found[n]]
        self.state.write_ledger(event_type, replace(ledger, trying_since=time.time()))
        pace.wait(len(todo))
        stored: list[int] = []
        refused: list[tuple[int, Refusal]] = []
        for part in _bounded(todo, requests):
            outcomes = client.post([requests[n] for n in part])
            for n, outcome in zip(part, outcomes, strict=True):
                if isinstance(outcome, Stored):
                    stored.append(int(outcome.id.rpartition("@")[2]))
                else:
                    refused.append((n, outcome))
        if refused:
            self._keep(which, rows, refused, ledger)
        fresh = {sequence for sequence in stored if sequence > ledger.last}
        done = Ledger(
            number + 1,
            ledger.published + len(fresh),
            ledger.repeated + len(requests) - len(refused) - len(fresh),
            ledger.refused + len(refused),
            max([ledger.last, reached, *stored]),
        )
        self.state.write_ledger(event_type, done)

    def _keep(
        self,
        which: tuple[str, int],
        rows: pa.Table,
        refused: list[tuple[int, Refusal]],
        ledger: Ledger,
    ) -> None:
        """Write refused rows down, before the ledger says the chunk is done."""
        count = ledger.refused + len(refused)
        if self.most_refused is not None and count > self.most_refused:
            raise TooManyRefused(
                f"{self.server.url} refuses more than {self.most_refused} rows; the last: "
                f"{refused[-1][1].message}"
            )
        sources, lines = rows["source"].to_pylist(), rows["line"].to_pylist()
        now = datetime.now(UTC)
        letters = [
            {
                "source": sources[n],
                "line": lines[n],
                "event_type": which[0],
                "code": refusal.code,
                "field": None,
                "reason": refusal.message,
                "raw": _shown(refusal),
                "rejected_at": now,
            }
            for n, refusal in refused
        ]
        pq.write_table(
            pa.Table.from_pylist(letters, schema=LETTERS), self.state.refused_file(*which)
        )


def chunks(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[tuple[str, pa.Table]]:
    """Rows of one event type, ``size`` at a time however the batches are cut."""
    waiting: pa.Table | None = None
    for batch in batches:
        for rows in runs(batch):
            name = rows["event_type"][0].as_py()
            if waiting is not None and waiting["event_type"][0].as_py() != name:
                yield waiting["event_type"][0].as_py(), waiting
                waiting = None
            waiting = rows if waiting is None else pa.concat_tables([waiting, rows])
            while waiting.num_rows >= size:
                yield name, waiting.slice(0, size).combine_chunks()
                waiting = waiting.slice(size)
            waiting = waiting if waiting.num_rows else None
    if waiting is not None:
        yield waiting["event_type"][0].as_py(), waiting


def _last(there: StoredThere, bodies: Sequence[bytes]) -> int:
    """Where a server's stream ends before anything of ours is in it."""
    try:
        return there.last(bodies) or 0
    except AvisoError:
        # Credentials that may not read will do, unless a chunk is to be looked up: that says so.
        return 0


def _requests(rows: pa.Table) -> list[Request]:
    made = []
    for batch in rows.combine_chunks().to_batches():
        for row in rows_of(batch, key_column=KEY):
            request = prepared(row)
            if isinstance(request, Refusal):  # judged rows can always be put into a request
                raise PublishFailed(f"a judged row makes no request: {request.message}")
            made.append(request)
    return made


def _bounded(todo: list[int], requests: list[Request]) -> Iterator[list[int]]:
    """Parts of a chunk that are not too large for one request."""
    part: list[int] = []
    room = MAX_BATCH_BYTES
    for n in todo:
        size = len(requests[n].body) + 1
        if part and size > room:
            yield part
            part, room = [], MAX_BATCH_BYTES
        part.append(n)
        room -= size
    if part:
        yield part


def _shown(refusal: Refusal) -> str:
    row = refusal.row
    return compact(
        {"event_type": row.event_type, "identifier": str(row.identifier), "payload": row.payload}
    ).decode()
