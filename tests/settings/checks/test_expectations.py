"""Start-up checks on what is expected of event types."""

import pytest

from aviso_server.core.json import Json
from settings.configurations import FIELD, faults, messages, settings, with_schema

FIELDS: dict[str, Json] = {
    "class": FIELD,
    "date": {"type": "DateHandler", "required": False},
    "step": {"type": "IntHandler", "range": [0, 500], "required": False},
    "polygon": {"type": "PolygonHandler", "required": False},
}


@pytest.mark.parametrize(
    ("expected", "path", "why"),
    [
        ({"values": {"stepp": 1}}, "values.stepp", "not a field"),
        ({"values": {"polygon": "(1,2)"}}, "values.polygon", "not a field whose values are"),
        ({"values": {"step": {"like": 1}}}, "values.step", "invalid operator 'like'"),
        ({"values": {"step": {"lte": 1000}}}, "values.step", "range"),
        ({"values": {"step": "x"}}, "values.step", "integer"),
        ({"values": {"class": {"in": ["a"]}}}, "values.class", "does not support constraint"),
        ({"values": {"class": []}}, "values.class", "is empty"),
        ({"present": ["nothing"]}, "present", "'nothing' is neither"),
        ({"present": ["payload."]}, "present", "'payload.' is neither"),
        ({"present": ["payload.it's"]}, "present", "is neither"),
        ({"every": "soon"}, "every", "duration"),
        ({"every": "0s"}, "every", "greater than zero"),
        ({"per_cycle": 0}, "per_cycle", "greater than zero"),
    ],
)
def test_what_cannot_be_expected(expected: Json, path: str, why: str) -> None:
    """The fault names the setting and the reason."""
    (fault,) = faults(with_schema(identifier=FIELDS, expectations=expected))
    assert fault.path == f"notification_schema.mars.expectations.{path}"
    assert why in fault.message


def test_cycles_need_a_date() -> None:
    """Without one there are none."""
    raw = with_schema(expectations={"per_cycle": 2})
    assert messages(raw) == ["needs a field of type DateHandler, which makes cycles"]


def test_what_can() -> None:
    """Constraints, values and lists of them, in canonical form."""
    raw = with_schema(
        identifier=FIELDS,
        expectations={
            "values": {"step": {"between": [0, 240]}, "class": ["od", "rd"], "date": "2026-01-01"},
            "present": ["class", "polygon", "payload", "payload.a"],
            "every": "6h",
            "per_cycle": 3,
        },
    )
    found = settings(raw).catalogue.schemas["mars"].expectations
    step, name, date = found.values
    assert step.any_of[0].constraints
    assert [item.exact for item in name.any_of] == [(("class", "od"),), (("class", "rd"),)]
    assert date.any_of[0].exact == (("date", "20260101"),)
    assert (found.every_s, found.per_cycle) == (21_600, 3)
    assert not settings(with_schema()).catalogue.schemas["mars"].expectations
