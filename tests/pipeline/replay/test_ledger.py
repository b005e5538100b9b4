"""The ledger of a replay to a server."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from aviso_server.pipeline.replay.ledger import LEDGER, REJECTED, Entry, Head, Ledger
from aviso_server.pipeline.replay.options import ReplayFailed, chunks

HEAD = Head({"event_type": "ev", "source": "/lake"}, 1, 100, 10, 50)


@contextmanager
def opened(folder: Path, head: Head = HEAD) -> Iterator[Ledger]:
    """A ledger, closed with the block."""
    ledger = Ledger(folder, head)
    try:
        yield ledger
    finally:
        ledger.close()


def test_a_new_ledger_is_at_the_beginning(tmp_path: Path) -> None:
    """Nothing is done, and what it is about is written down."""
    with opened(tmp_path / "state") as ledger:
        assert (ledger.resumed, ledger.head, ledger.entry) == (False, HEAD, Entry(0))


def test_the_last_entry_counts(tmp_path: Path) -> None:
    """The next run goes on there; the range stays that of the first run."""
    with opened(tmp_path) as ledger:
        ledger.note(Entry(7, 3, 7))
        ledger.note(Entry(12, 9, 11, 1, 3), b"{}\n")
    with opened(tmp_path, replace(HEAD, last=900, batch=99)) as ledger:
        assert (ledger.resumed, ledger.head, ledger.entry) == (True, HEAD, Entry(12, 9, 11, 1, 3))


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_a_line_cut_short_is_dropped(tmp_path: Path, cut: int) -> None:
    """With what was rejected after the entry that counts; the next entry is whole again."""
    with opened(tmp_path) as ledger:
        ledger.note(Entry(7, 3, 6, 1, 3), b"{}\n")
        ledger.note(Entry(9, 4, 6, 3, 9), b"{}\n{}\n")
    whole = (tmp_path / LEDGER).read_bytes()
    (tmp_path / LEDGER).write_bytes(whole[:-cut])
    with opened(tmp_path) as ledger:
        assert ledger.entry == Entry(7, 3, 6, 1, 3)
        assert (tmp_path / REJECTED).read_bytes() == b"{}\n"
        ledger.note(Entry(8, 3, 7, 1, 3))
    with opened(tmp_path) as ledger:
        assert ledger.entry == Entry(8, 3, 7, 1, 3)


def test_another_replay_is_refused(tmp_path: Path) -> None:
    """So are a file that is no ledger, and two runs at a time."""
    with opened(tmp_path):
        with pytest.raises(ReplayFailed, match="another replay is using"), opened(tmp_path):
            pass
        other = replace(HEAD, job={**HEAD.job, "source": "/other"})
    with pytest.raises(ReplayFailed, match=r"another replay \(differing: source\)"):
        Ledger(tmp_path, other)
    (tmp_path / LEDGER).write_bytes(b"[1]\n")
    with pytest.raises(ReplayFailed, match="is not a ledger"):
        Ledger(tmp_path, HEAD)
    (tmp_path / "file").touch()
    with pytest.raises(ReplayFailed, match="cannot be used"):
        Ledger(tmp_path / "file", HEAD)


def test_chunks() -> None:
    """They cover a range exactly and once."""
    assert list(chunks(3, 10, 4)) == [(3, 6), (7, 10)]
    assert list(chunks(5, 5, 4)) == [(5, 5)]
    assert list(chunks(5, 4, 4)) == []
