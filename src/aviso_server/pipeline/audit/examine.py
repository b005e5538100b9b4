"""Reading one file of the lake for the audit: its sequences, its contents, and what is wrong.

What cannot be read is named and does not end the examination: a broken footer costs the file, a
broken page costs its row group. Pages carry checksums, so a flipped bit is noticed even where
everything can be decoded.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aviso_server.core.ring import Mask
from aviso_server.lake import wkb
from aviso_server.lake.files import FILE_SCHEMA
from aviso_server.lake.index import UNKNOWN
from aviso_server.lake.inventory import TableFile
from aviso_server.lake.layout import BOX, DEAD_LETTERS, NOTIFICATIONS, TIME, Place
from aviso_server.lake.ranges import MOST, Ints
from aviso_server.lake.record import NS_PER_US
from aviso_server.lake.storage import files
from aviso_server.pipeline.audit.content import Hashes, content_hash
from aviso_server.pipeline.audit.evidence import Finding, Rows, name_ranges
from aviso_server.pipeline.source.columns import divide

NOBODY = ""
"""The event type of what concerns all of them."""

_FAILED = (OSError, ValueError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class Exam:
    """A file to be examined."""

    file: TableFile
    hash_from: int
    """Contents are compared from this sequence on: the log has nothing below it."""
    places: bool
    """Whether the log has topics, which contents then include."""


def examine_file(place: Place, exam: Exam) -> pa.RecordBatch:
    """Evidence of what a file holds."""
    rows = Rows(exam.file.event_type)
    found = _Found()
    try:
        for problem, first, last in _read(place, exam, found):
            rows.finding(_broken(exam.file, problem, first, last))
            rows.span("unread", first, last)
    except _FAILED as error:
        last = exam.file.last if exam.file.bounded else exam.file.first
        rows.finding(_broken(exam.file, _line(error), exam.file.first, last))
        rows.span("unread", exam.file.first, last)
        return rows.batch()
    if found.sequences:
        _summed_up(rows, exam.file, found)
    if found.whole and exam.file.rows not in (UNKNOWN, sum(map(len, found.sequences))):
        text = f"{exam.file.name}: the table's log says {exam.file.rows} rows"
        rows.finding(_about(exam.file, text, sum(map(len, found.sequences))))
    return rows.batch()


def examine_letters(place: Place, path: str) -> Iterator[pa.RecordBatch]:
    """Evidence of a file of dead letters; one that cannot be read belongs to no event type."""
    try:
        table = pq.read_table(
            path,
            columns=["event_type", "sequence"],
            filesystem=files(place, DEAD_LETTERS),
            partitioning=None,
        )
    except _FAILED as error:
        rows = Rows(NOBODY)
        rows.finding(Finding("file", 0, 0, 0, f"{DEAD_LETTERS}/{path}: {_line(error)}"))
        yield rows.batch()
        return
    for name in pc.unique(table["event_type"]).to_pylist():
        ours = table.filter(pc.equal(table["event_type"], name))["sequence"]
        rows = Rows(name)
        rows.runs("letter", np.unique(np.asarray(ours, np.int64)))
        yield rows.batch()


def examine_log(batch: pa.RecordBatch, *, places: bool) -> Iterator[pa.RecordBatch]:
    """Evidence of rows of the source, which come with marks."""
    good, bad, _, lost = divide(batch)
    for name in pc.unique(good.column("event_type")).to_pylist():
        ours = good.filter(pc.equal(good.column("event_type"), name))
        rows = Rows(name)
        there = np.asarray(ours.column("sequence"), np.int64)
        rows.runs("log", there, hashes=content_hash(ours, name, places=places))
        yield rows.batch()
    for name in pc.unique(bad.column("event_type")).to_pylist():
        theirs = bad.filter(pc.equal(bad.column("event_type"), name))
        rows = Rows(name)
        rows.runs("log_letter", np.asarray(theirs.column("sequence"), np.int64))
        yield rows.batch()
    for item in lost:
        rows = Rows(item.event_type)
        rows.span("trimmed", item.first, item.last)
        yield rows.batch()


class _Found:
    """What the row groups of a file held."""

    def __init__(self) -> None:
        self.sequences: list[Ints] = []
        self.times: list[Ints] = []
        self.hashes: list[Hashes] = []
        self.bad: dict[str, list[Ints]] = {}
        """Sequences of rows that contradict themselves, by what is wrong."""
        self.outside: list[Ints] = []
        """Sequences of rows that the log's statistics leave out."""
        self.whole = True
        """Every row group could be read."""


def _read(place: Place, exam: Exam, found: _Found) -> Iterator[tuple[str, int, int]]:
    """Read the row groups; those that cannot be read come out, with their sequences."""
    source = files(place, NOTIFICATIONS)
    size = source.get_file_info(exam.file.name).size
    if size is None:
        raise FileNotFoundError("the file is missing")
    with source.open_input_file(exam.file.name) as stream:
        file = pq.ParquetFile(stream, page_checksum_verification=True)
        for number in range(file.num_row_groups):
            try:
                _take(exam, _columns(file.read_row_group(number)), found)
            except _FAILED as error:
                found.whole = False
                yield _line(error), *_span(file, number, exam.file)
    if size != exam.file.size:
        text = f"the table's log says {exam.file.size} bytes and there are {size}"
        found.bad.setdefault(text, []).extend(found.sequences)


def _columns(table: pa.Table) -> pa.RecordBatch:
    """A row group with the columns of a notification; those that came later are null."""
    arrays = []
    for item in FILE_SCHEMA:
        if item.name in table.column_names:
            column = table[item.name].cast(item.type)
            arrays.append(pa.concat_arrays(column.chunks))
        else:
            arrays.append(pa.nulls(table.num_rows, item.type))
    return pa.RecordBatch.from_arrays(arrays, names=FILE_SCHEMA.names)


def _take(exam: Exam, batch: pa.RecordBatch, found: _Found) -> None:
    there = np.asarray(batch.column("sequence"), np.int64)
    times = np.asarray(batch.column("time_ns").fill_null(0), np.int64)
    hashes: Hashes = np.zeros(len(there), np.uint64)
    if len(there) and int(there.max()) >= exam.hash_from:
        hashes = content_hash(batch, exam.file.event_type, places=exam.places)
    for what, right in CHECKS.items():
        wrong = ~right(exam.file, batch)
        if wrong.any():
            found.bad.setdefault(what, []).append(there[wrong])
    outside = _outside(exam.file, batch, there, times)
    if outside.any():
        found.outside.append(there[outside])
    found.sequences.append(there)
    found.times.append(times)
    found.hashes.append(hashes)


def _summed_up(rows: Rows, file: TableFile, found: _Found) -> None:
    there = np.concatenate(found.sequences)
    order = np.argsort(there, kind="stable")
    there = there[order]
    times, hashes = np.concatenate(found.times)[order], np.concatenate(found.hashes)[order]
    rows.runs("lake", there, hashes=hashes, times=times)
    back = np.flatnonzero((times[1:] < times[:-1]) & (there[1:] > there[:-1])) + 1
    for item in name_ranges("time", there[back], text="stored before the one before it"):
        rows.finding(item)
    for what, bad in found.bad.items():
        for item in name_ranges("row", _sorted(bad), text=f"{what} ({file.name})"):
            rows.finding(item)
    if found.outside:
        text = f"{file.name}: its statistics leave these out"
        for item in name_ranges("statistics", _sorted(found.outside), text=text):
            rows.finding(item)


def _right_id(file: TableFile, batch: pa.RecordBatch) -> Mask:
    numbers = batch.column("sequence").cast(pa.string())
    ids = pc.binary_join_element_wise(pa.scalar(file.event_type), numbers, "@")
    return _true(pc.equal(batch.column("id"), ids))


def _right_time(_file: TableFile, batch: pa.RecordBatch) -> Mask:
    whole = np.asarray(batch.column("time_ns").fill_null(-1), np.int64) // NS_PER_US
    return _true(pc.equal(batch.column("time"), pa.array(whole).cast(TIME)))


def _right_day(file: TableFile, batch: pa.RecordBatch) -> Mask:
    day = pa.scalar(file.day, pa.date32())
    return _true(pc.equal(batch.column("time").cast(pa.date32()), day))


def _right_box(_file: TableFile, batch: pa.RecordBatch) -> Mask:
    """The same areas come again and again, so each is decoded once."""
    column = batch.column("geometry").dictionary_encode()
    boxes = [_box(data) for data in column.dictionary.to_pylist()]
    where = np.asarray(column.indices.fill_null(len(boxes)), np.int64)
    right: Mask = np.ones(batch.num_rows, np.bool_)
    for number, name in enumerate(BOX):
        edges = np.array([*(box[number] for box in boxes), np.nan], np.float64)[where]
        told = np.asarray(batch.column(name).fill_null(np.nan), np.float64)
        right &= (told == edges) | (np.isnan(told) & np.isnan(edges))
    return right


CHECKS: dict[str, Callable[[TableFile, pa.RecordBatch], Mask]] = {
    "its id is not its event type and sequence": _right_id,
    "its time is not its time_ns": _right_time,
    "it does not belong to its day": _right_day,
    "its box is not that of its geometry": _right_box,
}
"""What every row must fulfil."""


def _box(data: bytes) -> tuple[float, ...]:
    try:
        box = wkb.decode(data).box
    except ValueError:
        return (np.inf,) * len(BOX)  # equals no box
    return tuple(getattr(box, name) for name in BOX)


def _outside(file: TableFile, batch: pa.RecordBatch, there: Ints, times: Ints) -> Mask:
    """Rows that a reader who trusts the log's statistics would not find."""
    outside: Mask = (there < file.first) | (there > file.last)
    outside |= (times < file.since_ns) | (times > file.until_ns)
    for name, edge in zip(BOX, file.box, strict=True):
        told = np.asarray(batch.column(name).fill_null(np.nan), np.float64)
        # Of the lowest edges the lowest is known, of the highest the highest.
        outside |= told < edge if name.startswith("min") else told > edge
    return outside


def _span(file: pq.ParquetFile, number: int, whole: TableFile) -> tuple[int, int]:
    """The sequences of a row group, by its own statistics; else those of the file."""
    group = file.metadata.row_group(number)
    for column in map(group.column, range(group.num_columns)):
        told = column.statistics
        if column.path_in_schema == "sequence" and told is not None and told.has_min_max:
            return int(told.min), int(told.max)
    return whole.first, whole.last if whole.last < MOST else whole.first


def _broken(file: TableFile, problem: str, first: int, last: int) -> Finding:
    return Finding("file", first, last, last - first + 1, f"{file.name}: {problem}")


def _about(file: TableFile, text: str, rows: int) -> Finding:
    last = file.last if file.bounded else file.first
    return Finding("statistics", file.first, last, last - file.first + 1, f"{text}, it has {rows}")


def _sorted(parts: list[Ints]) -> Ints:
    whole: Ints = np.unique(np.concatenate(parts))
    return whole


def _true(values: pa.BooleanArray) -> Mask:
    return np.asarray(pc.fill_null(values, fill_value=False), np.bool_)


def _line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
