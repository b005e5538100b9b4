"""Expectations of single notifications as Spark conditions over the columns of RECORD."""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from aviso_server.core.expectation import PAYLOAD, Expectations
from aviso_server.core.fields.place import POINT_CLOUD, POLYGON
from aviso_server.pipeline.history.predicate import matches


class RowTest(NamedTuple):
    """One expectation."""

    name: str
    """Where it is declared, such as ``values.step``."""
    expected: str
    checked: Column
    """Whether a row can be compared at all; never null."""
    unexpected: Column
    """Whether one that can is not as expected; never null."""


def row_tests(expected: Expectations) -> Iterator[RowTest]:
    """All of an event type."""
    for item in expected.values:
        has = F.col("identifier")[item.field].isNotNull()
        differs = has & ~reduce(or_, map(matches, item.any_of))
        yield RowTest(f"values.{item.field}", item.text, has, differs)
    for name in expected.present:
        yield RowTest(f"present.{name}", "present", F.lit(col=True), _missing(name))


def _missing(name: str) -> Column:
    if name in (POLYGON, POINT_CLOUD):
        return F.col("geometry").isNull()
    head, _, path = name.partition(".")
    if head != PAYLOAD:
        return F.col("identifier")[name].isNull()
    payload = F.coalesce("payload", F.lit("null"))
    if not path:
        return payload == "null"
    steps = "".join(f"['{step}']" for step in path.split("."))
    return F.get_json_object(payload, f"${steps}").isNull()
