"""The configuration of tests: the schemas of the worked examples."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path

from aviso_server.core.json import Json
from aviso_server.settings import Settings, parse

SCHEMAS: dict[str, Json] = {
    "extreme": {
        "topic": {"base": "extreme", "key_order": ["region", "run_time", "severity", "anomaly"]},
        "identifier": {
            "region": {
                "type": "EnumHandler",
                "required": False,
                "values": ["north", "south", "east", "west"],
            },
            "run_time": {"type": "TimeHandler", "required": False},
            "severity": {"type": "IntHandler", "required": False, "range": [1, 7]},
            "anomaly": {"type": "FloatHandler", "required": False, "range": [0, 200]},
        },
    },
    "test_polygon": {
        "topic": {"base": "polygon", "key_order": ["date", "time"]},
        "payload": {"required": True},
        "identifier": {
            "date": {"type": "DateHandler", "required": False},
            "time": {"type": "TimeHandler", "required": False},
            "polygon": {"type": "PolygonHandler", "required": True},
        },
    },
    "area": {
        "topic": {"base": "area", "key_order": ["date"]},
        "identifier": {
            "date": {"type": "DateHandler", "required": False},
            "polygon": {"type": "PolygonHandler", "required": False},
        },
    },
    "observations": {
        "topic": {"base": "observations", "key_order": ["date"]},
        "identifier": {
            "date": {"type": "DateHandler", "required": False},
            "point_cloud": {"type": "PointCloudHandler", "required": True},
        },
    },
    "diss2": {
        "topic": {"base": "diss", "key_order": ["destination"]},
        "identifier": {
            "destination": {"type": "StringHandler", "required": True},
            "note": {"type": "StringHandler", "required": False},
        },
    },
    "ev": {
        "topic": {"base": "ev", "key_order": ["region"]},
        "identifier": {"region": {"type": "StringHandler", "required": False}},
    },
}


def document(
    overrides: Mapping[str, Json] | None = None, *, schemas: Mapping[str, Json] | None = None
) -> dict[str, Json]:
    """A configuration on a free loopback port, with sections replaced key by key."""
    built: dict[str, Json] = {
        "application": {"host": "127.0.0.1", "port": 0, "base_url": "http://localhost:8000"},
        "notification_backend": {"kind": "in_memory"},
        "notification_schema": deepcopy(dict(SCHEMAS if schemas is None else schemas)),
    }
    for section, values in (overrides or {}).items():
        known = built.get(section)
        if isinstance(known, dict) and isinstance(values, dict):
            built[section] = {**known, **values}
        else:
            built[section] = values
    return built


def settings(
    overrides: Mapping[str, Json] | None = None, *, schemas: Mapping[str, Json] | None = None
) -> Settings:
    """Settings for a server on a free loopback port, with sections replaced key by key."""
    return parse(document(overrides, schemas=schemas))


def embedded(store: Path, **jetstream: Json) -> dict[str, Json]:
    """The section that keeps notifications in a NATS server of our own, with its store there."""
    kept: dict[str, Json] = {"embedded": True, "store_dir": str(store), **jetstream}
    return {"notification_backend": {"kind": "jetstream", "jetstream": kept}}


def on_jetstream(url: str, **jetstream: Json) -> dict[str, Json]:
    """The section that keeps notifications in a NATS server, with quick reconnects."""
    brisk: dict[str, Json] = {"reconnect_delay_ms": 100, "timeout_seconds": 10, "retry_attempts": 1}
    return {
        "notification_backend": {
            "kind": "jetstream",
            "jetstream": {"nats_url": url, **brisk, **jetstream},
        }
    }
