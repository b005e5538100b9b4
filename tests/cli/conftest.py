"""What every command is run in: a folder of its own, and a log that is put back."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration of the machine the tests run on."""
    for name in os.environ:
        if name.upper().startswith("AVISOSERVER_") or name in ("NATS_TOKEN", "AVISO_TOKEN"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Put the suite's quiet logger back: commands set logging up for the whole process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
