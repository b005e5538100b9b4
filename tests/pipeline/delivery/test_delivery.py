"""Deliveries to a real server: in order, each once, whatever happens to them on the way."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.access import PROTECTED, WRITER, proxy_auth, token
from support.config import settings
from support.server import Client, connected
from support.source import SAMPLES

from aviso_server.pipeline.delivery.client import NotSent, Rejected
from aviso_server.pipeline.delivery.delivery import UNSEEN, Delivery, Item, TooManyRejected
from aviso_server.pipeline.delivery.ledger import (
    LEDGER,
    REJECTED,
    DeliveryLedger,
    LedgerHead,
    LedgerLine,
)
from aviso_server.pipeline.delivery.reconcile import Forgotten
from aviso_server.pipeline.delivery.target import Target
from aviso_server.pipeline.source import http
from aviso_server.pipeline.source.failure import Unreached

ODD = {"region": "é \u2028\"'\\ .>*%2E\u00a0"}
"""A text that has to be escaped in JSON, in subjects and in lines."""


def item(position: int, event_type: str = "ev", *, key: str = "k", **more: Any) -> Item:
    """The notification of a position; every third one is equal to the one before."""
    request = {
        "event_type": event_type,
        "identifier": SAMPLES.get(event_type, SAMPLES["ev"])[0],
        "payload": position - (position % 3 == 0),
        "idempotency_key": f"{key}-{position}",
        **more,
    }
    return Item(position, json.dumps(request).encode(), None, {"id": f"ours@{position}"})


def items(count: int, event_type: str = "ev", **more: Any) -> list[Item]:
    """As many, from the first position on."""
    return [item(position, event_type, **more) for position in range(1, count + 1)]


def expected(count: int) -> list[int]:
    """Their payloads."""
    return [n - (n % 3 == 0) for n in range(1, count + 1)]


async def payloads(client: Client, event_type: str = "ev") -> list[Any]:
    """What the server has, in order."""
    identifier = {k: v for k, v in SAMPLES[event_type][0].items() if k != "point_cloud"}
    if event_type == "observations":
        identifier["polygon"] = [[0, -2], [0, 4], [4, 4], [4, -2], [0, -2]]
    if event_type == "ev":
        identifier = {}
    return await client.payloads(event_type, **identifier)


async def deliver(
    url: str,
    folder: Path,
    todo: list[Item],
    event_type: str = "ev",
    *,
    most_rejected: int | None = 0,
    **target: Any,
) -> LedgerLine:
    """One run, in a thread: it blocks, and the server is in this process."""

    def run() -> LedgerLine:
        ledger = DeliveryLedger(folder, LedgerHead({"target": url}, 1, 0, 4))
        begun = ledger.line.through
        to = Target(url=url, retries=0, **target)
        with Delivery(to, event_type, ledger, most_rejected=most_rejected) as delivery:
            delivery.send(each for each in todo if each.position > begun)
        return ledger.line

    return await asyncio.to_thread(run)


def forget(folder: Path) -> None:
    """Take the last line back, as if the run had been killed before it was written."""
    lines = (folder / LEDGER).read_bytes().splitlines(keepends=True)
    (folder / LEDGER).write_bytes(b"".join(lines[:-1]))


async def test_in_order_and_once(tmp_path: Path) -> None:
    """A second run finds everything done; so does one without the ledger, while keys are known."""
    async with connected(settings()) as client:
        url = client.running.url
        done = LedgerLine(10, target=10, published=10, added=10)
        assert await deliver(url, tmp_path / "state", items(10)) == done
        assert await deliver(url, tmp_path / "state", items(10)) == done
        again = await deliver(url, tmp_path / "other", items(10))
        assert (again.published, again.added) == (10, 0)
        assert await payloads(client) == expected(10)


@pytest.mark.parametrize("event_type", [name for name in SAMPLES if name != "Foo"])
async def test_a_run_that_was_killed_is_finished(tmp_path: Path, event_type: str) -> None:
    """It sent more than its ledger knows, and the server has forgotten its keys: what is there is
    looked up, whatever fields, areas or clouds a replay has to name."""
    async with connected(settings()) as client:
        url = client.running.url
        for run, count in enumerate((3, 4, 9)):
            await deliver(url, tmp_path, items(count, event_type, key=f"{run}"), event_type)
            forget(tmp_path)
        line = await deliver(url, tmp_path, items(12, event_type, key="last"), event_type)
        assert (line.through, line.published) == (12, 12)
        assert await payloads(client, event_type) == expected(12)


async def test_odd_texts_are_recognised(tmp_path: Path) -> None:
    """What has to be escaped on its way is the same when it is read back."""
    async with connected(settings()) as client:
        odd: dict[str, Any] = {"identifier": ODD, "payload": {"x": list(ODD.values())}}
        await deliver(client.running.url, tmp_path, items(3, key="one", **odd))
        forget(tmp_path)
        line = await deliver(client.running.url, tmp_path, items(3, key="two", **odd))
        assert (line.published, line.added) == (3, 0)
        assert len(await payloads(client)) == 3


async def test_what_was_there_before_is_not_taken_for_ours(tmp_path: Path) -> None:
    """Equal notifications of another producer, from before the first request, stand for nothing."""
    async with connected(settings()) as client:
        url = client.running.url
        await deliver(url, tmp_path / "theirs", items(3, key="theirs"))
        # Killed between the look at the end of the stream and the answer.
        ledger = DeliveryLedger(tmp_path / "state", LedgerHead({"target": url}, 1, 0, 4))
        ledger.note(LedgerLine(0, target=3))
        ledger.close()
        line = await deliver(url, tmp_path / "state", items(3))
        assert (line.target, line.added) == (6, 3)
        assert await payloads(client) == expected(3) * 2


async def test_what_is_rejected(tmp_path: Path) -> None:
    """Is an error before the ledger moves; or it is written down, once, and the rest is sent."""
    todo = [
        *items(2),
        Item(3, b"", Rejected("INVALID_ROW", message="no"), {"id": "ours@3"}),
        item(4, identifier={}),
        item(5),
    ]
    async with connected(settings()) as client:
        url = client.running.url
        with pytest.raises(TooManyRejected, match=r"does not take ours@3: INVALID_ROW: no$"):
            await deliver(url, tmp_path, todo)
        with pytest.raises(TooManyRejected, match=r"ours@4: .* \(2 are rejected, 1 may be\)"):
            await deliver(url, tmp_path, todo, most_rejected=1)
        assert (tmp_path / REJECTED).read_bytes() == b""
        line = await deliver(url, tmp_path, todo, most_rejected=None)
        assert (line.through, line.published, line.rejected) == (5, 3, 2)
        assert await payloads(client) == [1, 2, 5]
    lines = [json.loads(text) for text in (tmp_path / REJECTED).read_bytes().splitlines()]
    assert [(text["id"], text["code"]) for text in lines] == [
        ("ours@3", "INVALID_ROW"),
        ("ours@4", "INVALID_NOTIFICATION_REQUEST"),
    ]
    assert lines[1]["request"] == json.loads(todo[3].body)


async def test_a_server_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says so, nothing was sent, and the next run begins as if it were the first."""
    monkeypatch.setattr(http, "ATTEMPTS", 1)
    with pytest.raises((NotSent, Unreached), match=r"127\.0\.0\.1:1"):
        await deliver("http://127.0.0.1:1", tmp_path, items(1))
    assert len((tmp_path / LEDGER).read_bytes().splitlines()) == 1


async def test_credentials_that_may_not_read(tmp_path: Path) -> None:
    """They publish; but once it was killed nobody can say what is there, and nothing is guessed."""
    guarded = settings({"auth": proxy_auth()}, schemas=PROTECTED)
    async with connected(guarded) as client:
        url = client.running.url
        todo, login = items(2, "roles"), f"Bearer {token(WRITER)}"
        await deliver(url, tmp_path, todo, "roles", authorization=login)
        forget(tmp_path)
        last = json.loads((tmp_path / LEDGER).read_bytes().splitlines()[-1])
        assert last["target"] == UNSEEN
        with pytest.raises(Forgotten, match="it is unknown which of the first"):
            await deliver(url, tmp_path, todo, "roles", authorization=login)
