"""The ledger of a delivery."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from aviso_server.pipeline.delivery.ledger import (
    LEDGER,
    REJECTED,
    DeliveryLedger,
    LedgerFailed,
    LedgerHead,
    LedgerLine,
)

HEAD = LedgerHead({"event_type": "ev", "source": "/lake"}, 1, 100, 10, 50)


@contextmanager
def open_ledger(folder: Path, head: LedgerHead = HEAD) -> Iterator[DeliveryLedger]:
    """A ledger, closed with the block."""
    ledger = DeliveryLedger(folder, head)
    try:
        yield ledger
    finally:
        ledger.close()


def test_a_new_ledger_is_at_the_beginning(tmp_path: Path) -> None:
    """Nothing is done, and what it is about is written down."""
    with open_ledger(tmp_path / "state") as ledger:
        assert (ledger.resumed, ledger.head, ledger.line) == (False, HEAD, LedgerLine(0))


def test_the_last_line_counts(tmp_path: Path) -> None:
    """The next run goes on there; the range stays that of the first run."""
    with open_ledger(tmp_path) as ledger:
        ledger.note(LedgerLine(7, 3, 7))
        ledger.note(LedgerLine(12, 9, 11, 1, 3), b"{}\n")
    with open_ledger(tmp_path, replace(HEAD, last=900, batch=99)) as ledger:
        assert (ledger.resumed, ledger.head, ledger.line) == (
            True,
            HEAD,
            LedgerLine(12, 9, 11, 1, 3),
        )


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_a_line_cut_short_is_dropped(tmp_path: Path, cut: int) -> None:
    """With what was rejected after the line that counts; the next line is whole again."""
    with open_ledger(tmp_path) as ledger:
        ledger.note(LedgerLine(7, 3, 6, 1, 3), b"{}\n")
        ledger.note(LedgerLine(9, 4, 6, 3, 9), b"{}\n{}\n")
    whole = (tmp_path / LEDGER).read_bytes()
    (tmp_path / LEDGER).write_bytes(whole[:-cut])
    with open_ledger(tmp_path) as ledger:
        assert ledger.line == LedgerLine(7, 3, 6, 1, 3)
        assert (tmp_path / REJECTED).read_bytes() == b"{}\n"
        ledger.note(LedgerLine(8, 3, 7, 1, 3))
    with open_ledger(tmp_path) as ledger:
        assert ledger.line == LedgerLine(8, 3, 7, 1, 3)


def test_another_delivery_is_refused(tmp_path: Path) -> None:
    """So are a file that is no ledger, and two runs at a time."""
    with open_ledger(tmp_path):
        with pytest.raises(LedgerFailed, match="another process is using"), open_ledger(tmp_path):
            pass
        other = replace(HEAD, job={**HEAD.job, "source": "/other"})
    with pytest.raises(LedgerFailed, match=r"another delivery \(differing: source\)"):
        DeliveryLedger(tmp_path, other)
    (tmp_path / LEDGER).write_bytes(b"[1]\n")
    with pytest.raises(LedgerFailed, match="is not a ledger"):
        DeliveryLedger(tmp_path, HEAD)
    (tmp_path / "file").touch()
    with pytest.raises(LedgerFailed, match="cannot be used"):
        DeliveryLedger(tmp_path / "file", HEAD)


def test_ledgers_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """A replay that was begun with them goes on."""
    old = (
        b'{"job": {"event_type": "ev", "source": "/lake"}, "first": 1, "last": 100, "batch": 10, '
        b'"chunk": 50}\n{"through": 7, "target": 3, "published": 6, "rejected": 1, '
        b'"rejected_bytes": 3, "complete": false}\n'
    )
    (tmp_path / LEDGER).write_bytes(old)
    (tmp_path / REJECTED).write_bytes(b"{}\n")
    with open_ledger(tmp_path) as ledger:
        assert (ledger.resumed, ledger.head) == (True, HEAD)
        assert ledger.line == LedgerLine(7, 3, 6, 1, 3)
