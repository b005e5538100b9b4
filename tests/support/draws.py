"""Hypothesis strategies for notifications and the filters that ask for them."""

from typing import cast

from hypothesis import strategies as st
from support.config import settings

from aviso_server.core.announcement import notification_of
from aviso_server.core.filter import Filter
from aviso_server.core.identifier import compile_filter
from aviso_server.core.json import Json
from aviso_server.core.notification import Notification
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Schema
from aviso_server.core.wire import NotificationRequest

_FIELDS: dict[str, Json] = {
    "region": {"type": "EnumHandler", "required": False, "values": ["north", "south", "east"]},
    "level": {"type": "IntHandler", "required": False, "range": [-5, 5]},
    "value": {"type": "FloatHandler", "required": False},
    "tag": {"type": "StringHandler", "required": False},
    "polygon": {"type": "PolygonHandler", "required": False},
}

SCHEMA: Schema = settings(
    schemas={
        "mixed": {
            "topic": {"base": "mixed", "key_order": ["region", "level"]},
            "identifier": _FIELDS,
        }
    }
).catalogue.schemas["mixed"]
"""One event type with a field of every kind that a filter can test."""

_floats = st.sampled_from([-1.5, 0, 0.1, 0.30000000000000004, 1, 1e21, 2.5])
_grid = st.integers(-3, 3)
_ring = st.lists(st.tuples(_grid, _grid), min_size=3, max_size=6).map(
    lambda points: [list(map(float, p)) for p in [*points, points[0]]]
)


def _number(values: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """Any constraint on a numeric field."""
    return st.one_of(
        values,
        values.map(lambda v: {"eq": v}),
        st.tuples(st.sampled_from(["gt", "gte", "lt", "lte"]), values).map(
            lambda pair: {pair[0]: pair[1]}
        ),
        st.lists(values, min_size=1, max_size=3).map(lambda v: {"in": v}),
        st.tuples(values, values).map(lambda v: {"between": sorted(v)}),  # type: ignore[type-var]
    )


_regions = st.sampled_from(["north", "South", "EAST"])


def notifications() -> st.SearchStrategy[Notification]:
    """Notifications of the mixed event type."""
    identifiers = st.fixed_dictionaries(
        {
            "region": _regions,
            "level": st.integers(-5, 5),
            "value": _floats,
            "tag": st.sampled_from(["a", "*", "A", "é.b"]),
            "polygon": _ring,
        }
    )
    return identifiers.map(lambda drawn: _stored(cast("dict[str, Json]", drawn)))


def filters() -> st.SearchStrategy[Filter]:
    """Filters on the mixed event type."""
    identifiers = st.fixed_dictionaries(
        {},
        optional={
            "region": st.one_of(
                _regions,
                _regions.map(lambda v: {"eq": v}),
                st.lists(_regions, min_size=1, max_size=2).map(lambda v: {"in": v}),
            ),
            "level": _number(st.integers(-5, 5)),
            "value": _number(_floats),
            "tag": st.sampled_from(["a", "*", "A", "é.b"]),
        },
    )
    places: st.SearchStrategy[dict[str, Json]] = st.one_of(
        st.just({}),
        _ring.map(lambda ring: {"polygon": ring}),
        st.tuples(_grid, _grid).map(lambda p: {"point": [float(p[0]), float(p[1])]}),
    )
    return st.tuples(identifiers, places).map(
        lambda both: _asked(cast("dict[str, Json]", {**both[0], **both[1]}))
    )


def _stored(identifier: dict[str, Json]) -> Notification:
    return notification_of(SCHEMA, NotificationRequest(event_type="mixed", identifier=identifier))


def _asked(identifier: dict[str, Json]) -> Filter:
    return compile_filter(SCHEMA, identifier, Operation.WATCH)
