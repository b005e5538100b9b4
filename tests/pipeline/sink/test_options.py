"""The options of the sink."""

from pathlib import Path

import pytest

from aviso_server.pipeline.sink.options import BadSinkOptions, parse_options

GOOD = {"url": "http://localhost:8000/", "onReject": "fail"}


def test_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names in any case; Spark's own options are passed over; paths become absolute."""
    monkeypatch.chdir(tmp_path)
    options = parse_options(
        {"URL": "https://aviso.example/base/", "deadletterpath": "d", "checkpointLocation": "c"}
    )
    assert options.url == "https://aviso.example/base"
    assert options.dead_letters == str(tmp_path / "d")
    assert (options.batch_size, options.max_in_flight, options.rate) == (500, 4, None)
    assert parse_options({**GOOD, "deadLetterPath": "s3://b/d"}).dead_letters == "s3://b/d"


def test_credentials_are_not_shown() -> None:
    """A token or a user with a password; neither is in the text of the options."""
    token = parse_options({**GOOD, "token": "s3cret"})
    assert token.authorization == "Bearer s3cret"
    assert "s3cret" not in repr(token)
    basic = parse_options({**GOOD, "username": "me", "password": "pw"})
    assert basic.authorization == "Basic bWU6cHc="


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        ({}, ["url is needed", "deadLetterPath is needed"]),
        ({**GOOD, "batchSize": "0", "rate": "x"}, ["batchSize is a whole", "rate is a number"]),
        ({**GOOD, "batchSize": "5001"}, ["from 1 to 5000"]),
        ({**GOOD, "topic": "x"}, ["unknown option 'topic'"]),
        ({**GOOD, "onReject": "drop"}, ["onReject is deadLetter or fail"]),
        ({**GOOD, "token": "a", "username": "b"}, ["give one", "go together"]),
        ({**GOOD, "url": "http://u:pw@host"}, ["without credentials"]),
        ({**GOOD, "url": "ftp://host"}, ["url is http"]),
        ({**GOOD, "url": "http://host:x"}, ["url is http"]),
    ],
)
def test_every_fault_is_reported(options: dict[str, str], faults: list[str]) -> None:
    """Unknown, missing and bad options are refused together, without repeating secrets."""
    with pytest.raises(BadSinkOptions) as caught:
        parse_options(options)
    assert all(fault in str(caught.value) for fault in faults)
    assert "pw" not in str(caught.value)
