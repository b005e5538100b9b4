"""Filters over Arrow rows: which of many notifications were asked for, without making records.

Theory of operation
A filter means what ``core.filter.Filter.matches`` says, and nothing here says it again. Texts are
compared as a column. A constraint is asked once about each distinct text, and a spatial test once
about each distinct place whose box is near enough; the answers are spread over the rows. A
property test draws filters and rows and compares with ``matches``.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aviso_server.core.constraint import Constraint
from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Box
from aviso_server.core.ring import Mask
from aviso_server.core.spatial import Spatial
from aviso_server.lake import wkb
from aviso_server.lake.layout import BOX

COLUMNS = ("identifier", "geometry", *BOX)
"""The columns that ``mask`` reads."""


def mask(wanted: Filter, batch: pa.RecordBatch) -> pa.BooleanArray:
    """For each row with the columns of RECORD, whether the filter asks for it; never null."""
    found = np.ones(batch.num_rows, np.bool_)
    if wanted.exact or wanted.constraints:
        texts = _Texts(batch.column("identifier"))
        for name, text in wanted.exact:
            found &= texts.equal(name, text)
        for constraint in wanted.constraints:
            found &= texts.satisfy(constraint)
    box = region(wanted)
    if wanted.spatial is not None and box is not None and found.any():
        found &= _near(box, batch)
        rows = np.flatnonzero(found)
        found[rows] = _there(wanted.spatial, batch.column("geometry").take(pa.array(rows)))
    return pa.array(found)


def has_field(name: str, batch: pa.RecordBatch) -> Mask:
    """For each row with the columns of RECORD, whether its identifier has a field."""
    return _Texts(batch.column("identifier")).have(name)


def region(wanted: Filter | None) -> Box | None:
    """The box that a place must share a point with to match; None where places do not matter."""
    return None if wanted is None or wanted.spatial is None else wanted.spatial.box


def satisfied(constraint: Constraint, texts: pa.StringArray) -> Mask:
    """For each text of a field, whether it satisfies the constraint; a missing one does not."""
    coded = texts.dictionary_encode()
    distinct = coded.dictionary.to_pylist()
    answers = pa.array([constraint.test(text) for text in distinct], pa.bool_())
    return _plain(answers.take(coded.indices))


class _Texts:
    """The identifiers of a batch as flat columns, of which a slice sees its own part."""

    def __init__(self, column: pa.MapArray) -> None:
        offsets = np.asarray(column.offsets)
        begin, self._rows = int(offsets[0]), len(column)
        self._ends = offsets[1:] - begin
        count = int(offsets[-1]) - begin
        self._names = column.keys.slice(begin, count)
        self._texts = column.items.slice(begin, count)

    def have(self, name: str) -> Mask:
        """Rows that have the field."""
        places, _ = self._field(name)
        return self._spread(places, np.ones(len(places), np.bool_))

    def equal(self, name: str, text: str) -> Mask:
        """Rows whose field has this text."""
        places, texts = self._field(name)
        return self._spread(places, _plain(pc.equal(texts, text)))

    def satisfy(self, constraint: Constraint) -> Mask:
        """Rows whose field satisfies the constraint."""
        places, texts = self._field(constraint.field)
        return self._spread(places, satisfied(constraint, texts))

    def _field(self, name: str) -> tuple["np.ndarray[tuple[int], np.dtype[np.intp]]", pa.Array]:
        places = np.flatnonzero(_plain(pc.equal(self._names, name)))
        return places, self._texts.take(pa.array(places))

    def _spread(self, places: "np.ndarray[tuple[int], np.dtype[np.intp]]", answers: Mask) -> Mask:
        found = np.zeros(self._rows, np.bool_)
        found[np.searchsorted(self._ends, places, side="right")] = answers
        return found


def _near(box: Box, batch: pa.RecordBatch) -> Mask:
    """Rows whose box shares a point with this one; those without place do not."""
    near = pc.less_equal(batch.column("min_lat"), box.max_lat)
    near = pc.and_(near, pc.less_equal(batch.column("min_lon"), box.max_lon))
    near = pc.and_(near, pc.greater_equal(batch.column("max_lat"), box.min_lat))
    near = pc.and_(near, pc.greater_equal(batch.column("max_lon"), box.min_lon))
    return _plain(near)


def _there(spatial: Spatial, places: pa.BinaryArray) -> Mask:
    """The exact test; producers announce the same area again and again, so on distinct ones."""
    coded = places.dictionary_encode()
    # The spelling of a polygon does not matter here, and computing it would be expensive.
    distinct = [wkb.decode(data, "") for data in coded.dictionary.to_pylist()]
    answers: Mask = spatial.select(distinct)[np.asarray(coded.indices)]
    return answers


def _plain(answers: pa.BooleanArray) -> Mask:
    """Answers as an array; where there is nothing to compare, the answer is no."""
    known: Mask = np.asarray(pc.fill_null(answers, fill_value=False))
    return known
