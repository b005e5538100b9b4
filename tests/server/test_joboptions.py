"""From settings and command line to what the archive job is told."""

import json
from pathlib import Path

import pytest
from support.config import settings
from support.log import SCHEMAS

from aviso_server.core.json import Json
from aviso_server.server.joboptions import (
    Chosen,
    JobRefused,
    archive_options,
    source_options,
    spark_options,
)
from aviso_server.settings import Settings


def _settings(jetstream: dict[str, Json] | None = None, **lake: Json) -> Settings:
    return settings(
        {
            "notification_backend": {"kind": "jetstream", "jetstream": jetstream or {}},
            "lake": dict(lake),
        },
        schemas=SCHEMAS,
    )


def test_the_settings_describe_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is made absolute: Spark's processes may be elsewhere."""
    monkeypatch.chdir(tmp_path)
    loaded = _settings(
        path="var/lake", storage_options={"AWS_REGION": "x"}, archive_interval_seconds=3
    )
    options = archive_options(loaded, Chosen())
    assert options.place.path == str(tmp_path / "var" / "lake")
    assert options.place.options == {"AWS_REGION": "x"}
    assert (options.interval_s, options.max_records, options.once) == (3, 200_000, False)
    assert options.books.path == f"{tmp_path}/var/lake/checkpoints/archive"
    assert options.source_options["eventType"] == "*"


def test_the_command_line_wins() -> None:
    """Storage options are added to those of the settings."""
    loaded = _settings(path="/a", storage_options={"AWS_REGION": "x", "K": "1"})
    chosen = Chosen(
        lake="s3://bucket/lake",
        storage_options={"K": "2"},
        event_types=("storm", "flood"),
        interval_s=60,
        max_records=5,
        fail_on_data_loss=False,
    )
    options = archive_options(loaded, chosen)
    assert options.place.path == "s3://bucket/lake"
    assert options.place.options == {"AWS_REGION": "x", "K": "2"}
    assert options.books.path == "s3://bucket/lake/checkpoints/archive"
    told = options.source_options
    assert (told["eventType"], told["maxRecordsPerTrigger"]) == ("storm,flood", "5")
    assert told["failOnDataLoss"] == "false"


@pytest.mark.parametrize(
    ("configured", "chosen", "expected"),
    [(True, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
def test_what_becomes_of_data_loss(configured: bool, chosen: bool | None, expected: bool) -> None:
    """A managed job has no command line: the settings decide, unless that says otherwise."""
    loaded = _settings(path="/lake", fail_on_data_loss=configured)
    options = archive_options(loaded, Chosen(fail_on_data_loss=chosen))
    assert options.fail_on_data_loss is expected


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


def test_secrets_are_not_shown() -> None:
    """Neither NATS's nor the object store's."""
    loaded = _settings({"token": "s3cret"}, path="/a", storage_options={"K": "hidden"})
    shown = repr(archive_options(loaded, Chosen(storage_options={"L": "hidden"})))
    assert "s3cret" not in shown
    assert "hidden" not in shown


def test_what_is_missing_is_said() -> None:
    """No lake, no log, two Sparks."""
    with pytest.raises(JobRefused, match=r"set lake\.path, or give --lake"):
        archive_options(_settings(), Chosen())
    with pytest.raises(JobRefused, match="only jetstream keeps one"):
        archive_options(settings(), Chosen(lake="/a"))
    with pytest.raises(JobRefused, match="--master and --packages go without it"):
        spark_options(_settings(), Chosen(remote="sc://x", master="local"))


def test_which_spark() -> None:
    """A remote one is told nothing that only a start could change."""
    loaded = _settings(spark_master="yarn", spark_conf={"a": "1", "b": "2"}, spark_packages=["p"])
    options = spark_options(loaded, Chosen(conf={"b": "3"}))
    assert (options.master, options.packages, options.remote) == ("yarn", ("p",), None)
    assert options.conf == {"a": "1", "b": "3"}
    remote = spark_options(loaded, Chosen(remote="sc://x", conf={"b": "3"}))
    assert (remote.conf, remote.packages) == ({"b": "3"}, ())
