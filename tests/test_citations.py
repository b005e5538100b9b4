"""What the code cites can be opened: every page and heading it names is in this tree."""

import re
from collections.abc import Iterator
from pathlib import Path

from support.markdown import anchors

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "bench", "tools", "examples")
KINDS = {".py", ".js", ".css", ".html", ".yaml", ".yml", ".sh", ".ipynb"}
_CITATION = re.compile(r"(?<![\w./\"-])((?:[\w-]+/)*[\w-]+\.md)(#[\w-]+)?")
"""A page named in a comment; a file name in quotation marks is data."""
_MAKING = re.compile(
    r"\bthe seeds\b|\bseed 0\d\d\b|\bthe issue\b|\bissue \d+\b|\bthe review\b|\bD[1-9]\d?\b"
    r"|\bfield notes\b|\bstep \d+ of the (?:plan|brief)\b"
)
"""Words of how this was made, which tell a reader nothing."""


def _files() -> Iterator[tuple[str, str]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in KINDS and path != Path(__file__):
                yield path.relative_to(ROOT).as_posix(), path.read_text()


def test_every_citation_can_be_opened() -> None:
    """A page is cited by its path from the root, and a heading by its anchor; both exist."""
    dangling: list[str] = []
    headings: set[str] = set()
    for name, text in _files():
        for page, anchor in _CITATION.findall(text):
            target = ROOT / page
            if not target.is_file() or (anchor and anchor[1:] not in anchors(target.read_text())):
                dangling.append(f"{name}: {page}{anchor}")
            elif anchor:
                headings.add(page + anchor)
    assert dangling == []
    assert len(headings) > 20


def test_no_words_of_the_making() -> None:
    """Nothing in the code speaks of texts or numbers that only its makers had."""
    assert [f"{name}: {word}" for name, text in _files() for word in _MAKING.findall(text)] == []
