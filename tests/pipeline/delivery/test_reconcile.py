"""What a server has already, asked of a real one."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from support.config import document
from support.process import server_process
from support.source import SAMPLES

from aviso_server.pipeline.delivery.client import Client
from aviso_server.pipeline.delivery.reconcile import TargetStream, match
from aviso_server.pipeline.delivery.target import Target


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A server, and how to publish to it."""
    folder = tmp_path_factory.mktemp("server")
    with server_process(document(), folder) as server:
        yield Target(url=server.url)


def body(event_type: str, identifier: Any, payload: Any) -> bytes:
    """A request."""
    return json.dumps(
        {"event_type": event_type, "identifier": identifier, "payload": payload}
    ).encode()


def publish(target: Target, bodies: list[bytes]) -> None:
    """Store them, in order."""
    client = Client(target)
    for text in bodies:
        client.post([text])
    client.close()


@pytest.mark.parametrize("event_type", [name for name in SAMPLES if name != "Foo"])
def test_what_was_stored_is_found(target: Target, event_type: str) -> None:
    """Whatever its fields, required places too; equal ones count as often as they are there."""
    identifier, _ = SAMPLES[event_type]
    sent = [body(event_type, identifier, n) for n in (1, 2, 2, 3)]
    stream = TargetStream(target, event_type)
    assert stream.end(sent) == 0
    publish(target, sent)
    more = [*sent, sent[1], body(event_type, identifier, 9)]
    assert stream.holds(more, above=0) == ([True, True, True, True, False, False], 4)
    assert stream.holds(sent[3:], above=3) == ([True], 4)
    assert stream.holds(sent, above=4) == ([False] * 4, 4)


def test_requests_that_are_rejected_are_not_there(target: Target) -> None:
    """They tell nothing about the stream either."""
    wrong = body("extreme", {"nothing": 1}, 1)
    stream = TargetStream(target, "extreme")
    assert stream.end([wrong]) is None
    assert stream.holds([wrong], above=0) == ([False], 0)


def test_values_are_compared_as_the_server_writes_them(target: Target) -> None:
    """What the source spells 1.50 the server may keep as 1.5."""
    stream = TargetStream(target, "extreme")
    sent = [
        body("extreme", {"region": "NORTH", "run_time": "6", "severity": "07", "anomaly": 1.50}, {})
    ]
    last = stream.end(sent)
    assert last is not None
    publish(target, sent)
    assert stream.holds(sent, above=last) == ([True], last + 1)


def test_superseded_ones_were_stored() -> None:
    """A stream that keeps one of each thing has only the last; those before are not sent again."""
    a1, a2, b1 = (("a",), None, b"1"), (("a",), None, b"2"), (("b",), None, b"1")
    assert match([a1, b1, a2], Counter([a2])) == [True, False, True]
    assert match([a1, None, a1], Counter([a1])) == [True, False, False]
