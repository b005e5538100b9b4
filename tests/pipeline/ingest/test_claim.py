"""Lines of legacy histories as claims."""

import pytest
from support.lake import record

from aviso_server.core.cloudevent import Renderer
from aviso_server.core.errors import AvisoError
from aviso_server.core.json import parse
from aviso_server.core.moment import rfc3339
from aviso_server.pipeline.ingest.claim import BadClaim, Claim, read_line

NS = 1_767_225_600_123_456_789


def test_a_request_with_what_stands_beside_it() -> None:
    """Time, sequence and key are taken out; the request remains as it was spelled."""
    claim = read_line(
        b'{"event_type":"ev","identifier":{"region": "n"},"payload":[1.50],'
        b'"time":"%b","sequence":12,"idempotency_key":"k"}' % rfc3339(NS).encode()
    )
    assert claim == Claim(b'"ev"', b'{"region": "n"}', b"[1.50]", {}, 12, NS)
    assert claim.body == b'{"event_type":"ev","identifier":{"region": "n"},"payload":[1.50]}'


def test_a_cloud_event_is_read_back() -> None:
    """What the server renders says event type, sequence, time, identifier and payload."""
    item = record(7, ns=NS, identifier={"class": "od", "step": "3"})
    claim = read_line(Renderer("http://x").render(item))
    assert (claim.sequence, claim.time_ns) == (7, NS)
    assert parse(claim.body) == {
        "event_type": "mars",
        "identifier": {"class": "od", "step": "3"},
        "payload": {"n": 7},
    }


def test_the_sequence_of_an_id() -> None:
    """Without a sequence of its own a row has that of its id."""
    assert read_line(b'{"event_type":"ev","identifier":{},"id":"ev@31"}').sequence == 31


def test_unknown_members_stay_in_the_request() -> None:
    """The rules of the server are to find them."""
    claim = read_line(b'{"event_type":"ev","identifier":{},"zebra":1}')
    assert parse(claim.body) == {"event_type": "ev", "identifier": {}, "zebra": 1}


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        (b"nonsense", None, "JSON parsing failed"),
        (b"[1]", None, "a line is a JSON object"),
        (b'"\xff"', None, "invalid UTF-8"),
        (b'{"event_type":"ev","sequence":0}', "sequence", "from 1 on"),
        (b'{"event_type":"ev","sequence":true}', "sequence", "from 1 on"),
        (b'{"event_type":"ev","sequence":99999999999999999999}', "sequence", "from 1 on"),
        (b'{"event_type":"ev","time":"yesterday"}', "time", "time"),
        (b'{"event_type":"ev","time_ns":"1"}', "time_ns", "nanoseconds"),
        (b'{"specversion":"1.0","type":"other","data":{}}', "type", "int.ecmwf.aviso."),
        (b'{"specversion":"1.0","type":"int.ecmwf.aviso.ev","data":1}', "data", "object"),
    ],
)
def test_lines_that_cannot_be_read(line: bytes, field: str | None, words: str) -> None:
    """The error says what, and which member."""
    with pytest.raises(AvisoError, match=words) as caught:
        read_line(line)
    if field is not None:
        assert isinstance(caught.value, BadClaim)
        assert caught.value.field == field
