"""Rows in sequence order without sorting all of them: pieces of the range, each sorted separately.

A piece of a range of sequences becomes one partition, and partitions keep their order. That takes
one shuffle and no sampling, for where a row goes follows from its sequence.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it


def in_pieces(rows: DataFrame, first: int, last: int, *, size: int) -> DataFrame:
    """The rows of ``first..last``, a partition for each ``size`` sequences, sorted within."""
    count = -(-(last - first + 1) // size)
    piece = F.expr(f"int((sequence - {first}) div {size})")
    return rows.repartitionById(count, piece).sortWithinPartitions("sequence")
