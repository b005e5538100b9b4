"""From configured event types to the catalogue."""

from aviso_server.core.schema import StoragePolicy, StreamAccess
from settings.configurations import AUTH, configuration, settings, with_schema


def test_a_full_entry_becomes_a_schema() -> None:
    """Topic, payload rule, cap, policy and access arrive in the core's terms."""
    raw = with_schema(
        "Mars",
        payload={"required": "yes"},
        max_historical_notifications="5",
        storage_policy={"retention_time": "1h", "max_size": "1Ki", "allow_duplicates": False},
        auth={"required": True, "read_roles": {"r": ["a", "*"]}},
    )
    schema = settings(raw | {"auth": AUTH}).catalogue.find("Mars")
    assert (schema.base, schema.stream, schema.key_order) == ("mars", "MARS", ("class",))
    assert (schema.payload_required, schema.history_cap) == (True, 5)
    assert schema.storage == StoragePolicy(retention_s=3600, max_bytes=1024, allow_duplicates=False)
    assert schema.access == StreamAccess(required=True, read_roles={"r": ("a", "*")})


def test_a_bare_entry_has_the_defaults() -> None:
    """Without topic the event type is the base; nothing else is set."""
    schema = settings(with_schema(topic=None)).catalogue.find("mars")
    assert (schema.base, schema.key_order, schema.payload_required) == ("mars", None, None)
    assert (schema.storage, schema.access, schema.history_cap) == (StoragePolicy(), None, None)


def test_no_section_and_an_empty_one_differ() -> None:
    """Only a missing section is called not configured."""
    assert settings(configuration()).catalogue.configured is False
    assert settings(configuration(notification_schema={})).catalogue.configured is True
