"""Memory is counted truly: what is counted for things is about what a process takes for them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.footprints import KINDS

TESTS = Path(__file__).parents[1]


@pytest.mark.slow
def test_what_is_counted_is_about_what_is_taken() -> None:
    """Many things of a kind, made in a process of their own, are neither hidden nor exaggerated."""
    ran = subprocess.run(
        [sys.executable, "-m", "support.footprints", *KINDS],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=250,
        check=True,
    )
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [item["kind"] for item in found] == list(KINDS)
    few = [item for item in found if item["taken"] <= 10_000_000]
    assert few == [], "enough of them that nothing else matters"
    wrong = [
        item for item in found if not 0.7 * item["taken"] <= item["counted"] <= 3 * item["taken"]
    ]
    assert wrong == []
