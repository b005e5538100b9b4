"""Expectations of single notifications, counted over Arrow rows as tasks write them.

They mean what ``pipeline/history/expected.py`` says in Spark; a test compares the two.
"""

import base64
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from aviso_server.core.expectation import PAYLOAD, Expectations, ExpectedValue
from aviso_server.core.fields.place import POINT_CLOUD, POLYGON
from aviso_server.core.json import Json, parse
from aviso_server.lake.predicate import has_field, mask

Expected: TypeAlias = Mapping[str, Expectations]
_Count: TypeAlias = Callable[[pa.RecordBatch], int]


class RowCounts:
    """How many notifications are not as expected, by expectation."""

    def __init__(self, expected: Expected) -> None:
        self._tests = list(_tests(expected))
        self.found = [0] * len(self._tests)

    @property
    def names(self) -> list[tuple[str, str]]:
        """Event type and expectation of every count."""
        return [(event_type, name) for event_type, name, _ in self._tests]

    def add(self, batch: pa.RecordBatch) -> None:
        """Take notifications of one event type."""
        if not self._tests or not batch.num_rows:
            return
        ours = batch.column("event_type")[0].as_py()
        for number, (event_type, _, count) in enumerate(self._tests):
            if event_type == ours:
                self.found[number] += count(batch)


def pack(expected: Expected) -> str:
    """Expectations as an option of a data source."""
    packed: bytes = cloudpickle.dumps(dict(expected))  # type: ignore[no-untyped-call]
    return base64.b64encode(packed).decode()


def unpack(text: str) -> Expected:
    """Expectations of such an option."""
    if not text:
        return {}
    found: Expected = pickle.loads(base64.b64decode(text))  # noqa: S301 - from our own job
    return found


def _tests(expected: Expected) -> Iterator[tuple[str, str, _Count]]:
    for event_type, ours in expected.items():
        for item in ours.values:
            yield event_type, f"values.{item.field}", _different(item)
        for name in ours.present:
            yield event_type, f"present.{name}", _missing(name)


def _different(item: ExpectedValue) -> _Count:
    def count(batch: pa.RecordBatch) -> int:
        bad = has_field(item.field, batch)
        for wanted in item.any_of:
            bad &= ~np.asarray(mask(wanted, batch))
        return int(bad.sum())

    return count


def _missing(name: str) -> _Count:
    if name in (POLYGON, POINT_CLOUD):
        return lambda batch: int(batch.column("geometry").null_count)
    head, _, path = name.partition(".")
    if head != PAYLOAD:
        return lambda batch: batch.num_rows - int(has_field(name, batch).sum())
    if not path:
        return lambda batch: _nothing(batch.column("payload"))
    steps = path.split(".")
    return lambda batch: sum(
        _member(text, steps) is None for text in batch.column("payload").to_pylist()
    )


def _nothing(payloads: pa.StringArray) -> int:
    return int(pc.sum(pc.equal(pc.fill_null(payloads, "null"), "null")).as_py())


def _member(payload: str | None, steps: list[str]) -> Json:
    value: Json = None if payload is None else parse(payload.encode())
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value
