"""``aviso-server pipeline replay``: what is wrong is reported before Spark starts."""

from pathlib import Path

import yaml
from support.command import invoke
from support.config import document
from support.lake import filled, record

from aviso_server.lake.layout import Place
from aviso_server.pipeline.delivery.ledger import LedgerLine
from aviso_server.pipeline.delivery.target import Target
from aviso_server.pipeline.history.plan import make_plan, question
from aviso_server.pipeline.replay.options import ReplayServer
from aviso_server.pipeline.replay.server import open_ledger


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
        result = invoke("pipeline", "replay", "ev", *arguments)
        assert (result.exit_code, result.output.count("\n")) == (1, 1), result.output
        assert said in result.output
        assert result.output.startswith("aviso-server pipeline replay: ")
    assert not (tmp_path / "out").exists()


def test_what_is_there_already(place: Place, tmp_path: Path) -> None:
    """Files are not written over, nor ledgers; a replay that is complete only says so."""
    filled(place, [record(n, "ev") for n in range(1, 4)])
    # Spark would not be found there, and that would be the error.
    known = ("--lake", place.path, "--master", "spark://127.0.0.1:1")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    result = invoke("pipeline", "replay", "ev", *known, "--output", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "exists already: choose another output" in result.output
    state = ("--state", str(tmp_path / "state"), "--to-server", "http://127.0.0.1:1")
    asked = question("ev", lake=place)
    server = ReplayServer(target=Target(url=state[-1]), state=Path(state[1]))
    ledger = open_ledger(make_plan(asked), server, chunk=10)
    ledger.note(LedgerLine(3, target=7, published=3, complete=True))
    ledger.close()
    result = invoke("pipeline", "replay", "ev", *known, *state)
    assert result.exit_code == 0
    assert result.output.startswith(
        "3 notifications of ev, from sequences 1 to 3, to http://127.0.0.1:1"
    )
    assert result.output.endswith("3 of them by earlier runs\n")
    result = invoke("pipeline", "replay", "ev", *known, "--from-id", "2", *state)
    assert result.exit_code == 1
    assert "belongs to another delivery (differing: start)" in result.output
