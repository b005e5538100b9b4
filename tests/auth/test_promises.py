"""docs/security.md names tests; they exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_promise_has_its_test() -> None:
    """Each row of the page names at least one test, and each of those is there."""
    page = (ROOT / "docs" / "security.md").read_text()
    promises = page.split("## Promises")[1].split("## What operators must do")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ") and "::" in line]
    named = _NAMED.findall(promises)
    assert len(rows) > 20
    assert all(_NAMED.search(row) for row in rows)
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not re.search(rf"def {name}\(", (ROOT / file).read_text())
    ]
    assert missing == []
