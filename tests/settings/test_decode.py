"""Type faults, all at once, without hiding the checks that follow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.core.json import Json
from aviso_server.settings.decode import decode
from aviso_server.settings.model import (
    Application,
    Auth,
    Document,
    Ecpds,
    EventType,
    JetStream,
    Section,
    Topic,
)
from settings.configurations import AUTH, configuration, faults, messages, settings, with_schema


def test_every_type_fault_is_reported() -> None:
    """Faults of several sections and levels come together, each with its path."""
    raw = configuration(
        application={"port": "http", "homepage": 5},
        auth={"mode": "guess", "admin_roles": {"ecmwf": "admin"}},
        watch_endpoint=[],
        ecpds={"servers": ["https://e", {}]},
    )
    assert [str(fault) for fault in faults(raw)] == [
        "application.port: must be an integer",
        "application.homepage: must be a mapping",
        "watch_endpoint: must be a mapping",
        "auth.mode: must be 'direct' or 'trusted_proxy'",
        "auth.admin_roles.ecmwf: must be a list",
        _required("ecpds.username"),
        _required("ecpds.password"),
        "ecpds.servers[1]: must be text",
        _required("ecpds.match_key"),
    ]


def test_missing_sections_are_reported_by_their_mandatory_keys() -> None:
    """An empty configuration lists what is needed, and how to give it."""
    assert [str(fault) for fault in faults({})] == [
        _required("application.host"),
        _required("application.port"),
        _required("notification_backend.kind"),
    ]


def test_a_type_fault_does_not_hide_later_faults() -> None:
    """The wrong port and the wrong polygon output are reported in one go."""
    raw = configuration(application={"port": "x", "polygon_output": "wkt"})
    assert messages(raw) == [
        "must be an integer",
        "application.polygon_output must be 'array' or 'string'",
    ]


def test_a_stand_in_causes_no_faults_of_its_own() -> None:
    """A missing match key is reported once, not again as an unknown field."""
    raw = with_schema(auth={"required": True, "plugins": ["ecpds"]})
    raw |= {
        "auth": AUTH,
        "ecpds": {"username": "u", "password": "p", "servers": ["https://e"]},
    }
    assert [str(fault) for fault in faults(raw)] == [_required("ecpds.match_key")]


def test_a_schema_without_its_parts_is_reported() -> None:
    """Mandatory keys of an event type are reported with its name."""
    raw = configuration(notification_schema={"mars": {"topic": {}, "payload": {}, "auth": {}}})
    assert [fault.path for fault in faults(raw)][:5] == [
        "notification_schema.mars.identifier",
        "notification_schema.mars.topic.base",
        "notification_schema.mars.topic.key_order",
        "notification_schema.mars.payload.required",
        "notification_schema.mars.auth.required",
    ]


def test_a_key_without_a_value_is_not_given() -> None:
    """``watch_endpoint:`` with nothing below it means the defaults."""
    raw = configuration(watch_endpoint=None, metrics={"port": None}, notification_schema=None)
    loaded = settings(raw)
    assert loaded.watch_endpoint.replay_batch_size == 100
    assert loaded.catalogue.configured is False


def test_a_name_without_a_value_does_not_vanish() -> None:
    """An event type or a realm that is only named is a fault."""
    raw = configuration(notification_schema={"mars": None}, auth={"admin_roles": {"ecmwf": None}})
    assert [str(fault) for fault in faults(raw)] == [
        "auth.admin_roles.ecmwf: must be a list",
        "notification_schema.mars: must be a mapping",
    ]


@pytest.mark.parametrize("spec", [None, "StringHandler", []])
def test_a_field_without_a_definition_is_a_fault(spec: Json) -> None:
    """A field must be a mapping; its name still counts as declared."""
    assert [str(fault) for fault in faults(with_schema(identifier={"class": spec}))] == [
        (
            "notification_schema.mars.identifier.class:"
            " must be a mapping with at least `type` and `required`"
        )
    ]


def test_a_secret_is_not_shown_in_a_fault() -> None:
    """A password of the wrong shape stays out of the message."""
    raw = configuration(auth={"jwt_secret": ["hunter2"]})
    assert "hunter2" not in str(faults(raw))


_sections: list[type[Section]] = [Document, Application, Auth, Ecpds, EventType, JetStream, Topic]
_keys = st.sampled_from(sorted({key for section in _sections for key in section.model_fields}))
_junk: st.SearchStrategy[Json] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(["", "x", "7d", "*"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_keys, inner, max_size=6)),
    max_leaves=25,
)


@given(st.dictionaries(_keys, _junk, max_size=8))
def test_no_configuration_breaks_the_loader(raw: dict[str, Json]) -> None:
    """Whatever the file holds, it is accepted or its faults are listed; nothing else is raised."""
    assert all(fault.path and fault.message for fault in faults(raw))


@given(st.dictionaries(_keys, _junk, max_size=8))
def test_decoding_leaves_the_configuration_alone(raw: dict[str, Json]) -> None:
    """Stand-ins are put into a copy."""
    before = repr(raw)
    decode(raw)
    assert repr(raw) == before


def _required(path: str) -> str:
    variable = "AVISOSERVER_" + path.upper().replace(".", "__")
    return f"{path}: is required; set it in the configuration file or as {variable}"
