"""The order of the checks as a whole."""

from settings.configurations import AUTH, FIELD, configuration, messages


def test_faults_of_all_checks_come_in_the_order_of_the_specification() -> None:
    """One configuration with a fault of nearly every kind."""
    raw = configuration(
        application={"max_body_bytes": 0},
        notification_backend={"jetstream": {"nats_url": ""}},
        watch_endpoint={"replay_batch_size": 0},
        auth={**AUTH, "timeout_ms": 0},
        metrics={"enabled": True},
        logging={"otlp": {"enabled": True}},
        notification_schema={
            "mars": {
                "identifier": {"class": FIELD, "level": {**FIELD, "max_length": 0}},
                "topic": {"base": "m", "key_order": []},
                "storage_policy": {"max_messages": 0},
                "auth": {"required": True, "plugins": ["ecpds", "x"], "read_roles": {}},
            }
        },
    )
    starts = [
        "application.max_body_bytes",
        "Schema 'mars' storage_policy",
        "Schema 'mars' topic.key_order",
        "Schema 'mars' identifier 'level'",
        "watch_endpoint.replay_batch_size",
        "auth.timeout_ms",
        "Schema 'mars' auth.plugins",
        "Schema 'mars' auth.read_roles",
        "metrics.port",
        "logging.otlp.endpoint",
        'Streams ["mars"]',
        "notification_backend.jetstream.nats_url",
    ]
    found = messages(raw)
    assert len(found) == len(starts)
    assert all(message.startswith(start) for message, start in zip(found, starts, strict=True))
