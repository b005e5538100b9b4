"""A request as JSON, as a curl command and as Python: whatever it holds, it stays data."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.browser import Tab
from support.process import ServerProcess

from aviso_server.core.cursor import parse_sequence
from aviso_server.core.errors import InvalidRequest

PATIENCE_S = 60
"""Only bounds a failing test."""
BASE = "http://localhost:8000"
CALL = """async ([name, values]) => {
  const request = await import("/static/console/request/request.js");
  return values.map((value) => request[name](value));
}"""
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    # Beyond, JavaScript writes other digits of the same double.
    st.floats(-1e15, 1e15),
    st.text(max_size=12),
    st.sampled_from(["'", '"', "\\", "$HOME", "`id`", "$(id)", "!!", "\n", "\r\n", "\x00", "\x7f"]),
    st.sampled_from(["\u202e", "\u2066", "\u2028", "\ufeff", "\u200b", "\x85", "é", "𝒳", "'\\''"]),
)
NAMES = st.text(max_size=6).filter(lambda name: name != "__proto__")
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
REQUESTS = st.fixed_dictionaries(
    {"event_type": st.text(max_size=8), "identifier": st.dictionaries(NAMES, JSON, max_size=3)},
    optional={"payload": JSON},
)
HIDDEN = {"\x7f", "\x85", "\xad", "\u200b", "\u200e", "\u2028", "\u202e", "\u2066", "\ufeff"}


def called(page: Tab, name: str, values: list[Any]) -> list[Any]:
    """What a function makes of each value."""
    answer: list[Any] = page.page.evaluate(CALL, [name, values])
    return answer


def words_of(command: str) -> list[str]:
    """The arguments that a shell gives to curl."""
    show = "curl() { printf '%s\\0' \"$@\"; }\n"
    shell = ["bash", "--norc", "-c", show + command]
    environ = {"AVISO_TOKEN": "from the environment", "AVISO_USERNAME": "someone"}
    printed = subprocess.run(shell, env=environ, stdout=subprocess.PIPE, check=True).stdout
    return printed.decode().split("\0")[:-1]


def test_request_object(page: Tab) -> None:
    """Members come in the order of the documentation; what is not given is left out."""
    asked: list[dict[str, Any]] = [
        {"kind": "watch", "start": None},
        {"kind": "watch", "start": {"id": "5"}, "end": {"id": "7"}},
        {"kind": "watch", "start": {"date": "2025-06-09T13:15:00Z"}},
        {"kind": "replay", "start": {"id": "5"}, "end": {"date": "1740509903"}},
        {"kind": "replay", "start": {"date": "0"}, "end": {"id": "7"}},
        {"kind": "replay", "start": {"id": "0"}, "end": None},
        {"kind": "notify", "payload": None},
        {"kind": "notify", "start": {"id": "5"}},
    ]
    common = {"eventType": "ev", "identifier": {"b": "1", "a": "2"}}
    made = called(page, "requestOf", [{**common, **item} for item in asked])
    assert [list(request.items())[2:] for request in made] == [
        [],
        [("from_id", "5")],
        [("from_date", "2025-06-09T13:15:00Z")],
        [("from_id", "5"), ("to_date", "1740509903")],
        [("from_date", "0"), ("to_id", "7")],
        [("from_id", "0")],
        [("payload", None)],
        [],
    ]
    for request in made:
        assert list(request)[:2] == ["event_type", "identifier"]
        assert list(request["identifier"]) == ["b", "a"]


def test_sequences(page: Tab) -> None:
    """The page refuses the text of a sequence exactly if the server does."""
    texts = ["", " ", "0", "1", "+7", "007", "-1", "-0", "1.0", " 1", "1_0", "٣", "x", "++1"]
    texts += ["18446744073709551615", "18446744073709551616", "0" * 40 + "1", "9" * 40]

    def refused(text: str) -> bool:
        try:
            parse_sequence("from_id", text)
        except InvalidRequest:
            return True
        return False

    problems = called(page, "sequenceProblem", texts)
    assert [bool(problem) for problem in problems] == [refused(text) for text in texts]


@settings(max_examples=40)
@given(st.lists(REQUESTS, min_size=5, max_size=20))
def test_json_to_read(page: Tab, requests: list[dict[str, Any]]) -> None:
    """The text reads back as the request, and shows every character there is."""
    for request, text in zip(requests, called(page, "pretty", requests), strict=True):
        assert json.loads(text) == request
        assert HIDDEN.isdisjoint(text)


def test_pairs_on_one_line(page: Tab) -> None:
    """Coordinates are laid out as people write them; texts that look like it are left alone."""
    tricky = "[\n 1,\n 2\n ]"
    request = {"polygon": [[1.5, -2], [1e-7, 1e21]], "in": ["a"], "text": tricky}
    (text,) = called(page, "pretty", [request])
    assert text == (
        '{\n  "polygon": [\n    [1.5, -2],\n    [1e-7, 1e+21]\n  ],\n'
        '  "in": [\n    "a"\n  ],\n  "text": "[\\n 1,\\n 2\\n ]"\n}'
    )


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(REQUESTS, st.sampled_from(["notify", "watch", "replay"])), min_size=1, max_size=6
    ),
    st.sampled_from([None, "bearer", "basic"]),
)
def test_curl(page: Tab, asked: list[tuple[dict[str, Any], str]], auth: str | None) -> None:
    """A shell hands curl exactly the request, whatever it holds, and nothing else happens."""
    given_to = [
        {"base": BASE, "kind": kind, "request": request, "auth": auth} for request, kind in asked
    ]
    paths = {"notify": "notification", "watch": "watch", "replay": "replay"}
    credentials = {
        None: [],
        "bearer": ["-H", "Authorization: Bearer from the environment"],
        "basic": ["-u", "someone"],
    }
    for (request, kind), line in zip(asked, called(page, "curlLine", given_to), strict=True):
        *words, body = words_of(line)
        assert words == [
            *([] if kind == "notify" else ["-N"]),
            *("-X", "POST", f"{BASE}/api/v1/{paths[kind]}"),
            *credentials[auth],
            *("-H", "Content-Type: application/json", "--data-raw"),
        ]
        assert json.loads(body) == request
        assert HIDDEN.isdisjoint(line)


@settings(max_examples=25)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1))
def test_quoting(page: Tab, texts: list[str]) -> None:
    """Any text is one word of a shell."""
    quoted = called(page, "quoted", texts)
    assert words_of("curl " + " ".join(quoted)) == texts


def calls(program: str) -> dict[str, ast.Call]:
    """The calls of a program on pyaviso and its client, by name."""
    return {
        node.func.attr: node
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }


def literals(call: ast.Call) -> dict[str, Any]:
    """The keywords of a call."""
    return {str(item.arg): ast.literal_eval(item.value) for item in call.keywords}


@settings(max_examples=40)
@given(st.lists(REQUESTS, min_size=3, max_size=10))
def test_python_literals(page: Tab, requests: list[dict[str, Any]]) -> None:
    """The program compiles, and its literals are the request."""
    asked = [{"base": BASE, "kind": "notify", "request": request} for request in requests]
    for request, program in zip(requests, called(page, "pyavisoLines", asked), strict=True):
        compile(program, "snippet", "exec")
        assert literals(calls(program)["notify"]) == request
        assert HIDDEN.isdisjoint(program)


def test_python_cursors(page: Tab) -> None:
    """The client begins after its start: one less is asked for. Dates go through as they are."""
    both: list[tuple[dict[str, str], dict[str, Any]]] = [
        ({}, {}),
        ({"from_id": "0"}, {"start_from": 0}),
        ({"from_id": "1"}, {"start_from": 0}),
        ({"from_id": "+005"}, {"start_from": 4}),
        ({"from_id": "18446744073709551615"}, {"start_from": 18446744073709551614}),
        ({"from_date": "1740509903"}, {"start_from": "1740509903"}),
        ({"from_id": "5", "to_id": "+7"}, {"start_from": 4, "until": 7}),
        (
            {"from_id": "5", "to_date": "2025-06-09 13:15:00"},
            {"start_from": 4, "until": "2025-06-09 13:15:00"},
        ),
    ]
    request = {"event_type": "ev", "identifier": {"region": {"in": ["n"]}}}
    for kind in ("watch", "replay"):
        asked = [
            {"base": BASE, "kind": kind, "request": {**request, **cursors}} for cursors, _ in both
        ]
        mode = {"mode": "replay_only"} if kind == "replay" else {}
        for (_, keywords), program in zip(both, called(page, "pyavisoLines", asked), strict=True):
            listen = calls(program)["listen"]
            assert [ast.literal_eval(argument) for argument in listen.args] == ["ev"]
            assert literals(listen) == {"filter": request["identifier"], **keywords, **mode}
    unfiltered = {"base": BASE, "kind": "watch", "request": {"event_type": "ev", "identifier": {}}}
    (program,) = called(page, "pyavisoLines", [unfiltered])
    assert literals(calls(program)["listen"]) == {}


def test_no_secret(page: Tab) -> None:
    """Commands take a credential from the environment."""
    request = {"event_type": "ev", "identifier": {}}
    asked = [
        {"base": BASE, "kind": "watch", "request": request, "auth": auth}
        for auth in ("bearer", "basic", None)
    ]
    bearer, basic, nobody = called(page, "pyavisoLines", asked)
    assert 'pyaviso.Bearer(os.environ["AVISO_TOKEN"])' in bearer
    assert 'pyaviso.Basic(os.environ["AVISO_USERNAME"], os.environ["AVISO_PASSWORD"])' in basic
    assert "pyaviso.Anonymous()" in nobody
    for program in (bearer, basic, nobody):
        compile(program, "snippet", "exec")
        assert ("import os" in program) == ("os.environ" in program)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment in which the client finds nothing of its user."""
    return {"HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}


def run(program: str, home: dict[str, str]) -> str:
    """What a program printed that ends by itself."""
    # The client may die after its last line: what it printed counts.
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=home,
        stdout=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout.decode()


def test_programs_run(page: Tab, server: ServerProcess, home: dict[str, str]) -> None:
    """The real client runs them against a real server: what is published is read."""
    region = 'it\'s "so"\n\\ é 𝒳 \u202e'
    identifier = {"region": region}
    payload = {"a": [1, 2.5, True, False, None, "'"], "b": {}}
    announced = {"event_type": "ev", "identifier": identifier, "payload": payload}
    replayed = {"event_type": "ev", "identifier": identifier, "from_id": "0"}
    notify, replay, watch = called(
        page,
        "pyavisoLines",
        [
            {"base": server.url, "kind": "notify", "request": announced},
            {"base": server.url, "kind": "replay", "request": replayed},
            {"base": server.url, "kind": "watch", "request": replayed},
        ],
    )
    assert run(notify, home).startswith("success ")
    printed = run(replay, home)
    sequence, shown = printed.rstrip("\n").split(" ", 1)
    assert shown == f"{identifier} {payload}"

    # A watch does not end by itself: its first line is enough.
    following = subprocess.Popen(
        [sys.executable, "-c", watch], env=home, stdout=subprocess.PIPE, text=True
    )
    try:
        assert following.stdout is not None
        assert following.stdout.readline() == printed
    finally:
        following.kill()
        following.communicate()

    window = {**replayed, "from_id": sequence, "to_id": sequence}
    dated = {"event_type": "ev", "identifier": identifier, "from_date": "2020-01-01T00:00:00Z"}
    asked = [
        {"base": server.url, "kind": "replay", "request": request} for request in (window, dated)
    ]
    for program in called(page, "pyavisoLines", asked):
        assert run(program, home) == printed


def test_curl_runs(page: Tab, server: ServerProcess) -> None:
    """The real curl publishes, and reads it back."""
    identifier = {"region": "curl's \\ $HOME"}
    announced = {"event_type": "ev", "identifier": identifier, "payload": "ü'\n"}
    replayed = {"event_type": "ev", "identifier": identifier, "from_id": "0"}
    lines = called(
        page,
        "curlLine",
        [
            {"base": server.url, "kind": "notify", "request": announced},
            {"base": server.url, "kind": "replay", "request": replayed},
        ],
    )

    def printed(line: str) -> str:
        shell = ["bash", "--norc", "-c", line]
        quiet = subprocess.DEVNULL
        done = subprocess.run(
            shell, stdout=subprocess.PIPE, stderr=quiet, timeout=PATIENCE_S, check=True
        )
        return done.stdout.decode()

    assert json.loads(printed(lines[0]))["status"] == "success"
    frames = printed(lines[1]).split("\n\n")
    (event,) = [frame for frame in frames if frame.startswith("event: replay\n")]
    data = json.loads(event.split("data: ", 1)[1])["data"]
    assert data == {"identifier": identifier, "payload": "ü'\n"}
