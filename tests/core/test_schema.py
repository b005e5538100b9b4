"""The catalogue: strict and generic mode, names, the public view."""

import pytest
from support.config import settings

from aviso_server.core.errors import InvalidRequest, UnknownEventType
from aviso_server.core.json import compact
from aviso_server.core.schema import Catalogue, Schema

CONFIGURED = settings().catalogue


def test_strictness_follows_the_schema() -> None:
    """Unset: strict exactly if there is an entry; set: as set."""
    schema = Schema("a", base="a")
    assert Catalogue([schema]).strict
    assert not Catalogue([]).strict
    assert not Catalogue([schema], strict=False).strict
    assert Catalogue([], strict=True).strict


def test_unknown_event_types() -> None:
    """Refused by name, with the configured ones sorted."""
    with pytest.raises(UnknownEventType) as caught:
        CONFIGURED.find("Extreme")
    assert caught.value.message == "unknown event type 'Extreme'"
    assert list(caught.value.configured) == sorted(CONFIGURED.schemas)


@pytest.mark.parametrize("name", ["", "-a", "a b", "a.b", "é", "a*", "_a"])
def test_generic_names(name: str) -> None:
    """An event type without schema must be a plain name."""
    with pytest.raises(InvalidRequest) as caught:
        Catalogue(strict=False).find(name)
    assert caught.value.message == (
        f"event_type '{name}' is invalid. It must match [A-Za-z0-9][A-Za-z0-9_-]*"
    )


def test_generic_names_cannot_take_a_configured_stream() -> None:
    """The stream of ``diss2`` is DISS: an event type ``Diss`` would share it."""
    catalogue = Catalogue(CONFIGURED.schemas.values(), strict=False)
    with pytest.raises(InvalidRequest, match="event_type 'Diss' conflicts with an existing stream"):
        catalogue.find("Diss")


def test_resolving_admin_names() -> None:
    """Exact, then ignoring case, then the stream name."""
    assert CONFIGURED.resolve("extreme") == "extreme"
    assert CONFIGURED.resolve("EXTREME") == "extreme"
    assert CONFIGURED.resolve("diss") == "diss2"
    assert CONFIGURED.resolve("POLYGON") == "test_polygon"
    assert CONFIGURED.resolve("made_up") is None
    assert CONFIGURED.resolve("MADE_UP", ["made_up"]) == "made_up"


def test_the_public_view_of_the_specification() -> None:
    """The public view of a schema, byte for byte."""
    schema = settings(
        schemas={
            "x": {
                "topic": {"base": "x", "key_order": ["date"]},
                "identifier": {
                    "date": {"type": "DateHandler", "required": True},
                    "level": {"type": "FloatHandler", "required": False, "range": [0, 100]},
                    "point_cloud": {
                        "type": "PointCloudHandler",
                        "required": True,
                        "description": "observed stations",
                    },
                    "region": {
                        "type": "EnumHandler",
                        "required": False,
                        "values": ["north", "south"],
                    },
                    "tag": {"type": "StringHandler", "required": False},
                },
            }
        }
    ).catalogue.schemas["x"]
    assert compact(schema.view()) == (
        b'{"identifier":{"date":{"canonical_format":"%Y%m%d","required":true,"type":"DateHandler"},'
        b'"level":{"range":[0.0,100.0],"required":false,"type":"FloatHandler"},"point_cloud":'
        b'{"description":"observed stations","max_points":10000,"required":true,'
        b'"type":"PointCloudHandler"},"region":{"required":false,"type":"EnumHandler",'
        b'"values":["north","south"]},"tag":{"max_length":null,"required":false,'
        b'"type":"StringHandler"}},"payload":null}'
    )


def test_labels_are_bounded() -> None:
    """Metrics never carry a name that a client made up."""
    assert CONFIGURED.label("ev") == "ev"
    assert CONFIGURED.label("made_up") == "generic"
