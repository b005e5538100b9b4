"""Logs: the protocol's JSON line, levels, renamed fields, redaction."""

import io
import json
import re
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from support.config import settings
from support.relay import NOW_NS

from aviso_server import __version__
from aviso_server.server.serve import log_settings
from aviso_server.telemetry import log
from aviso_server.telemetry.redaction import REDACTED, redact_text


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Put the suite's quiet logger back."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def logged(level: str = "info", **environ: str) -> io.StringIO:
    """Configure JSON logging into a buffer."""
    out = io.StringIO()
    log.configure(level, environ=environ, now_ns=lambda: NOW_NS, stream=out)
    return out


def test_the_shape_of_a_line() -> None:
    """One object a line, keys sorted at every level, fields renamed, unset ones left out."""
    out = logged(K8S_NAMESPACE_NAME="aviso", K8S_POD_NAME="aviso-0")
    structlog.get_logger().warning(
        "Refused", event_name="api.request.parse.failed", error_type="X", error_message="m", z=None
    )
    line = int(json.loads(out.getvalue())["attributes"]["code.lineno"])
    assert out.getvalue() == (
        '{"attributes":{"code.filepath":"test_log.py","code.lineno":'
        f"{line}"
        f',"code.target":"{__name__}","error.type":"X","event.name":"api.request.parse.failed",'
        '"exception.message":"m"},"body":"Refused","resource":{"k8s.namespace.name":"aviso",'
        '"k8s.pod.name":"aviso-0","service.name":"aviso-server",'
        f'"service.version":"{__version__}"}},"severityNumber":13,"severityText":"WARN",'
        '"timestamp":"2026-03-04T10:00:00Z"}\n'
    )


@pytest.mark.parametrize(
    ("configured", "environ", "shown"),
    [
        ("info", {}, ["INFO", "WARN", "ERROR"]),
        ("WARN", {}, ["WARN", "ERROR"]),
        ("nonsense", {}, ["INFO", "WARN", "ERROR"]),
        ("error", {"RUST_LOG": "debug"}, ["DEBUG", "INFO", "WARN", "ERROR"]),
        ("error", {"RUST_LOG": "  "}, ["ERROR"]),
        ("error", {"RUST_LOG": "info,somewhere.else=debug"}, ["INFO", "WARN", "ERROR"]),
        ("error", {"RUST_LOG": f"{__name__}=warn"}, ["WARN", "ERROR"]),
        ("info", {"RUST_LOG": f"{__name__.partition('.')[0]}=off"}, []),
        ("info", {"RUST_LOG": f"{__name__.replace('.', '::')}=error"}, ["ERROR"]),
    ],
)
def test_levels(configured: str, environ: dict[str, str], shown: list[str]) -> None:
    """RUST_LOG beats the settings when it says something; an unknown level is info."""
    out = logged(configured, **environ)
    journal = structlog.get_logger()
    for method in (journal.debug, journal.info, journal.warning, journal.error):
        method("x")
    assert [json.loads(line)["severityText"] for line in out.getvalue().splitlines()] == shown


def test_console_lines_are_for_people() -> None:
    """No JSON, no event names, no configuration dump, no secrets."""
    out = io.StringIO()
    log.configure("info", environ={}, now_ns=lambda: NOW_NS, console=True, stream=out)
    structlog.get_logger().info("Dump", event_name="startup.configuration.dumped", config={})
    structlog.get_logger().info("Hello", event_name="x.y", password="p", url="nats://u:p@h")
    text = out.getvalue()
    assert "Hello" in text
    assert "Dump" not in text
    assert "x.y" not in text
    assert "u:p" not in text


@pytest.mark.parametrize("text", ["loud", "a=b=info,x", "=debug", "info,,", "http=verbose"])
def test_malformed_directives_are_ignored_with_a_warning(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, since stdout belongs to the log; then the configured level counts."""
    out = logged("warn", RUST_LOG=text)
    structlog.get_logger().info("x")
    structlog.get_logger().warning("y")
    assert [json.loads(line)["body"] for line in out.getvalue().splitlines()] == ["y"]
    assert capsys.readouterr().err.startswith("warning: RUST_LOG is ignored: ")


def test_the_place_in_the_code() -> None:
    """Records of the server name file, line and module, without where it is installed."""
    out = logged()
    log_settings(settings())
    for line in out.getvalue().splitlines():
        attributes = json.loads(line)["attributes"]
        assert attributes["code.filepath"] == "aviso_server/server/serve.py"
        assert attributes["code.target"] == "aviso_server.server.serve"
        assert attributes["code.lineno"] > 1


def test_ids_of_a_trace_stand_beside_the_attributes() -> None:
    """As ``traceId`` and ``spanId``, where they are known."""
    out = logged()
    structlog.get_logger().info("x", trace_id="ab", span_id="cd", event_name="e")
    line = json.loads(out.getvalue())
    assert (line["traceId"], line["spanId"]) == ("ab", "cd")
    assert "trace_id" not in line["attributes"]


@pytest.mark.parametrize("console", [False, True])
def test_tracebacks_are_redacted_and_show_no_variables(console: bool) -> None:
    """An unexpected fault is logged with its traceback, whatever was in scope."""
    out = io.StringIO()
    log.configure("info", environ={}, now_ns=lambda: NOW_NS, console=console, stream=out)
    hidden = "hun" + "ter2"
    try:
        int(f"cannot reach nats://me:{hidden}@host")
    except ValueError:
        structlog.get_logger().error("Failed", event_name="e", exc_info=True)
    text = out.getvalue()
    assert "Traceback (most recent call last)" in text
    assert f"{REDACTED}@host" in text
    assert hidden not in text


secrets = st.text("abcdefghijkXYZ0123456789._~+-", min_size=6, max_size=20).map(lambda s: f"Q{s}Q")


@given(secrets, secrets)
def test_free_text_is_cleaned(user: str, secret: str) -> None:
    """URL user info, assigned secrets and credentials after their scheme."""
    for text in (
        f"cannot reach nats://{user}:{secret}@host:4222/x",
        f"password={secret} rest",
        f"token: {secret}",
        f'refused: {{"user": "u", "password": "{secret} {user}"}} by the server',
        f"{{'jwt_secret': '{secret}'}}",
        f"api_key = {secret}; next",
        f"Authorization: Bearer {secret}",
        f"basic {secret}",
    ):
        assert secret not in redact_text(text)
        assert REDACTED in redact_text(text)


@given(st.text(",:@ /a?", max_size=30))
def test_bare_user_info_is_found_wherever_it_begins(text: str) -> None:
    """The linear pattern finds what the plain, quadratic one finds."""
    plain = re.compile(r"(?:(?<=^)|(?<=,))\s*[^\s/,@]*:[^\s/@]*@")
    expected = plain.sub(f"{REDACTED}@", re.sub(r"(?<=://)[^\s/?#]*@", f"{REDACTED}@", text))
    assert redact_text(text) == expected


def test_what_clients_sent_is_logged_in_part() -> None:
    """A text of a quarter of a megabyte does not become a line of that length."""
    out = logged()
    structlog.get_logger().warning("x", event_name="e", event_type="@ ,:" + ":" * 250_000 + "end")
    line = out.getvalue()
    assert len(line) < 4000
    assert line.count("end") == 1
