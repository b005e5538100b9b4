"""Start-up checks on backend kind, bases and storage policies."""

import pytest

from aviso_server.core.json import Json
from settings.configurations import FIELD, configuration, event_type, faults, messages, with_schema


@pytest.mark.parametrize("kind", ["In_Memory", "redis", ""])
def test_the_kind_is_exact(kind: str) -> None:
    """Only ``in_memory`` and ``jetstream``, as spelled."""
    raw = configuration(notification_backend={"kind": kind})
    assert messages(raw) == [f"Unknown notification_backend kind: {kind}"]


def test_two_event_types_cannot_share_a_base() -> None:
    """One event type, one stream; stream names ignore case."""
    raw = configuration(
        notification_schema={
            "a": event_type(topic={"base": "x", "key_order": ["class"]}),
            "b": event_type(topic={"base": "X", "key_order": ["class"]}),
            "c": event_type(),
        }
    )
    assert [(f.path, f.message) for f in faults(raw)] == [
        ("notification_schema.b.topic.base", "Schemas 'a' and 'b' both define topic base 'X'")
    ]


def test_the_event_type_stands_in_for_a_missing_base() -> None:
    """An event type without topic owns the stream of its own name."""
    raw = configuration(
        notification_schema={
            "a": event_type(topic={"base": "b", "key_order": ["class"]}),
            "b": {"identifier": {"class": FIELD}},
        }
    )
    assert messages(raw) == ["Schemas 'a' and 'b' both define topic base 'b'"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            {"retention_time": "7x"},
            ["retention_time is invalid: duration unit must be one of: s, m, h, d, w"],
        ),
        ({"retention_time": "0d"}, ["retention_time must be greater than zero"]),
        ({"max_size": 10}, ["max_size is invalid: size must include a unit suffix"]),
        ({"max_size": "0Mi"}, ["max_size is invalid: size value must be greater than zero"]),
        ({"max_messages": 0}, ["max_messages must be greater than zero"]),
        (
            {"max_messages": -1, "max_size": "", "retention_time": ""},
            [
                "retention_time is invalid: duration must not be empty",
                "max_size is invalid: size must not be empty",
                "max_messages must be greater than zero",
            ],
        ),
        ({"retention_time": "7d", "max_size": "1Gi", "max_messages": 5, "compression": "on"}, []),
    ],
)
def test_policies_must_be_readable(policy: Json, expected: list[str]) -> None:
    """Each key has its literal message, in the protocol's order."""
    assert messages(with_schema(storage_policy=policy)) == [
        f"Schema 'mars' storage_policy.{why}" for why in expected
    ]


def test_a_policy_needs_a_topic() -> None:
    """Also an empty one."""
    assert messages(with_schema(topic=None, storage_policy={})) == [
        "Schema 'mars' defines storage_policy but has no topic configuration"
    ]


def test_in_memory_supports_no_policy() -> None:
    """Every set key is reported in key order; a boolean set to false counts as set."""
    policy: Json = {
        "compression": False,
        "allow_duplicates": False,
        "max_size": "1K",
        "max_messages": 1,
        "retention_time": "1s",
    }
    raw = with_schema(storage_policy=policy) | {"notification_backend": {"kind": "in_memory"}}
    assert messages(raw) == [
        f"Schema 'mars' storage_policy.{key} is not supported by backend 'in_memory'"
        for key in ("retention_time", "max_messages", "max_size", "allow_duplicates", "compression")
    ]
