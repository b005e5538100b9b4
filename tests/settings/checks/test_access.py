"""Start-up checks on authentication and access."""

import pytest

from aviso_server.core.json import Json
from aviso_server.settings.environment import merge
from settings.configurations import AUTH, configuration, messages, with_schema

ON: dict[str, Json] = {"auth": AUTH}
BOTH = "auth.mode=direct requires both auth.auth_o_tron_url and auth.jwt_secret to be configured"


def test_a_sound_section_passes() -> None:
    """Both modes, and anything while authentication is off."""
    assert messages(configuration(auth=AUTH)) == []
    proxy: Json = {"mode": "trusted_proxy", "auth_o_tron_url": ""}
    assert messages(merge(configuration(auth=AUTH), {"auth": proxy})) == []
    assert messages(configuration(auth={"jwt_secret": " x ", "timeout_ms": 0})) == []


@pytest.mark.parametrize("mode", ["direct", "trusted_proxy"])
@pytest.mark.parametrize(
    "key",
    [
        {"public_key_file": "key.pem"},
        {"jwks_url": "https://keys.example/jwks.json"},
        {"jwks_url": "http://127.0.0.1:8080/jwks.json"},
    ],
)
def test_any_kind_of_key_will_do(mode: str, key: dict[str, Json]) -> None:
    """A public key takes the place of the shared secret, in both modes."""
    assert messages(configuration(auth={**AUTH, "mode": mode, "jwt_secret": "", **key})) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"auth_o_tron_url": " http://a"},
            ["auth.auth_o_tron_url must not have leading or trailing whitespace"],
        ),
        ({"jwt_secret": "s\n"}, ["auth.jwt_secret must not have leading or trailing whitespace"]),
        ({"timeout_ms": 0}, ["auth.timeout_ms must be greater than zero"]),
        (
            {"jwks_url": " https://a"},
            ["auth.jwks_url must not have leading or trailing whitespace"],
        ),
        (
            {"public_key_file": "a "},
            ["auth.public_key_file must not have leading or trailing whitespace"],
        ),
        ({"jwks_url": "keys"}, ["auth.jwks_url is not a valid URL: relative URL without a base"]),
        ({"jwks_url": "https://u:p@a"}, ["auth.jwks_url must not contain credentials"]),
        (
            {"jwks_url": "http://a"},
            ["auth.jwks_url must use https://; plain http:// is accepted for loopback hosts only"],
        ),
        ({"jwt_secret": ""}, [BOTH]),
        ({"auth_o_tron_url": ""}, [BOTH]),
        (
            {"mode": "trusted_proxy", "jwt_secret": ""},
            ["auth.mode=trusted_proxy requires auth.jwt_secret to be configured"],
        ),
    ],
)
def test_the_section_is_checked_when_on(change: dict[str, Json], expected: list[str]) -> None:
    """Each rule has its literal message."""
    assert messages(configuration(auth={**AUTH, **change})) == expected


def test_someone_must_be_an_administrator() -> None:
    """Authentication without administrators would lock everybody out."""
    assert messages(configuration(auth={**AUTH, "admin_roles": {}})) == [
        "auth.enabled=true requires auth.admin_roles to contain at least one realm"
    ]


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ({" ": ["a"], "": ["a"]}, "must not contain empty or whitespace-only realm keys"),
        ({" r": ["a"]}, "realm ' r' must not have leading or trailing whitespace"),
        ({"r": []}, "realm 'r' must have at least one role"),
        (
            {"r": ["", " "]},
            "realm 'r' must not contain empty or whitespace-only role entries",
        ),
        ({"r": ["a "]}, "realm 'r' role 'a ' must not have leading or trailing whitespace"),
    ],
)
def test_realm_maps_follow_the_same_rules_everywhere(roles: Json, expected: str) -> None:
    """Admin, read and write maps are checked alike."""
    assert messages(configuration(auth={**AUTH, "admin_roles": roles})) == [
        f"auth.admin_roles {expected}"
    ]
    for key in ("read_roles", "write_roles"):
        raw = with_schema(auth={"required": True, key: roles}) | ON
        assert messages(raw) == [f"Schema 'mars' auth.{key} {expected}"]


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        (
            {"required": True, "plugins": []},
            "must not be empty; omit the field instead of setting plugins: []",
        ),
        (
            {"required": True, "plugins": ["ldap"]},
            "references unknown plugin 'ldap'. Known plugins: [\"ecpds\"]",
        ),
        (
            {"required": False, "plugins": ["ldap2"]},
            "references unknown plugin 'ldap2'. Known plugins: [\"ecpds\"]",
        ),
    ],
)
def test_plugins_must_be_known(auth: Json, expected: str) -> None:
    """Each rule has its literal message."""
    assert messages(with_schema(auth=auth) | ON)[0] == f"Schema 'mars' auth.plugins {expected}"


def test_plugins_need_required_authentication() -> None:
    """A plugin that would never run is a mistake."""
    raw = with_schema(auth={"required": False, "plugins": ["other"]}) | ON
    assert messages(raw)[1] == (
        "Schema 'mars' auth.plugins is set but auth.required is false. Plugins only run after"
        " stream-level auth passes; set auth.required=true or remove the plugins list."
    )


def test_role_maps_are_not_empty() -> None:
    """An empty map is neither everybody nor nobody."""
    raw = with_schema(auth={"required": True, "read_roles": {}, "write_roles": {}}) | ON
    assert messages(raw) == [
        (
            "Schema 'mars' auth.read_roles must not be an empty map;"
            " remove the field to allow any authenticated user to read"
        ),
        (
            "Schema 'mars' auth.write_roles must not be an empty map;"
            " remove the field to restrict writes to admins only"
        ),
    ]


@pytest.mark.parametrize(
    ("auth", "sections", "expected"),
    [
        (
            {"required": False, "read_roles": {"r": ["a"]}},
            ON,
            (
                "sets auth roles while auth.required=false;"
                " set auth.required=true or remove the role lists"
            ),
        ),
        (
            {"required": True, "read_roles": {"r": ["a"]}},
            {},
            (
                "sets auth.required=true but auth is globally disabled."
                " Enable auth.enabled=true or remove schema auth config."
            ),
        ),
        (
            {"required": False, "write_roles": {"r": ["a"]}},
            {},
            (
                "sets auth roles but auth is globally disabled."
                " Enable auth.enabled=true or remove schema auth config."
            ),
        ),
    ],
)
def test_access_rules_must_be_enforced(
    auth: Json, sections: dict[str, Json], expected: str
) -> None:
    """A schema that asks for protection it would not get is refused."""
    assert messages(with_schema(auth=auth) | sections) == [f"Schema 'mars' {expected}"]


def test_an_open_stream_is_fine_with_authentication_off() -> None:
    """``required: false`` asks for nothing."""
    assert messages(with_schema(auth={"required": False})) == []
