"""From settings to where the log is, as the pipeline's jobs are told."""

import json

import pytest
from support.config import settings
from support.log import SCHEMAS

from aviso_server.core.json import Json
from aviso_server.server.joboptions import JobRefused, source_options
from aviso_server.settings import Settings


def _settings(jetstream: dict[str, Json]) -> Settings:
    backend: Json = {"kind": "jetstream", "jetstream": jetstream}
    return settings({"notification_backend": backend}, schemas=SCHEMAS)


def test_where_nats_is() -> None:
    """Given with its credentials; an embedded one is found through its address file."""
    told = source_options(
        _settings({"nats_url": "nats://a:1,nats://b:2", "token": "s3cret", "tls_required": True})
    )
    assert told["servers"] == "tls://a:1,tls://b:2"
    assert told["token"] == "s3cret"
    assert [item["event_type"] for item in json.loads(told["schemas"])] == list(SCHEMAS)
    inside = source_options(_settings({"nats_url": "nats://me:pa%40ss@a:1"}))
    assert (inside["servers"], inside["username"], inside["password"]) == (
        "nats://a:1",
        "me",
        "pa@ss",
    )
    embedded = source_options(_settings({"embedded": True, "store_dir": "/var/nats"}))
    assert embedded.keys() == {"addressFile", "schemas"}
    assert embedded["addressFile"] == "/var/nats/address"


def test_only_jetstream_keeps_a_log() -> None:
    """What is in the memory of a server cannot be read by a job."""
    with pytest.raises(JobRefused, match="only jetstream keeps one"):
        source_options(settings())
