"""Known and unknown keys."""

import pytest

from aviso_server.core.json import Json
from aviso_server.settings.keys import knows
from settings.configurations import FIELD, configuration, event_type, faults, settings, with_schema


@pytest.mark.parametrize(
    "path",
    [
        "application",
        "application.homepage.client_repository_url",
        "notification_backend.jetstream.sync_always",
        "auth.admin_roles.ecmwf",
        "notification_schema.mars.topic.base",
        "notification_schema.mars.identifier.class.max_length",
        "notification_schema.mars.auth.read_roles.ecmwf",
        "notification_schema_strict",
    ],
)
def test_every_level_of_the_configuration_is_known(path: str) -> None:
    """Sections, maps and identifier definitions are all reachable."""
    assert knows(path.split("."))


@pytest.mark.parametrize(
    "path", ["x", "application.x", "notification_schema.mars.x", "metrics.port.x"]
)
def test_other_paths_are_unknown(path: str) -> None:
    """A path beyond a value, or to no key, is unknown."""
    assert not knows(path.split("."))


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (configuration(auth={"b": 1, "a": 2}), "auth"),
        (with_schema(auth={"required": False, "b": 1, "a": 2}), "notification_schema.mars.auth"),
        (
            with_schema(payload={"required": True, "b": 1, "a": 1}),
            "notification_schema.mars.payload",
        ),
        (
            with_schema(identifier={"class": {**FIELD, "b": 1, "a": 2}}),
            "notification_schema.mars.identifier.class",
        ),
        (
            configuration(
                ecpds={
                    "username": "u",
                    "password": "p",
                    "servers": ["https://e"],
                    "match_key": "d",
                    "b": 1,
                    "a": 1,
                }
            ),
            "ecpds",
        ),
    ],
)
def test_unknown_keys_are_faults_in_closed_sections(raw: dict[str, Json], path: str) -> None:
    """One fault per section names all its unknown keys."""
    assert [(f.path, f.message) for f in faults(raw)] == [(path, "unknown field(s): b, a")]


def test_unknown_keys_elsewhere_are_one_warning_each() -> None:
    """A misspelt key is ignored, and told."""
    raw = configuration(
        application={"prot": 1},
        extra=1,
        watch_endpoint={"x": 1, "y": 2},
        notification_schema={"mars": event_type(storage_policy={"z": 1})},
    )
    warnings = settings(raw).warnings
    assert {w.event for w in warnings} == {"configuration.unknown_key"}
    assert sorted(w.path for w in warnings) == [
        "application.prot",
        "extra",
        "notification_schema.mars.storage_policy.z",
        "watch_endpoint.x",
        "watch_endpoint.y",
    ]


def test_retired_keys_are_ignored_in_silence() -> None:
    """``topic.separator`` and ``endpoint`` belong to older releases."""
    raw = with_schema(
        topic={"base": "mars", "key_order": ["class"], "separator": ".", "endpoint": 1}, endpoint={}
    )
    assert settings({**raw, "endpoint": {}}).warnings == ()
