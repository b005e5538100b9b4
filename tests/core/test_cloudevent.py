"""CloudEvents: nine members, alphabetical, exact bytes."""

import json

from backends.contract import notification
from hypothesis import given
from hypothesis import strategies as st
from support.draws import notifications

from aviso_server.core.cloudevent import Renderer
from aviso_server.core.notification import Notification, Record

FLAT = "(52.5,13.4,52.6,13.5,52.5,13.6,52.4,13.5,52.5,13.4)"
TIME_NS = 1_772_618_400_123_456_789


def test_polygon_text_on_request() -> None:
    """``polygon_output: string`` gives the stored text."""
    item = notification({"date": "20250706", "polygon": FLAT}, None, "area")
    rendered = Renderer("http://x/", polygon_text=True).render(Record(1, TIME_NS, item))
    event = json.loads(rendered)
    assert event["data"]["identifier"]["polygon"] == FLAT
    assert event["source"] == "http://x/"
    assert event["dataschema"] == "http://x/api/v1/schema/area"


@given(notifications(), st.integers(1, 2**63), st.integers(0, 2**62))
def test_any_notification_is_valid_and_sorted(item: Notification, sequence: int, ns: int) -> None:
    """Whatever was announced, the event parses, is compact and has its keys in order."""
    rendered = Renderer("http://localhost").render(Record(sequence, ns, item))
    event = json.loads(rendered)
    assert list(event) == sorted(event)
    assert len(event) == 9
    assert event["sequence"] == sequence
    assert event["id"] == f"mixed@{sequence}"
    identifier = event["data"]["identifier"]
    assert list(identifier) == sorted(identifier)
    assert {k: v for k, v in identifier.items() if k != "polygon"} == item.identifier
    assert b"\n" not in rendered


def test_event_types_are_escaped() -> None:
    """A configured event type may have any name; URL and JSON stay valid."""
    item = Notification('a"/é', ("x",), {}, None, b"null")
    event = json.loads(Renderer("http://x").render(Record(1, 0, item)))
    assert event["id"] == 'a"/é@1'
    assert event["dataschema"] == "http://x/api/v1/schema/a%22%2F%C3%A9"
