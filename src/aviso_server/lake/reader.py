"""Reading a range of the lake in sequence order, a bounded batch at a time.

Theory of operation
A batch covers a window of sequences. Row groups are taken by their first sequence until there are
enough rows, and the window ends where the next group begins: everything inside it is then in the
groups that were taken, even where files or groups overlap. Groups that cannot match, by their
statistics, are not opened and cost nothing, so a window of a filter that matches little is wide.

What is hidden is left out. Dead letters come in their place, whatever the filter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import pyarrow as pa

from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Box
from aviso_server.core.notification import Entry
from aviso_server.core.ring import Mask
from aviso_server.lake.bounds import LakeBatch
from aviso_server.lake.deadletters import sequences, unreadable
from aviso_server.lake.index import Files
from aviso_server.lake.predicate import mask, region
from aviso_server.lake.ranges import MOST, Ints
from aviso_server.lake.record import batch_to_records
from aviso_server.lake.rowgroups import ORDER, REST, TEST, Columns, RowGroups
from aviso_server.lake.snapshot import EventTypeSnapshot

ROWS = 32_768
"""Rows searched for one batch, two full row groups: some 50 ms."""

FILES = 32
"""Files that are opened for a batch, so that many small ones do not make it slow."""

BATCH_BYTES = 8_388_608
"""What the records of a batch may weigh, roughly: payloads can be large."""

CHUNK = 4096
"""Rows a filter is tried on together: most requests have found enough before a group ends."""


@dataclass(frozen=True, slots=True, order=True)
class _Group:
    first: int
    last: int
    path: str
    number: int
    rows: int
    size: int
    """Of the file, in bytes."""


class Reader:
    """Reads an event type of the lake."""

    def __init__(self, groups: RowGroups) -> None:
        self._groups = groups

    def read(
        self,
        archived: EventTypeSnapshot,
        first: int,
        last: int,
        *,
        limit: int,
        wanted: Filter | None,
    ) -> LakeBatch:
        """At least one step of ``first..last``, and at most ``limit`` entries of it."""
        last = min(last, archived.through)
        begin = archived.hidden.after(first)
        if begin > last:
            return LakeBatch((), max(first, last + 1))
        if wanted == Filter():
            wanted = None
        taken: list[_Group] = []
        end = last
        if archived.files is not None:
            # Without a filter nearly every row counts.
            rows = ROWS if wanted is not None else min(limit, ROWS)
            taken, end = self._window(archived.files, (begin, last), rows, region(wanted))
        found: list[Entry] = []
        full = False
        for rows_ in self._ordered(taken):
            some, full = self._entries(rows_, archived, (begin, end), limit - len(found), wanted)
            found += some
            if full:
                break
        # Letters after the end of a full answer belong to the next one.
        reached = found[-1].sequence if full else end
        found = _with_letters(found, archived, begin, reached)[:limit]
        full = full or len(found) == limit
        return LakeBatch(found, found[-1].sequence + 1 if full else end + 1)

    def rows(
        self, archived: EventTypeSnapshot, first: int, last: int, *, columns: Columns
    ) -> tuple[list[pa.RecordBatch], int]:
        """Visible rows of at least a part of ``first..last``, in no order, and where it ends."""
        last = min(last, archived.through)
        if archived.files is None or first > last:
            return [], last
        taken, end = self._window(archived.files, (first, last), ROWS, None)
        found = []
        for group in taken:
            (batch,) = self._groups.parts(group.path, group.number, (columns,), size=group.size)
            there = np.asarray(batch.column("sequence"), np.int64)
            kept = (there >= first) & (there <= end) & ~archived.hidden.mask(there)
            found.append(batch if kept.all() else batch.filter(pa.array(kept)))
        return found, end

    def first(self, archived: EventTypeSnapshot, *, least: int, since: int = -MOST) -> int | None:
        """The lowest visible sequence from ``least`` on that was stored at or after a time."""
        best = MOST
        least = archived.hidden.after(least)
        if archived.files is not None:
            for file in archived.files.ranges.rising(least, archived.through, since=since):
                if archived.files.ranges.first[file] > best:
                    break
                best = min(best, self._lowest(archived, file, least, since))
        letters = archived.letters.rows(archived.event_type, least, min(best, archived.through))
        if letters is not None:
            there = sequences(letters)
            late = np.asarray(letters["time_ns"].fill_null(0), np.int64) >= since
            there = there[late & ~archived.hidden.mask(there)]
            best = min(best, int(there.min(initial=MOST)))
        return best if best < MOST else None

    def last(self, archived: EventTypeSnapshot, *, until: int = MOST) -> int | None:
        """The highest visible sequence that was stored at or before a time."""
        best = 0
        most = archived.hidden.before(archived.through)
        if archived.files is not None:
            for file in archived.files.ranges.falling(most, until=until):
                if archived.files.ranges.last[file] < best:
                    break
                best = max(best, self._highest(archived, file, most, until))
        letters = archived.letters.rows(archived.event_type, best + 1, most)
        if letters is not None:
            there = sequences(letters)
            early = np.asarray(letters["time_ns"].fill_null(0), np.int64) <= until
            there = there[early & ~archived.hidden.mask(there)]
            best = max(best, int(there.max(initial=0)))
        return best or None

    def _window(
        self, files: Files, span: tuple[int, int], rows: int, box: Box | None
    ) -> tuple[list[_Group], int]:
        """RowGroups that hold what can match, and up to which sequence they hold all of it."""
        # A merge of two ordered sequences of beginnings: files that are not opened yet, and the
        # groups of those that are. Both come by first sequence, so whatever has not been taken
        # begins at ``following`` or later, and everything before that is in ``taken``.
        first, last = span
        upcoming = files.ranges.rising(first, last, box=box)
        file = next(upcoming, None)
        waiting: list[_Group] = []
        taken: list[_Group] = []
        held = opened = 0
        while True:
            next_file = MOST if file is None else int(files.ranges.first[file])
            following = min(next_file, waiting[0].first if waiting else MOST)
            if following > last:
                return taken, last
            # Enough, but a window of nothing would be asked for again for ever: groups that begin
            # at or before the first sequence are taken, however many there are.
            if (held >= rows or opened >= FILES) and following > first:
                return taken, following - 1
            # A file that begins no later than the next group may hold one that begins earlier.
            if file is not None and next_file == following:
                for group in self._groups_of(files, file, span, box):
                    heappush(waiting, group)
                file = next(upcoming, None)
                opened += 1
            else:
                taken.append(heappop(waiting))
                held += taken[-1].rows

    def _groups_of(
        self, files: Files, file: int, span: tuple[int, int], box: Box | None
    ) -> Iterator[_Group]:
        path, size = files.path(file), files.size(file)
        footer = self._groups.footer(path, size=size)
        for place in footer.ranges.rising(*span, box=box):
            number = footer.numbers[place]
            yield _Group(
                int(footer.ranges.first[place]),
                int(footer.ranges.last[place]),
                path,
                number,
                footer.metadata.row_group(number).num_rows,
                size,
            )

    def _ordered(self, taken: Sequence[_Group]) -> Iterator["_Rows"]:
        """RowGroups one after the other; those that overlap, as one."""
        together: list[_Group] = []
        for group in taken:
            if together and group.first > max(item.last for item in together):
                yield _Rows(self._groups, together)
                together = []
            together.append(group)
        if together:
            yield _Rows(self._groups, together)

    @staticmethod
    def _entries(
        rows: "_Rows",
        archived: EventTypeSnapshot,
        span: tuple[int, int],
        limit: int,
        wanted: Filter | None,
    ) -> tuple[list[Entry], bool]:
        """Up to ``limit`` visible records that are asked for; whether there may be more here."""
        begin, end = np.searchsorted(rows.sequences, [span[0], span[1] + 1]).tolist()
        chosen: list[Ints] = []
        count = 0
        while begin < end and count < limit:
            stop = min(end, begin + (CHUNK if wanted is not None else limit - count))
            keep: Mask = ~archived.hidden.mask(rows.sequences[begin:stop])
            if wanted is not None and keep.any():
                tested = mask(wanted, rows.part(TEST).slice(begin, stop - begin))
                keep &= np.asarray(tested)
            some = np.flatnonzero(keep)[: limit - count] + begin
            chosen.append(some)
            count += len(some)
            begin = stop
        if not count:
            return [], False
        batch = rows.take(np.concatenate(chosen)[: rows.most(BATCH_BYTES)])
        found: list[Entry] = [*batch_to_records(batch, event_type=archived.event_type)]
        return found, len(found) == limit or len(found) < count

    def _lowest(self, archived: EventTypeSnapshot, file: int, least: int, since: int) -> int:
        assert archived.files is not None  # noqa: S101 - the caller has the file from there
        path, size = archived.files.path(file), archived.files.size(file)
        footer = self._groups.footer(path, size=size)
        best = MOST
        for place in footer.ranges.rising(least, archived.through, since=since):
            if footer.ranges.first[place] > best:
                break
            there, times = self._times(path, footer.numbers[place], size)
            fit = (there >= least) & (times >= since) & ~archived.hidden.mask(there)
            best = min(best, int(there[fit].min(initial=MOST)))
        return best

    def _highest(self, archived: EventTypeSnapshot, file: int, most: int, until: int) -> int:
        assert archived.files is not None  # noqa: S101 - the caller has the file from there
        path, size = archived.files.path(file), archived.files.size(file)
        footer = self._groups.footer(path, size=size)
        best = 0
        for place in footer.ranges.falling(most, until=until):
            if footer.ranges.last[place] < best:
                break
            there, times = self._times(path, footer.numbers[place], size)
            fit = (there <= most) & (times <= until) & ~archived.hidden.mask(there)
            best = max(best, int(there[fit].max(initial=0)))
        return best

    def _times(self, path: str, number: int, size: int) -> tuple[Ints, Ints]:
        (batch,) = self._groups.parts(path, number, (ORDER,), size=size)
        return (
            np.asarray(batch.column("sequence"), np.int64),
            np.asarray(batch.column("time_ns").fill_null(0), np.int64),
        )


class _Rows:
    """The rows of a group, or of several that overlap, in sequence order."""

    def __init__(self, groups: RowGroups, taken: Sequence[_Group]) -> None:
        self._groups = groups
        self._taken = taken
        self._order: pa.Array | None = None
        there = np.asarray(self.part(ORDER).column("sequence"), np.int64)
        if len(taken) > 1 or (there[1:] < there[:-1]).any():
            order = np.argsort(there, kind="stable")
            self._order, there = pa.array(order), there[order]
        self.sequences: Ints = there

    def part(self, part: Columns) -> pa.RecordBatch:
        """Some columns of all rows."""
        return self.parts((part,))[0]

    def parts(self, wanted: tuple[Columns, ...]) -> list[pa.RecordBatch]:
        """Several parts at once, which are decoded together."""
        found = [self._groups.parts(g.path, g.number, wanted, size=g.size) for g in self._taken]
        merged = [_joined(batches) for batches in zip(*found, strict=True)]
        return merged if self._order is None else [batch.take(self._order) for batch in merged]

    def most(self, weight: int) -> int:
        """How many rows weigh that much, at least one."""
        whole = sum(int(batch.nbytes) for batch in self.parts((ORDER, TEST, REST)))
        return max(1, weight * len(self.sequences) // max(1, whole))

    def take(self, places: Ints) -> pa.RecordBatch:
        """Whole rows at ascending places."""
        batches = self.parts((ORDER, TEST, REST))
        begin, count = int(places[0]), len(places)
        if int(places[-1]) - begin + 1 == count:
            batches = [batch.slice(begin, count) for batch in batches]
        else:
            batches = [batch.take(pa.array(places)) for batch in batches]
        columns = [column for batch in batches for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, names=[*ORDER, *TEST, *REST])


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [
        pa.concat_arrays([batch.column(n) for batch in batches])
        for n in range(batches[0].num_columns)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batches[0].schema.names)


def _with_letters(
    found: list[Entry], archived: EventTypeSnapshot, first: int, last: int
) -> list[Entry]:
    letters = archived.letters.rows(archived.event_type, first, last)
    if letters is None:
        return found
    seen = letters.filter(pa.array(~archived.hidden.mask(sequences(letters))))
    return sorted([*found, *unreadable(seen)], key=lambda entry: entry.sequence)
