"""Rows of a synthetic history, and the requests that would announce them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aviso_server.core.fields.place import POINT_CLOUD, POLYGON
from aviso_server.core.geometry import Area
from aviso_server.core.json import Json, compact
from aviso_server.lake import wkb
from aviso_server.lake.layout import BOX, RECORD, TIME
from tools.synth.blocks import Blocks, Ints, same
from tools.synth.eventtypes import HOUR_NS, arrivals
from tools.synth.plan import Part, Plan, apportion

BATCH = 32_768

_PARAMETERS = (
    "t",
    "u",
    "v",
    "z",
    "q",
    "w",
    "d",
    "vo",
    "2t",
    "10u",
    "10v",
    "msl",
    "tp",
    "tcc",
    "sp",
)
_MEMBERS = 51
_LARGEST = 4_000_000
"""Bytes that a payload says its product has."""


@dataclass(frozen=True, slots=True, eq=False)
class _Drawn:
    """Rows of a part: which block each belongs to, and what is its own."""

    blocks: Blocks
    which: Ints
    sequence: Ints
    ns: Ints
    endings: pa.Array

    def column(self, name: str) -> pa.Array:
        """What the rows have of their blocks."""
        return self.blocks.shared[name].combine_chunks().take(pa.array(self.which))

    def payload(self) -> pa.Array:
        """Compact JSON."""
        return pc.binary_join_element_wise(self.column("prefix"), self.endings, "")


def rows(plan: Plan, part: Part) -> Iterator[pa.RecordBatch]:
    """The rows of a part, RECORD batches in the order of sequence and time."""
    for drawn in _drawn(plan, part):
        yield _batch(part.event_type, drawn)


def requests(plan: Plan, part: Part, *, key: str | None = None) -> Iterator[tuple[Ints, pa.Array]]:
    """The same as notify requests: storage times, and one JSON object each.

    With ``key`` each has an idempotency key that begins so.
    """
    for drawn in _drawn(plan, part):
        heads = pa.array(_heads(part.event_type, drawn.blocks.shared), pa.string())
        pieces = [heads.take(pa.array(drawn.which)), drawn.payload()]
        if key is not None:
            begin = f',"idempotency_key":"{key}-{part.event_type}-'
            pieces += [begin, pa.array(drawn.sequence).cast(pa.string()), '"']
        yield drawn.ns, pc.binary_join_element_wise(*pieces, "}", "")


def _drawn(plan: Plan, part: Part) -> Iterator[_Drawn]:
    today = arrivals(plan.seed, part.event_type, part.day)
    hours = today.start_ns // HOUR_NS
    blocks = today.take(np.flatnonzero(hours == part.hour))
    counts = apportion(part.count, blocks.weight)
    which = np.repeat(np.arange(len(blocks)), counts)
    number = np.arange(part.count) - np.repeat(np.cumsum(counts) - counts, counts)
    draw = np.random.default_rng((plan.seed, 1, crc32(part.event_type.encode()), part.hour))
    # More at the beginning of a burst than at its end.
    after = (blocks.spread_ns[which] * draw.random(part.count) ** 1.5).astype(np.int64)
    ns = np.minimum(blocks.start_ns[which] + after, (part.hour + 1) * HOUR_NS - 1)
    order = np.argsort(ns, kind="stable")
    sizes = draw.integers(1000, _LARGEST, part.count)
    for first in range(0, part.count, BATCH):
        chosen = order[first : first + BATCH]
        sequence = part.first + first + np.arange(len(chosen))
        endings = _endings(number[chosen], sizes[chosen])
        yield _Drawn(blocks, which[chosen], sequence, ns[chosen], endings)


def _batch(event_type: str, drawn: _Drawn) -> pa.RecordBatch:
    count = len(drawn.sequence)
    texts = pa.array(drawn.sequence).cast(pa.string())
    return pa.RecordBatch.from_arrays(
        [
            same(event_type, 1).take(pa.array(np.zeros(count, np.int64))),
            pa.array(drawn.sequence),
            pc.binary_join_element_wise(event_type, texts, "@"),
            pa.array(drawn.ns // 1000).cast(TIME),
            pa.array(drawn.ns),
            drawn.column("topic"),
            drawn.column("subject"),
            drawn.column("identifier"),
            drawn.payload(),
            drawn.column("geometry"),
            pa.nulls(count, pa.string()),
            *(drawn.column(name) for name in BOX),
        ],
        schema=RECORD,
    )


def _heads(event_type: str, shared: pa.Table) -> list[str]:
    """Requests of blocks up to the payload."""
    made = []
    for pairs, data in zip(
        shared["identifier"].to_pylist(), shared["geometry"].to_pylist(), strict=True
    ):
        identifier: dict[str, Json] = dict(pairs)
        if data is not None:
            place = wkb.decode(data)
            name = POLYGON if isinstance(place, Area) else POINT_CLOUD
            identifier[name] = [list(point) for point in place.points]
        text = compact({"event_type": event_type, "identifier": identifier}).decode()
        made.append(f'{text[:-1]},"payload":')
    return made


def _endings(number: Ints, sizes: Ints) -> pa.Array:
    """The rest of each payload: a name that is new within its block, and a size."""
    pool = _names()
    name = pool.take(pa.array(number % len(pool)))
    again = pa.array(number // len(pool)).cast(pa.string())
    return pc.binary_join_element_wise(
        name, "-", again, '","size":', pa.array(sizes).cast(pa.string()), "}", ""
    )


@lru_cache(maxsize=1)
def _names() -> pa.Array:
    return pa.array(
        [f"{name}-{member}" for member in range(_MEMBERS) for name in _PARAMETERS], pa.string()
    )
