"""``aviso-server pipeline replay``: what is wrong is told before Spark starts."""

from pathlib import Path

import pytest
import yaml
from support.config import document
from support.lake import filled, record
from typer.testing import CliRunner

from aviso_server.cli.commands import app
from aviso_server.lake.layout import Place
from aviso_server.pipeline.delivery.ledger import LedgerLine
from aviso_server.pipeline.delivery.target import Target
from aviso_server.pipeline.history.plan import make_plan, question
from aviso_server.pipeline.replay.options import ReplayServer
from aviso_server.pipeline.replay.server import open_ledger


def invoke(*arguments: str) -> tuple[int, str]:
    """Exit code and what was said."""
    result = CliRunner().invoke(app, ["pipeline", "replay", *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ev"], "give one of --output and --to-server"),
        (["ev", "--output", "o", "--to-server", "http://h"], "give one of --output and"),
        (
            ["ev", "--output", "o", "--from-id", "1", "--from-date", "2"],
            "give one of --from-id and",
        ),
        (["ev", "--output", "o", "--to-id", "-1"], "--to-id must be a valid positive integer"),
        (["ev", "--output", "o", "--format", "csv"], "csv"),
        (["ev", "--lake", "l", "--output", "o", "--format", "ndjson", "--typed"], "no columns"),
        (["ev", "--lake", "l", "--to-server", "http://h"], "say in which folder"),
        (["ev", "--lake", "l", "--to-server", "ftp://h", "--state", "s"], "http://HOST:PORT"),
        (["ev", "--output", "o", "--storage-option", "x"], "NAME=VALUE"),
        ([], "Missing argument"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str) -> None:
    """Exit code 2, and which option it is."""
    code, output = invoke(*arguments)
    assert (code, said in output.replace("\n", " ")) == (2, True), output


def test_bad_places_and_questions(place: Place, tmp_path: Path) -> None:
    """Exit code 1 and one line, without a stack trace."""
    filled(place, [record(1, "ev")])
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(document()))
    known = ("--config", str(config), "--output", str(tmp_path / "out"))
    out = ("--output", str(tmp_path / "out"))
    for arguments, said in (
        (("--lake", str(tmp_path / "none"), *out), "there is no lake at"),
        (("--lake", place.path, "--filter", "{", *out), "filter: "),
        (("--lake", place.path, "--from-date", "soon", *out), "valid datetime"),
        (("--lake", place.path, *known, "--filter", '{"reg": 1}'), "Unknown field 'reg'"),
        (known, "say where the notifications are"),
        (("--log", "nats://127.0.0.1:1", *out), "NATS connect failed"),
    ):
        code, output = invoke("ev", *arguments)
        assert (code, said in output, output.count("\n")) == (1, True, 1), output
        assert output.startswith("aviso-server pipeline replay: ")
    assert not (tmp_path / "out").exists()


def test_what_is_there_already(place: Place, tmp_path: Path) -> None:
    """Files are not written over, nor ledgers; a replay that is complete only says so."""
    filled(place, [record(n, "ev") for n in range(1, 4)])
    # Spark would not be found there, and that would be the error.
    known = ("--lake", place.path, "--master", "spark://127.0.0.1:1")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    code, output = invoke("ev", *known, "--output", str(tmp_path / "out"))
    assert (code, "exists already: choose another output" in output) == (1, True)
    state = ("--state", str(tmp_path / "state"), "--to-server", "http://127.0.0.1:1")
    asked = question("ev", lake=place)
    server = ReplayServer(target=Target(url=state[-1]), state=Path(state[1]))
    ledger = open_ledger(make_plan(asked), server, chunk=10)
    ledger.note(LedgerLine(3, target=7, published=3, complete=True))
    ledger.close()
    code, output = invoke("ev", *known, *state)
    assert code == 0
    assert output.startswith("3 notifications of ev, from sequences 1 to 3, to http://127.0.0.1:1")
    assert output.endswith("3 of them by earlier runs\n")
    code, output = invoke("ev", *known, "--from-id", "2", *state)
    assert (code, "belongs to another delivery (differing: start)" in output) == (1, True)
