"""Rows of synthetic histories: valid, ordered, with what reports look for."""

from collections import Counter
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from aviso_server.core.announcement import notification_of
from aviso_server.core.wire import parse_request
from aviso_server.lake.layout import RECORD
from aviso_server.lake.record import batch_to_records, records_to_batch
from aviso_server.settings import load
from tools.synth import Part, Plan, parts, rows
from tools.synth.eventtypes import EVENT_TYPES, HOUR_NS
from tools.synth.forecast import CYCLES, STEPS, timeline
from tools.synth.generate import requests

EXAMPLE = Path(__file__).parents[3] / "examples" / "config.yaml"
PLAN = Plan(date(2026, 3, 1), days=2, count=6000, seed=11)
DAY = (date(2026, 3, 1) - date(1970, 1, 1)).days


def made(plan: Plan, event_type: str) -> list[tuple[Part, pa.RecordBatch]]:
    """Every batch of an event type with its part."""
    mine = [part for part in parts(plan) if part.event_type == event_type]
    return [(part, batch) for part in mine for batch in rows(plan, part)]


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_rows_are_what_the_server_would_store(event_type: str) -> None:
    """Under the example configuration each request becomes the very row that was made."""
    loaded = load(config_file=EXAMPLE, environ={}, cwd=EXAMPLE.parent, home=None)
    schema = loaded.catalogue.find(event_type)
    for part in [part for part in parts(PLAN) if part.event_type == event_type]:
        records = [record for batch in rows(PLAN, part) for record in batch_to_records(batch)]
        bodies = [text for _, texts in requests(PLAN, part) for text in texts.to_pylist()]
        for record, body in zip(records, bodies, strict=True):
            request = parse_request(body.encode())
            assert notification_of(schema, request) == record.notification


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_rows_are_rows_of_the_lake(event_type: str) -> None:
    """A batch made in bulk is the batch that the lake's own codec makes of its records."""
    for _, batch in made(PLAN, event_type):
        assert batch.schema == RECORD
        assert records_to_batch(batch_to_records(batch)).equals(batch)


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_time_follows_the_sequence(event_type: str) -> None:
    """Sequences have no holes, times never decrease, and each part keeps to its hour."""
    found = made(PLAN, event_type)
    sequences = np.concatenate([batch.column("sequence").to_numpy() for _, batch in found])
    times = np.concatenate([batch.column("time_ns").to_numpy() for _, batch in found])
    assert sequences.tolist() == list(range(1, len(sequences) + 1))
    assert (np.diff(times) >= 0).all()
    for part, batch in found:
        assert set((batch.column("time_ns").to_numpy() // HOUR_NS).tolist()) == {part.hour}


def test_seeds_and_days_matter() -> None:
    """Another seed is another history; the same one is the same."""
    one, again, other = (
        pa.Table.from_batches([batch for _, batch in made(plan, "mars")])
        for plan in (PLAN, PLAN, Plan(PLAN.start, PLAN.days, PLAN.count, seed=12))
    )
    assert one.equals(again)
    assert not one.equals(other)


def test_cycles_bring_their_steps() -> None:
    """On a day without mishap all four cycles bring all steps of both streams."""
    there = timeline(11, DAY).there.sum(axis=2)
    assert len(STEPS) == 65
    expected = Counter({(0, 65): 0, (1, 49): 0})
    for cycle in range(len(CYCLES)):
        assert int(there[cycle].max()) == [65, 49][cycle % 2]
        expected[cycle % 2, int(there[cycle].max())] += 1
    assert expected == {(0, 65): 2, (1, 49): 2}


def test_some_products_are_late_and_some_never_come() -> None:
    """Over a year late and missing cycles are there, and are exceptions."""
    late = missing = 0
    for day in range(DAY, DAY + 365):
        line = timeline(5, day)
        begin = line.arrival_ns[:, :, 0] - day * 24 * HOUR_NS
        begin -= (np.arange(4) * 6 * HOUR_NS).reshape(4, 1)
        late += int((begin[:, 0] > 6.2 * HOUR_NS).sum())
        missing += int((~line.there[:, :, 0]).sum())
        # What arrives more than a day later would be lost between the days.
        assert line.arrival_ns.max() < (day + 2) * 24 * HOUR_NS
    assert 10 <= late <= 70
    assert 3 <= missing <= 40
