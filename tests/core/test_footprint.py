"""Memory is counted truly: what is counted for things is about what a process takes for them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.footprints import KINDS

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_counted_is_about_what_is_taken(kind: str) -> None:
    """Many things of a kind, made in a process of their own, are neither hidden nor exaggerated."""
    ran = subprocess.run(
        [sys.executable, "-m", "support.footprints", kind],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = json.loads(ran.stdout)
    assert found["taken"] > 10_000_000, "enough of them that nothing else matters"
    assert 0.7 * found["taken"] <= found["counted"] <= 3 * found["taken"], found
