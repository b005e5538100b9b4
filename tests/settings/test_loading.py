"""Loading: sources, overrides, warnings, and all faults together."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from aviso_server.core.json import Json
from aviso_server.settings import Settings, SettingsError, load
from settings.configurations import configuration, settings, with_schema

MINIMAL = "application: {host: a, port: 1}\nnotification_backend: {kind: in_memory}\n"


def test_later_files_win_over_earlier_ones(tmp_path: Path) -> None:
    """Working directory, /etc and home merge key by key."""
    _write(tmp_path / "cwd/configuration/config.yaml", MINIMAL + "auth: {timeout_ms: 1}\n")
    _write(
        tmp_path / "etc/aviso_server/config.yaml", "application: {port: 2, base_url: http://e}\n"
    )
    _write(tmp_path / "home/.aviso_server/config.yaml", "application: {port: 3}\n")
    loaded = _load(tmp_path)
    assert (loaded.application.host, loaded.application.port) == ("a", 3)
    assert loaded.application.base_url == "http://e"
    assert loaded.auth.timeout_ms == 1


def test_a_named_file_is_the_only_one(tmp_path: Path) -> None:
    """With --config, or its variable, the search path is ignored."""
    _write(tmp_path / "cwd/configuration/config.yaml", "auth: {timeout_ms: 1}\n")
    file = _write(tmp_path / "only.yaml", MINIMAL)
    assert _load(tmp_path, config_file=file).auth.timeout_ms == 5000
    assert _load(tmp_path, {"AVISOSERVER_CONFIG_FILE": str(file)}).auth.timeout_ms == 5000


def test_the_environment_wins_over_files_and_options_over_both(tmp_path: Path) -> None:
    """File, then environment, then overrides."""
    file = _write(tmp_path / "only.yaml", MINIMAL)
    environ = {"AVISOSERVER_APPLICATION__PORT": "2", "AVISOSERVER_APPLICATION__HOST": "b"}
    loaded = _load(tmp_path, environ, config_file=file, overrides={"application": {"port": 3}})
    assert (loaded.application.host, loaded.application.port) == ("b", 3)


def test_the_environment_alone_is_enough(tmp_path: Path) -> None:
    """No file is needed when the mandatory settings come as variables."""
    environ = {
        "AVISOSERVER_APPLICATION__HOST": "h",
        "AVISOSERVER_APPLICATION__PORT": "0",
        "AVISOSERVER_NOTIFICATION_BACKEND__KIND": "in_memory",
    }
    assert _load(tmp_path, environ).application.port == 0


def test_without_any_file_the_places_are_named(tmp_path: Path) -> None:
    """The error says where a file was looked for."""
    with pytest.raises(SettingsError) as caught:
        _load(tmp_path)
    first = caught.value.faults[0]
    assert first.path == "configuration"
    assert str(tmp_path / "home/.aviso_server/config.yaml") in first.message


def test_faults_of_every_source_and_kind_come_together(tmp_path: Path) -> None:
    """Environment, types, unknown keys and rules are reported in one error."""
    file = _write(
        tmp_path / "a.yaml",
        "application: {host: a, port: x}\nauth: {who: 1}\n" + "metrics: {enabled: 1}",
    )
    with pytest.raises(SettingsError) as caught:
        _load(
            tmp_path,
            {"AVISOSERVER_AUTH__ADMIN_ROLES": "{", "AVISOSERVER_NOTIFICATION_BACKEND__KIND": "k"},
            config_file=file,
        )
    assert [fault.path for fault in caught.value.faults] == [
        "AVISOSERVER_AUTH__ADMIN_ROLES",
        "application.port",
        "auth",
        "notification_backend.kind",
        "metrics.port",
    ]


def test_two_broken_files_are_both_reported(tmp_path: Path) -> None:
    """One broken file does not hide another."""
    _write(tmp_path / "cwd/configuration/config.yaml", "- a\n")
    _write(tmp_path / "home/.aviso_server/config.yaml", "a: [\n")
    with pytest.raises(SettingsError) as caught:
        _load(tmp_path)
    assert len(caught.value.faults) == 2


@pytest.mark.parametrize(
    ("text", "token"),
    [("", "env"), ("jetstream: {token: file}", "file"), ("jetstream: {token: }", "env")],
)
def test_nats_token_fills_in(tmp_path: Path, text: str, token: str) -> None:
    """NATS_TOKEN counts only where the configuration has no token."""
    raw = "application: {host: a, port: 1}\nnotification_backend:\n  kind: jetstream\n  " + text
    loaded = _load(tmp_path, {"NATS_TOKEN": "env"}, config_file=_write(tmp_path / "a.yaml", raw))
    secret = loaded.notification_backend.jetstream.token
    assert secret is not None
    assert secret.get_secret_value() == token


@pytest.mark.parametrize("url", ["example.org/aviso", "http://[::1"])
def test_a_base_url_that_is_not_absolute_is_a_warning(url: str) -> None:
    """It is used as it is, even if it cannot be split."""
    loaded = settings(configuration(application={"base_url": url}))
    assert [w.event for w in loaded.warnings] == ["configuration.base_url.not_absolute"]
    assert loaded.application.base_url == url


@pytest.mark.parametrize(
    ("raw", "strict", "events"),
    [
        (with_schema(), True, []),
        ({**with_schema(), "notification_schema_strict": True}, True, []),
        (
            {**with_schema(), "notification_schema_strict": False},
            False,
            ["configuration.schema_strict.explicit_disabled"],
        ),
        (configuration(), False, []),
        (configuration(notification_schema={}), False, []),
        (configuration(notification_schema_strict=True), True, []),
        (configuration(notification_schema_strict=False), False, []),
    ],
)
def test_strictness_follows_the_table(
    raw: dict[str, Json], strict: bool, events: list[str]
) -> None:
    """Set, or exactly when there is a schema; switching it off is reported."""
    loaded = settings(raw)
    assert loaded.catalogue.strict is strict
    assert [w.event for w in loaded.warnings] == events


def _load(
    root: Path,
    environ: Mapping[str, str] | None = None,
    *,
    config_file: Path | None = None,
    overrides: Mapping[str, Json] | None = None,
) -> Settings:
    return load(
        config_file=config_file,
        environ=environ or {},
        cwd=root / "cwd",
        home=root / "home",
        overrides=overrides,
        etc=root / "etc",
    )


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
