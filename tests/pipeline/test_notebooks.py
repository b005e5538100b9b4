"""The notebooks in examples/, run from the first cell to the last."""

import os
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
import yaml
from nbclient import NotebookClient
from support.fuzz import LONG_FAULTS
from support.process import ServerProcess, server_process

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """The example configuration, with its log in a folder of the test's and no lake."""
    config = yaml.safe_load((ROOT / "examples" / "config.yaml").read_text())
    config["notification_backend"]["jetstream"]["store_dir"] = str(tmp_path / "nats")
    del config["lake"]
    del config["logging"]
    with server_process(config, tmp_path) as running:
        yield running


@pytest.fixture(autouse=True)
def _shared_spark(connect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Spark of other tests; in `make faults` the one that a reader's notebook starts."""
    if not LONG_FAULTS:
        monkeypatch.setenv("SPARK_REMOTE", connect)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_from_a_live_server_to_a_chart(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Announced, read with Spark, drawn."""
    monkeypatch.setenv("AVISO_URL", server.url)
    monkeypatch.setenv("AVISO_ADDRESS_FILE", str(tmp_path / "nats" / "address"))
    done = _executed("first_look.ipynb")
    printed = _texts(done)
    assert "82 announced, 0 rejected" in printed
    assert "|  enfo|           41|   0|240|" in printed
    assert _pictures(done) == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_month_of_history() -> None:
    """Made, filtered, drawn; the late cycles are those of the seed."""
    done = _executed("history.ipynb")
    printed = _texts(done)
    assert "mars           47,373" in printed
    assert "|  enfo|2026-01-20 00:00:00|  8.5|" in printed
    assert "6 of 206 announced areas touch it" in printed
    assert _pictures(done) == 3


def _executed(name: str) -> nbformat.NotebookNode:
    notebook = nbformat.read(  # type: ignore[no-untyped-call]
        ROOT / "examples" / name, as_version=4
    )
    client = NotebookClient(
        notebook, timeout=240, resources={"metadata": {"path": str(ROOT / "examples")}}
    )
    return client.execute(env=dict(os.environ))


def _texts(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output.get("text", "") for output in outputs)


def _pictures(notebook: nbformat.NotebookNode) -> int:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return sum("image/png" in output.get("data", {}) for output in outputs)
