"""A filter as a Spark condition over the columns of RECORD.

Theory of operation
What Spark can decide itself comes first: equal texts, numbers, words and overlapping boxes.
Comparisons with box columns are pushed down to Parquet statistics, and only rows that pass them
reach Python, where the Arrow executor decides exact places. The condition is never null, so that it
can be negated: rows without the field or the place simply do not match.
"""

import math
from functools import reduce
from operator import and_
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import BooleanType

from aviso_server.core.constraint import Choice, Constraint, Kind
from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Box
from aviso_server.lake.layout import BOX
from aviso_server.lake.predicate import mask, satisfied
from aviso_server.pipeline.history.fields import float_value, int_value


def matches(wanted: Filter) -> Column:
    """The condition that a row is asked for; true for every row if nothing is asked."""
    tests = [F.col("identifier")[name].eqNullSafe(text) for name, text in wanted.exact]
    ours = [item for item in wanted.constraints if _is_native(item)]
    tests += [F.coalesce(_holds(item), F.lit(col=False)) for item in ours]
    if wanted.spatial is not None:
        tests += _near(wanted.spatial.box)
    rest = tuple(item for item in wanted.constraints if item not in ours)
    tests += _rest(Filter((), rest, wanted.spatial))
    return reduce(and_, tests) if tests else F.lit(col=True)


def _is_native(constraint: Constraint) -> bool:
    """Whether Spark reads the stored texts as we do.

    Numbers it does. Lower case differs between Java and Python, but not where ASCII comes of it.
    """
    if not isinstance(constraint, Choice) or constraint.kind is not Kind.ENUM:
        return True
    return all(isinstance(word, str) and word.isascii() for word in constraint.choices)


def _holds(constraint: Constraint) -> Column:
    """The field satisfies the constraint; null or false if its text does not read as its kind."""
    text = F.col("identifier")[constraint.field]
    value = F.lower(text) if constraint.kind is Kind.ENUM else int_value(text)
    if constraint.kind is Kind.FLOAT:
        # Numbers beyond a double match nothing, and zero has one sign.
        value = float_value(text) + F.lit(0.0)
        value = F.when(F.abs(value) < math.inf, value)
    if isinstance(constraint, Choice):
        return value.isin(list(constraint.choices))
    tests = []
    if constraint.low is not None:
        tests.append(value > constraint.low if constraint.low_open else value >= constraint.low)
    if constraint.high is not None:
        tests.append(value < constraint.high if constraint.high_open else value <= constraint.high)
    return reduce(and_, tests)


def _near(box: Box) -> list[Column]:
    """The row's box shares a point with the wanted one; false without a box."""
    return [
        F.col("min_lat").isNotNull(),  # makes the whole false, not null, in rows without place
        F.col("min_lat") <= box.max_lat,
        F.col("max_lat") >= box.min_lat,
        F.col("min_lon") <= box.max_lon,
        F.col("max_lon") >= box.min_lon,
    ]


def _rest(wanted: Filter) -> list[Column]:
    """What only Python can decide, with only the columns it needs: maps are expensive to pass."""
    constraints, spatial = wanted.constraints, wanted.spatial
    texts = [F.col("identifier")[item.field] for item in constraints]
    places = ["geometry", *BOX] if spatial is not None else []
    if not texts and not places:
        return []

    def decide(*arrays: pa.Array) -> pa.Array:
        found = np.ones(len(arrays[0]), np.bool_)
        for constraint, column in zip(constraints, arrays, strict=False):
            found &= satisfied(constraint, column)
        if places:
            rows = pa.RecordBatch.from_arrays(list(arrays[len(constraints) :]), names=places)
            found &= np.asarray(mask(Filter((), (), spatial), rows))
        return pa.array(found)

    # PySpark's stubs do not know arrow_udf yet.
    made = F.arrow_udf(decide, BooleanType())  # type: ignore[attr-defined]
    return [cast("Column", made(*texts, *map(F.col, places)))]
