"""Event types as tables."""

import io
import json
import shlex

from rich.console import Console

from aviso_server.cli.schema import curl, show
from aviso_server.core.fields import registry
from aviso_server.core.schema import Schema, StreamAccess

FIELDS = (
    registry.build("e", "class", {"type": "StringHandler", "required": True, "max_length": 2}),
    registry.build("e", "note", {"type": "StringHandler", "required": False, "description": "[a]"}),
)
SCHEMA = Schema(
    event_type="e",
    fields=FIELDS,
    base="b",
    key_order=("class",),
    payload_required=True,
    access=StreamAccess(required=True),
)


def test_a_table_in_a_pipe_is_aligned_plain_text() -> None:
    """No boxes, no colours, no trailing blanks, nothing taken for markup."""
    assert _shown(terminal=False).splitlines()[:4] == [
        "e (topic base b, stream B, payload required, authentication required)",
        "field  type           required  options       topic  description",
        "class  StringHandler  yes       max_length 2  1",
        "note   StringHandler  no                      -      [a]",
    ]


def test_a_table_on_a_terminal_is_styled() -> None:
    """The same content, with styles."""
    assert "\x1b[1m" in _shown(terminal=True)


def test_no_event_types_is_reported() -> None:
    """An empty answer would leave the user guessing."""
    assert "any event type is accepted" in _shown(terminal=False, empty=True)


def test_the_sample_command_survives_the_shell() -> None:
    """What a shell hands to curl is the JSON body."""
    words = shlex.split(curl(SCHEMA, "http://h/"))
    assert words[:4] == ["curl", "-X", "POST", "http://h/api/v1/notification"]
    assert json.loads(words[-1]) == {
        "event_type": "e",
        "identifier": {"class": "od", "note": "note"},
        "payload": {"note": "hello"},
    }


def _shown(*, terminal: bool, empty: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=160,
        force_terminal=terminal,
        color_system="standard" if terminal else None,
        highlight=False,
    )
    show(console, [] if empty else [SCHEMA], url="http://h")
    return out.getvalue()
