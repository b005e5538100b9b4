"""Environment overrides and merging."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aviso_server.core.json import Json
from aviso_server.settings.environment import merge, overlay
from aviso_server.settings.keys import knows

_leaves: st.SearchStrategy[Json] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=3),
    st.lists(st.integers(), max_size=2),
)
_keys = st.sampled_from(["a", "b", "c"])
_maps = st.recursive(
    st.dictionaries(_keys, _leaves, max_size=3),
    lambda inner: st.dictionaries(_keys, st.one_of(_leaves, inner), max_size=3),
    max_leaves=8,
)


@given(_maps)
def test_merging_with_itself_or_nothing_changes_nothing(raw: dict[str, Json]) -> None:
    """Merging is idempotent and has the empty map as its neutral element."""
    assert merge(raw, raw) == raw
    assert merge(raw, {}) == raw
    assert merge({}, raw) == raw


@given(_maps, _maps)
def test_the_later_source_wins(under: dict[str, Json], over: dict[str, Json]) -> None:
    """Whatever the later source says is in the result, and nothing is invented."""
    merged = merge(under, over)
    assert set(merged) == set(under) | set(over)
    assert all(merged[key] == under[key] for key in under if key not in over)
    assert merge(merged, over) == merged
    for key, value in over.items():
        if not isinstance(value, dict):
            assert merged[key] == value


@given(_maps, _maps)
def test_merging_leaves_its_sources_alone(under: dict[str, Json], over: dict[str, Json]) -> None:
    """Merging returns a new map."""
    before = (repr(under), repr(over))
    merge(under, over)
    assert (repr(under), repr(over)) == before


def test_lists_are_replaced_and_an_empty_map_stays_a_map() -> None:
    """Lists do not grow across sources; an explicit empty map is an empty map."""
    assert merge({"a": [1, 2]}, {"a": [3]}) == {"a": [3]}
    assert merge({}, {"a": {}}) == {"a": {}}


@pytest.mark.parametrize("name", ["AVISOSERVER_APPLICATION__PORT", "avisoserver_application__port"])
def test_a_variable_sets_its_setting_in_any_case(name: str) -> None:
    """Prefix and name are read in any case; the value is text."""
    laid = overlay({"application": {"host": "h"}}, {name: "8080", "PATH": "/bin"}, knows)
    assert laid.raw == {"application": {"host": "h", "port": "8080"}}
    assert (laid.faults, laid.warnings) == ((), ())


def test_an_empty_value_is_an_override() -> None:
    """Setting a variable to nothing is not the same as not setting it."""
    environ = {"AVISOSERVER_AUTH__AUTH_O_TRON_URL": ""}
    raw: dict[str, Json] = {"auth": {"auth_o_tron_url": "http://a"}}
    assert overlay(raw, environ, knows).raw == {"auth": {"auth_o_tron_url": ""}}


def test_json_expresses_lists_and_maps() -> None:
    """A value starting with [ or { is JSON; outer levels are laid before inner ones."""
    environ = {
        "AVISOSERVER_AUTH__ADMIN_ROLES": '{"ecmwf": ["admin"], "other": ["x"]}',
        "AVISOSERVER_AUTH__ADMIN_ROLES__ECMWF": '["root"]',
    }
    assert overlay({}, environ, knows).raw == {
        "auth": {"admin_roles": {"ecmwf": ["root"], "other": ["x"]}}
    }


def test_broken_json_is_a_fault_that_hides_the_value() -> None:
    """The variable is named, its value is not shown."""
    laid = overlay({}, {"AVISOSERVER_AUTH__JWT_SECRET": "{hunter2"}, knows)
    (fault,) = laid.faults
    assert fault.path == "AVISOSERVER_AUTH__JWT_SECRET"
    assert "is read as JSON" in fault.message
    assert "hunter2" not in fault.message


def test_existing_keys_keep_their_case() -> None:
    """Event types are case-sensitive, variable names are not."""
    raw: dict[str, Json] = {"notification_schema": {"Mars": {"payload": {"required": True}}}}
    environ = {"AVISOSERVER_NOTIFICATION_SCHEMA__MARS__PAYLOAD__REQUIRED": "false"}
    assert overlay(raw, environ, knows).raw == {
        "notification_schema": {"Mars": {"payload": {"required": "false"}}}
    }


def test_the_exact_key_is_preferred() -> None:
    """With both spellings present the lower-case one is meant."""
    raw: dict[str, Json] = {"auth": {"admin_roles": {"ECMWF": ["a"], "ecmwf": ["b"]}}}
    environ = {"AVISOSERVER_AUTH__ADMIN_ROLES__ECMWF": '["c"]'}
    assert overlay(raw, environ, knows).raw == {
        "auth": {"admin_roles": {"ECMWF": ["a"], "ecmwf": ["c"]}}
    }


@pytest.mark.parametrize(
    "name",
    [
        "AVISOSERVER_HOST",
        "AVISOSERVER_APPLICATION__HOTS",
        "AVISOSERVER_APPLICATION__HOST__NAME",
        "AVISOSERVER_APPLICATION__",
        "AVISOSERVER_",
        "AVISOSERVER_AUTH__SECRET",
    ],
)
def test_a_variable_that_sets_nothing_is_a_warning(name: str) -> None:
    """It is ignored with one warning, also in closed sections."""
    laid = overlay({}, {name: "x"}, knows)
    assert laid.raw == {}
    assert [(w.event, w.path) for w in laid.warnings] == [("configuration.unknown_key", name)]


def test_the_configuration_file_variable_is_no_setting() -> None:
    """AVISOSERVER_CONFIG_FILE is read elsewhere."""
    laid = overlay({}, {"AVISOSERVER_CONFIG_FILE": "x"}, knows)
    assert (laid.raw, laid.warnings) == ({}, ())
