"""The OpenAPI 3.1 document: ``openapi.yaml``, with schemas from the structs that cross the wire."""

from importlib.resources import files
from typing import TypeAlias

import msgspec
import yaml

from aviso_server.core.json import Json
from aviso_server.core.wire import NotificationRequest
from aviso_server.http import answers

Part: TypeAlias = dict[str, Json]
"""Any object of the document."""

# A tenth of the time; the loader is missing where PyYAML was built without libyaml.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def document(version: str) -> bytes:
    """The whole document as JSON, for a server of this version."""
    text = files("aviso_server.http").joinpath("openapi.yaml").read_text()
    written: Part = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    del written["x-shared"]  # only holds what the rest refers to
    generated: Part = {"info": {"version": version}, "components": {"schemas": _schemas()}}
    return msgspec.json.encode(_overlay(generated, written))


def _schemas() -> Part:
    """The component schemas, from the structs."""
    structs = [
        kind
        for kind in vars(answers).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    ]
    _, components = msgspec.json.schema_components(
        [NotificationRequest, *structs],
        schema_hook=lambda _: {"description": "Any JSON value."},
        ref_template="#/components/schemas/{name}",
    )
    return components


def _overlay(generated: Part, written: Part) -> Part:
    """Both; what is written by hand goes first and wins."""
    merged = dict(written)
    for name, value in generated.items():
        own = written.get(name, value)
        merged[name] = (
            _overlay(value, own) if isinstance(own, dict) and isinstance(value, dict) else own
        )
    return merged
