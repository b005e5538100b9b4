"""Validating claims: the rules of core, remembered where that pays."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.core.announcement import notification_of
from aviso_server.core.errors import RequestError
from aviso_server.core.json import Json, compact
from aviso_server.core.notification import Notification
from aviso_server.core.wire import parse_request
from aviso_server.pipeline.ingest.claim import read_line
from aviso_server.pipeline.ingest.validate import Rejection, Validator
from aviso_server.settings import load

EXAMPLE = Path(__file__).parents[3] / "examples" / "config.yaml"
CATALOGUE = load(config_file=EXAMPLE, environ={}, cwd=EXAMPLE.parent, home=None).catalogue
FULL: dict[str, Json] = {
    "class": "od", "expver": "1", "domain": "g", "date": "2026-01-01", "time": "6",
    "stream": "oper", "step": "003",
}  # fmt: skip

values = st.none() | st.booleans() | st.integers(-5, 300) | st.sampled_from(["od", "xyz", "", "12"])
identifiers = st.fixed_dictionaries(
    {}, optional={name: values | st.just(good) for name, good in FULL.items()}
) | st.just(FULL)
requests: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"event_type": st.sampled_from(["mars", "dissemination", "nothing", 7])},
    optional=dict[str, Any](
        {
            "identifier": identifiers | st.just({**FULL, "point": "1,2"}) | st.just([]),
            "payload": st.none() | st.integers() | st.just({"b": 1, "a": [2.0]}),
            "from_id": st.just("1"),
            "zebra": st.just(1),
        }
    ),
)


def by_core(body: bytes) -> Notification | str:
    """What the server would do."""
    try:
        request = parse_request(body)
        return notification_of(CATALOGUE.find(request.event_type), request)
    except RequestError as error:
        return error.message


@given(st.lists(requests, min_size=1, max_size=12))
def test_rows_are_validated_as_by_the_server(rows: list[dict[str, Json]]) -> None:
    """Whatever was validated before: the same notifications, the same words of refusal."""
    validator = Validator(CATALOGUE)
    for row in [*rows, *rows]:
        body = compact(row)
        found = validator.validate(read_line(body))
        assert (found.reason if isinstance(found, Rejection) else found) == by_core(body)


def test_remembering_saves_the_rules() -> None:
    """The second row of an identifier takes no look at the schema, and has its own payload."""
    validator = Validator(CATALOGUE)
    lines = [compact({"event_type": "mars", "identifier": FULL, "payload": n}) for n in range(3)]
    found = [validator.validate(read_line(line)) for line in lines]
    assert len(validator._known) == 1
    assert [item.payload for item in found if isinstance(item, Notification)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("identifier", "code", "field"),
    [
        ({**FULL, "step": "x"}, "INVALID_REQUEST", "step"),
        ({**FULL, "color": "red"}, "INVALID_REQUEST", "color"),
        ({"class": "od"}, "INVALID_REQUEST", "expver"),
        ({**FULL, "point": "1,2"}, "INVALID_REQUEST", "point"),
        (7, "WRONG_SHAPE", "identifier"),
    ],
)
def test_rejections_name_the_field(identifier: Json, code: str, field: str | None) -> None:
    """Code and field are given beside the reason."""
    found = Validator(CATALOGUE).validate(
        read_line(compact({"event_type": "mars", "identifier": identifier}))
    )
    assert isinstance(found, Rejection)
    assert (found.code, found.field) == (code, field)


def test_nesting_is_limited_for_remembered_rows_too() -> None:
    """A payload that is too deep is refused as a whole request would be."""
    validator = Validator(CATALOGUE)
    for depth in (1, 127, 128, 200):
        body = compact({"event_type": "mars", "identifier": FULL, "payload": 1})
        line = body.replace(b":1,", b":1,").replace(
            b'"payload":1', b'"payload":' + b"[" * depth + b"]" * depth
        )
        found = validator.validate(read_line(line))
        assert (found.reason if isinstance(found, Rejection) else found) == by_core(line)
