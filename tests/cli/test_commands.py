"""The command line as a user meets it: arguments in, text and exit code out."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.command import invoke

from aviso_server import __version__

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "config.yaml")


def test_the_version_is_one_line() -> None:
    """``--version`` prints name and version."""
    assert invoke("--version").stdout == f"aviso-server {__version__}\n"


def test_python_can_run_the_package() -> None:
    """``python -m aviso_server`` is the same program."""
    done = subprocess.run(
        [sys.executable, "-m", "aviso_server", "--version"], capture_output=True, check=True
    )
    assert done.stdout.decode() == f"aviso-server {__version__}\n"


@pytest.mark.parametrize(
    ("command", "example"),
    [
        ("", "--config examples/config.yaml"),
        ("serve", "--config examples/config.yaml"),
        ("check", "--config examples/config.yaml"),
        ("schema", "--config examples/config.yaml"),
        ("pipeline archive", "pipeline archive --config examples/config.yaml --once"),
        ("pipeline live", "pipeline live --config examples/config.yaml\n"),
        ("pipeline live", '"event_type": "aviso_alert"'),
        ("pipeline replay", "pipeline replay mars --config config.yaml"),
    ],
)
def test_help_teaches_by_example(command: str, example: str) -> None:
    """Each command shows commands that can be typed, in plain text."""
    result = invoke(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Examples:\n" in result.stdout
    assert example in result.stdout
    assert "\x1b" not in result.stdout


def test_help_is_made_of_sentences() -> None:
    """No summary is cut, no option is without a word, and no type of Python shows."""
    for group in ([], ["pipeline"]):
        listed = invoke(*group, "--help").stdout.partition("Commands:\n")[2].split("\n\n")[0]
        assert "..." not in listed
        for name in re.findall(r"^  (\w+)", listed, re.MULTILINE):
            if name == "pipeline":
                continue
            text = invoke(*group, name, "--help").stdout.partition("Examples:")[0]
            usage, options = text.split("Options:\n")
            assert usage.rstrip().endswith("."), name
            entries = re.split(r"\n  (?=-)", f"\n{options.rstrip()}")[1:]
            assert len(entries) > 1
            for entry in entries:
                told = re.sub(r"\[[^]]*(local\[\*\])?[^]]*\]$", "", " ".join(entry.split()))
                assert told.rstrip().endswith((".", "...", "exit.")), entry
            assert not re.search(r"<\w+>|list\[|Path\(|None", text), name


def test_help_explains_where_settings_come_from() -> None:
    """Search path and environment overrides are explained at the top."""
    text = invoke("--help").stdout
    for part in (
        "AVISOSERVER_CONFIG_FILE",
        "AVISOSERVER_APPLICATION__PORT=8080",
        "/etc/aviso_server",
    ):
        assert part in text


@pytest.mark.parametrize("command", [[], ["check"], ["schema"]])
def test_the_examples_in_the_help_work(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every check and schema example runs as written."""
    monkeypatch.chdir(ROOT)
    lines = re.findall(r"^ +aviso-server (.*)$", invoke(*command, "--help").stdout, re.MULTILINE)
    tried = [line.split() for line in lines if not line.startswith("serve")]
    assert tried
    for arguments in tried:
        assert invoke(*arguments).exit_code == 0


def test_the_overrides_in_the_help_work() -> None:
    """Every variable that is shown sets something, and the example configuration stays valid."""
    shown = re.findall(r"^ +(AVISOSERVER_\w+)=(.*)$", invoke("--help").stdout, re.MULTILINE)
    assert len(shown) >= 3
    variables = {name: shlex.split(value)[0] for name, value in shown}
    result = invoke("check", "--config", EXAMPLE, **variables)
    assert (result.exit_code, result.stderr) == (0, "")


def test_check_prints_the_effective_settings_as_yaml() -> None:
    """Defaults filled in, environment applied, readable by any YAML reader."""
    result = invoke("check", "--config", EXAMPLE, AVISOSERVER_APPLICATION__PORT="8080")
    shown = yaml.safe_load(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert shown["application"]["port"] == 8080
    assert shown["watch_endpoint"]["client_queue_size"] == 1000


def test_what_check_prints_is_a_configuration(tmp_path: Path) -> None:
    """The printed settings, used as a file, print the same settings."""
    printed = invoke("check", "--config", EXAMPLE).stdout
    file = tmp_path / "again.yaml"
    file.write_text(printed, encoding="utf-8")
    assert invoke("check", "--config", str(file)).stdout == printed


def test_check_hides_secrets_and_reports_warnings_on_stderr() -> None:
    """Warnings do not spoil the YAML."""
    result = invoke(
        "check", "--config", EXAMPLE, AVISOSERVER_AUTH__JWT_SECRET="hunter2", AVISOSERVER_TYPO="1"
    )
    assert result.exit_code == 0
    assert "hunter2" not in result.output
    assert yaml.safe_load(result.stdout)["auth"]["jwt_secret"] == "[REDACTED]"
    assert result.stderr == (
        "warning: AVISOSERVER_TYPO: variable 'AVISOSERVER_TYPO' sets nothing and is ignored\n"
    )


@pytest.mark.parametrize("command", ["serve", "check", "schema"])
def test_faults_are_listed_together_on_stderr(command: str) -> None:
    """Exit code 1, the protocol's first line, then one line per fault."""
    result = invoke(
        command,
        "--config",
        EXAMPLE,
        AVISOSERVER_APPLICATION__PORT="http",
        AVISOSERVER_METRICS__ENABLED="yes",
    )
    assert result.exit_code == 1
    # A server also reports to its log.
    assert len(result.stdout.splitlines()) == (2 if command == "serve" else 0)
    assert result.stderr == (
        "Failed to load configuration"
        f" (service_name=aviso-server, service_version={__version__}): \n"
        "  application.port: must be an integer\n"
        "  metrics.port: metrics.port is required when metrics.enabled=true\n"
    )


def test_options_are_checked_like_any_setting() -> None:
    """``--port`` reaches the checks: the metrics port must differ from it."""
    result = invoke(
        *("serve", "--config", EXAMPLE, "--port", "9090"),
        AVISOSERVER_METRICS__ENABLED="true",
        AVISOSERVER_METRICS__PORT="9090",
    )
    assert result.exit_code == 1
    assert "metrics.port must differ from application.port" in result.stderr


def test_a_missing_file_is_reported() -> None:
    """The option is named, and the path."""
    result = invoke("check", "--config", "nowhere.yaml")
    assert result.exit_code == 1
    assert result.stderr.endswith("  --config: does not point to a file: nowhere.yaml\n")


def test_schema_shows_one_table_per_event_type() -> None:
    """Fields, options and topic places, in plain text when not on a terminal."""
    result = invoke("schema", "--config", EXAMPLE)
    assert result.exit_code == 0
    for name in ("mars", "dissemination", "extreme_event", "test_polygon", "observations"):
        assert f"{name} (topic base " in result.stdout
    assert "\x1b" not in result.stdout
    assert result.stdout.isascii()


def test_schema_shows_one_event_type_on_request() -> None:
    """The name is exact; another one lists those there are."""
    assert "dissemination" not in invoke("schema", "--config", EXAMPLE, "mars").stdout
    result = invoke("schema", "--config", EXAMPLE, "Mars")
    assert result.exit_code == 1
    assert result.stderr == (
        "unknown event type 'Mars'; configured:"
        " aviso_alert, dissemination, extreme_event, mars, observations, test_polygon\n"
    )


def test_check_opens_the_files_that_are_named(tmp_path: Path) -> None:
    """A missing certificate or key is found before the start; those that are not used are not."""
    (tmp_path / "server.key").write_text("key")
    files = {
        "AVISOSERVER_APPLICATION__TLS__CERTIFICATE": str(tmp_path / "server.crt"),
        "AVISOSERVER_APPLICATION__TLS__KEY": str(tmp_path / "server.key"),
        "AVISOSERVER_AUTH__PUBLIC_KEY_FILE": str(tmp_path / "none.pem"),
    }
    result = invoke("check", "--config", EXAMPLE, **files)
    assert result.exit_code == 1
    (fault,) = result.stderr.splitlines()[1:]
    assert fault.startswith(
        f"  application.tls.certificate: {tmp_path}/server.crt cannot be read: "
    )
    nats = {
        "AVISOSERVER_NOTIFICATION_BACKEND__JETSTREAM__EMBEDDED": "false",
        "AVISOSERVER_NOTIFICATION_BACKEND__JETSTREAM__TLS_CA_FILE": str(tmp_path),
    }
    result = invoke("check", "--config", EXAMPLE, **nats)
    assert "notification_backend.jetstream.tls_ca_file" in result.stderr
    assert "Is a directory" in result.stderr
