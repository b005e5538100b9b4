"""Start-up checks on the lake."""

import pytest

from aviso_server.core.json import Json
from settings.configurations import configuration, messages, settings

ON_JETSTREAM: dict[str, Json] = {"kind": "jetstream"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"path": "var/lake"}, []),
        ({"path": "s3://bucket/aviso", "archive": "managed"}, []),
        ({"path": " "}, ["lake.path must not be empty"]),
        ({"archive": "managed"}, ["lake.archive managed needs lake.path"]),
        (
            {"archive_interval_seconds": 0},
            ["lake.archive_interval_seconds must be greater than zero"],
        ),
        ({"cache_bytes": -1}, ["lake.cache_bytes must not be negative"]),
        ({"archive": "sometimes"}, ["must be 'off' or 'managed'"]),
    ],
)
def test_the_lake_has_a_place_and_a_pace(change: dict[str, Json], expected: list[str]) -> None:
    """What the archive job could not work with is refused at the start."""
    assert messages(configuration(notification_backend=ON_JETSTREAM, lake=change)) == expected


def test_a_lake_needs_a_log_that_outlives_the_process() -> None:
    """Sequences in memory start over with every start: archived ones would clash."""
    raw = configuration(notification_backend={"kind": "in_memory"}, lake={"path": "var/lake"})
    assert messages(raw) == ["lake needs notification_backend.kind jetstream"]


def test_maps_and_lists_of_the_lake_are_read() -> None:
    """Options of the object store stay secret; Spark's settings are plain."""
    raw = configuration(
        notification_backend=ON_JETSTREAM,
        lake={
            "path": "s3://bucket/aviso",
            "storage_options": {"aws_region": "eu", "timeout": 30},
            "cache_bytes": "1Mi",
            "spark_conf": {"spark.executor.memory": "4g", "spark.cores.max": 8},
            "spark_packages": ["org.example:store:1.0"],
        },
    )
    lake = settings(raw).lake
    options = {name: value.get_secret_value() for name, value in lake.storage_options.items()}
    assert options == {"aws_region": "eu", "timeout": "30"}
    assert lake.cache_bytes == 1_048_576
    assert lake.spark_conf == {"spark.executor.memory": "4g", "spark.cores.max": "8"}
    assert lake.spark_packages == ("org.example:store:1.0",)
