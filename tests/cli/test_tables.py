"""``aviso-server pipeline tables``: what it does, and what it says."""

from pathlib import Path

import yaml
from support.command import invoke
from support.config import document, on_jetstream
from support.lake import filled, record

from aviso_server.core.json import Json
from aviso_server.lake.layout import Place
from aviso_server.lake.typed.table import table_name


def _config(tmp_path: Path) -> tuple[str, Place]:
    lake = tmp_path / "lake"
    path = tmp_path / "config.yaml"
    told: dict[str, Json] = {**on_jetstream("nats://127.0.0.1:1"), "lake": {"path": str(lake)}}
    path.write_text(yaml.safe_dump(document(told)))
    return str(path), Place(str(lake))


def test_tables_are_made_and_followed(tmp_path: Path) -> None:
    """What was added and what did not fit, for every event type with a schema; then nothing."""
    config, place = _config(tmp_path)
    fit = [record(n, "extreme", identifier={"severity": str(n)}) for n in (1, 2)]
    filled(place, [*fit, record(3, "extreme", identifier={"severity": "high"})])
    filled(place, [record(1, "nobody_knows")])
    result = invoke("pipeline", "tables", "--config", config)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[1].split() == ["extreme", "severity", "1", "3", "3", "0", "0"]
    again = invoke("pipeline", "tables", "--config", config, "--event-type", "extreme")
    assert again.output.splitlines()[1].split() == ["extreme", "-", "3", "0", "0", "0"]
    assert not Path(place.table(table_name("nobody_knows"))).exists()


def test_what_cannot_be_done_is_reported_in_one_line(tmp_path: Path) -> None:
    """No lake, no such event type, a table that is not one: a line on stderr, exit code 1."""
    config, place = _config(tmp_path)
    missing = invoke("pipeline", "tables", "--config", config)
    assert (missing.exit_code, missing.output.count("\n")) == (1, 1)
    assert "there is no lake at" in missing.output
    unknown = invoke("pipeline", "tables", "--config", config, "--event-type", "marz")
    assert "event type 'marz' has no schema" in unknown.output
    filled(place, [record(1, "extreme"), record(1, "ev")])
    broken = Path(place.table(table_name("extreme"))) / "_delta_log"
    broken.mkdir(parents=True)
    (broken / "00000000000000000000.json").write_text("{not json")
    result = invoke("pipeline", "tables", "--config", config)
    assert result.exit_code == 1
    assert "aviso-server pipeline tables: extreme: cannot open the table" in result.output
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["ev", "-", "1", "1", "0", "0"] in rows  # the others are done all the same
