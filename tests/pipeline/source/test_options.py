"""Options of the source: every one is checked, none is guessed, no secret is shown."""

import json
import pickle

import pytest
from support.config import settings

from aviso_server.core.declaration import declaration
from aviso_server.pipeline.source.failure import BadOption
from aviso_server.pipeline.source.options import (
    KNOWN,
    Access,
    At,
    Earliest,
    Latest,
    Moment,
    Points,
    SourceOptions,
    login_of,
    read_options,
)

NATS = {"servers": "nats://one:4222, nats://two:4222", "eventType": "mars"}


def test_defaults() -> None:
    """Everything from the earliest on, and a loss is an error."""
    assert read_options(NATS) == SourceOptions(
        Access("nats", ("nats://one:4222", "nats://two:4222")), ("mars",)
    )


def test_names_are_spelled_in_any_case() -> None:
    """Spark itself may hand names over in lower case."""
    spelled = {name.upper(): text for name, text in NATS.items()}
    assert read_options(spelled) == read_options(NATS)


@pytest.mark.parametrize(
    ("option", "value", "starting"),
    [
        ("startingSequence", "earliest", Points(Earliest())),
        ("startingSequence", "Latest", Points(Latest())),
        ("startingSequence", "5", Points(At(5))),
        ("startingSequence", '{"mars": 5}', Points(Earliest(), {"mars": At(5)})),
        ("startingSequence", '{"a": "latest", "*": 1}', Points(At(1), {"a": Latest()})),
        ("startingTimestamp", "1970-01-01T00:00:01.000000002Z", Points(Moment(1_000_000_002))),
        ("startingTimestamp", "1740509903", Points(Moment(1_740_509_903 * 10**9))),
    ],
)
def test_starting_points(option: str, value: str, starting: Points) -> None:
    """Words, numbers, JSON by event type, and every time format of the API."""
    assert read_options({**NATS, option: value}).starting == starting


def test_ending_points() -> None:
    """The same on the other side, and it is known that there is one."""
    assert not read_options(NATS).bounded
    options = read_options({**NATS, "endingSequence": '{"mars": 7}'})
    assert options.bounded
    assert (options.ending.of("mars"), options.ending.of("other")) == (At(7), Latest())


@pytest.mark.parametrize(
    ("text", "event_types"),
    [("mars", ("mars",)), (" a , b,a", ("a", "b")), ("*", None), ("a,*", None)],
)
def test_event_types(text: str, event_types: tuple[str, ...] | None) -> None:
    """One, several, or all."""
    assert read_options({**NATS, "eventType": text}).event_types == event_types


@pytest.mark.parametrize(
    "text",
    ['{"a":1}', '{"identifier":{"a":1}}', '{"event_type":"mars","identifier":{"a":1}}'],
)
def test_filters_are_identifiers_or_requests(text: str) -> None:
    """The body of a watch request can be pasted as it is."""
    options = read_options({**NATS, "filter": text})
    assert (options.event_types, options.identifier) == (("mars",), {"a": 1})


def test_a_request_names_the_event_type() -> None:
    """Then the option need not."""
    text = '{"event_type":"mars","identifier":{}}'
    options = read_options({"servers": "nats://one", "filter": text})
    assert options.event_types == ("mars",)


@pytest.mark.parametrize(
    ("given", "access"),
    [
        ({"url": "https://h"}, Access("http", ("https://h",))),
        ({"servers": "h:4222"}, Access("nats", ("h:4222",))),
        ({"servers": "tls://h", "transport": "NATS"}, Access("nats", ("tls://h",))),
        ({"addressFile": "/a"}, Access("nats", (), "/a")),
        ({"url": "h:80", "token": "t"}, Access("http", ("h:80",), token="t")),
    ],
)
def test_the_transport_follows_from_the_address(given: dict[str, str], access: Access) -> None:
    """It is said only where an address could mean both."""
    assert read_options({"eventType": "mars", **given}).access == access


def test_credentials_in_addresses_are_taken_out() -> None:
    """Addresses are shown in errors and logs."""
    access = read_options({"servers": "nats://u:p%40ss@one,nats://two", "eventType": "m"}).access
    assert access.addresses == ("nats://one", "nats://two")
    assert (access.username, access.password) == ("u", "p@ss")
    assert login_of("nats://secret@127.0.0.1:4222\n") == ("nats://127.0.0.1:4222", "secret")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"colour": "red"}, "unknown option colour; known are transport, servers"),
        ({"eventType": " "}, "eventType is missing"),
        ({"servers": ""}, "given: none"),
        ({"url": "http://h"}, "given: servers, url"),
        ({"servers": "ftp://h"}, "addresses begin with"),
        ({"servers": "nats://h,http://h"}, "all alike"),
        ({"transport": "http"}, "transport http does not go with the address"),
        ({"transport": "carrier pigeon"}, "must be nats or http"),
        ({"startingSequence": "soon"}, "must be earliest, latest, a sequence"),
        ({"endingSequence": "earliest"}, "must be latest, a sequence"),
        ({"startingSequence": "-1"}, "must be earliest"),
        ({"startingSequence": '{"a": true}'}, "must be earliest"),
        ({"startingSequence": '{"a"'}, "startingSequence: not JSON"),
        ({"startingSequence": "1", "startingTimestamp": "1"}, "not both"),
        ({"startingTimestamp": "soon"}, "startingTimestamp must be a valid datetime"),
        ({"maxRecordsPerTrigger": "0"}, "must be a positive number"),
        ({"minPartitions": "many"}, "must be a positive number"),
        ({"failOnDataLoss": "maybe"}, "must be true or false"),
        ({"filter": "[]"}, "filter must be a JSON object"),
        ({"filter": '{"event_type":"b","identifier":{}}'}, "the filter is for 'b'"),
        ({"schemas": "{}"}, "JSON list"),
        ({"schemas": "[{}]"}, "schemas: a declaration names its event_type"),
    ],
)
def test_mistakes_are_named(given: dict[str, str], message: str) -> None:
    """A wrong option never becomes a silent default."""
    with pytest.raises(BadOption) as failure:
        read_options({**NATS, **given})
    assert message in failure.value.message


def test_schemas_are_declarations() -> None:
    """For streams that do not carry their own."""
    schema = settings().catalogue.schemas["ev"]
    options = read_options({**NATS, "schemas": json.dumps([declaration(schema)])})
    assert options.schemas == {"ev": schema}


def test_options_travel_and_keep_secrets() -> None:
    """Tasks get them pickled; no text of them shows a secret."""
    secrets = {"token": "s3cret-a", "username": "me", "password": "s3cret-b"}
    options = read_options({**NATS, **secrets, "servers": "nats://me:s3cret-c@h"})
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - our own bytes
    assert "s3cret" not in repr(options)


def test_every_option_is_known_once() -> None:
    """The list in errors is the list in use."""
    assert len({name.lower() for name in KNOWN}) == len(KNOWN)
