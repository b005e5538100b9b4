"""What every journey needs: a client that finds no configuration, and the server's log."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.journal import Journal, recorded


@pytest.fixture(autouse=True)
def client_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and no settings of the person who runs the tests."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in [name for name in os.environ if name.startswith("AVISO")]:
        monkeypatch.delenv(name)
    return home


@pytest.fixture
def journal() -> Iterator[Journal]:
    """What servers of this process log."""
    with recorded() as journal:
        yield journal
