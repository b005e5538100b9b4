"""Dead letters on their way from a task to the table: in memory while few, in files beyond.

What a task reports goes through the driver, so it is bounded; so is what the driver holds while it
appends. Tables take letters of an event type in sequence order, as they come from the log.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aviso_server.lake.deadletters import append_dead_letters
from aviso_server.lake.files import remove
from aviso_server.lake.layout import DEAD_LETTER_TABLE, DEAD_LETTERS, Place
from aviso_server.lake.storage import files

IN_MEMORY = 10_000
"""Letters of one task up to which they go through the driver's memory."""
BYTES_IN_MEMORY = 8 * 1024 * 1024
"""What those may weigh."""

STAGED = "_staged"
"""Folder of files that no commit has taken; Delta ignores names that begin like this."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The letters of one task."""

    streams: tuple[bytes, ...] = ()
    """Batches of letters as Arrow streams, where there are few."""
    files: tuple[str, ...] = ()
    """The files that hold them otherwise."""
    first: dict[str, int] = field(default_factory=dict)
    """Lowest sequence of each event type."""


class Gathered:
    """The letters a task has found so far."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._waiting: list[pa.RecordBatch] = []
        self._files: list[str] = []
        self._first: dict[str, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take letters, ascending by sequence within each event type."""
        self._waiting.append(batch)
        names, sequences = batch.column("event_type"), batch.column("sequence")
        for name, sequence in zip(names.to_pylist(), sequences.to_pylist(), strict=True):
            self._first.setdefault(name, sequence)
        rows = sum(item.num_rows for item in self._waiting)
        weight = sum(item.nbytes for item in self._waiting)
        if rows > IN_MEMORY or weight > BYTES_IN_MEMORY:
            self._stage()

    def bundle(self) -> Bundle:
        """All of them, as reported."""
        if self._files and self._waiting:
            self._stage()
        streams = tuple(_stream(item) for item in self._waiting)
        return Bundle(streams, tuple(self._files), self._first)

    def discard(self) -> None:
        """Remove the files: they will not be committed."""
        unstage(self._place, self._files)

    def _stage(self) -> None:
        folder = files(self._place, DEAD_LETTERS)
        folder.create_dir(STAGED, recursive=True)
        path = f"{STAGED}/{uuid.uuid4().hex}.parquet"
        with (
            folder.open_output_stream(path) as stream,
            pq.ParquetWriter(stream, DEAD_LETTER_TABLE) as writer,
        ):
            for batch in self._waiting:
                writer.write_batch(batch)
        self._files.append(path)
        self._waiting = []


def append(place: Place, bundles: Sequence[Bundle]) -> int:
    """Add what is new of the letters to the table; how many."""
    count = 0
    for name in sorted({name for bundle in bundles for name in bundle.first}):
        theirs = [bundle for bundle in bundles if name in bundle.first]
        for bundle in sorted(theirs, key=lambda bundle: bundle.first[name]):
            for rows in _rows(place, bundle, name):
                count += append_dead_letters(place, rows)
    return count


def unstage(place: Place, paths: Iterable[str]) -> None:
    """Remove staged files."""
    if found := list(paths):
        remove(files(place, DEAD_LETTERS), found)


def _rows(place: Place, bundle: Bundle, name: str) -> Iterator[pa.Table]:
    """The letters of one event type, a bounded number at a time."""
    held = [batch for data in bundle.streams for batch in _batches(data)]
    if held:
        yield _only(pa.Table.from_batches(held, DEAD_LETTER_TABLE), name)
    folder = files(place, DEAD_LETTERS)
    for path in bundle.files:
        with folder.open_input_file(path) as stream:
            for batch in pq.ParquetFile(stream).iter_batches(batch_size=IN_MEMORY):
                yield _only(pa.Table.from_batches([batch]), name)


def _only(rows: pa.Table, name: str) -> pa.Table:
    return rows.filter(pc.equal(rows["event_type"], name))


def _batches(data: bytes) -> list[pa.RecordBatch]:
    with pa.ipc.open_stream(data) as stream:
        return list(stream)


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
