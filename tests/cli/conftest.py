"""Commands set logging up for the whole process; tests share one."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Put the suite's quiet logger back."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
