"""``POST /api/v1/notifications``: arrays and NDJSON, per-item results, limits, keys."""

import gzip
import json
from typing import Any

import pytest
from support.config import settings
from support.edge import Parts, edge
from support.faults import FaultyBackend
from support.server import Client, connected

from aviso_server.core.errors import NoBatches, StorageFailed, Unacknowledged

GOOD = {"event_type": "ev", "identifier": {"region": "n"}}


async def post(client: Client, body: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    """Send a batch; status and answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.session.post(
        f"{client.running.url}/api/v1/notifications", data=data, headers=names
    ) as response:
        answer: dict[str, Any] = await response.json()
        assert response.headers["X-Request-ID"] == answer["request_id"]
        return response.status, answer


async def test_results_stand_in_the_order_sent(client: Client) -> None:
    """Good items are stored although others fail, and each result says what happened."""
    status, answer = await post(
        client,
        [
            GOOD,
            {"event_type": "nope", "identifier": {}},
            {"event_type": "ev", "identifier": {"region": ""}},
            {**GOOD, "payload": 2},
            {**GOOD, "extra": 1},
            7,
        ],
    )
    assert status == 200
    assert (answer["status"], answer["accepted"], answer["rejected"]) == ("partial", 2, 4)
    assert [r.get("code") or r["sequence"] for r in answer["results"]] == [
        1,
        "UNKNOWN_EVENT_TYPE",
        "INVALID_NOTIFICATION_REQUEST",
        2,
        "UNKNOWN_FIELD",
        "INVALID_REQUEST_SHAPE",
    ]
    assert answer["results"][0] == {
        "status": "success",
        "id": "ev@1",
        "sequence": 1,
        "topic": "ev.n",
    }
    async with client.replay("ev", {}, from_id="1") as stream:
        events = await stream.rest()
    assert [e.data["data"]["payload"] for e in events if e.kind == "replay"] == [None, 2]


async def test_ndjson_is_judged_line_by_line(client: Client) -> None:
    """One request object per line; a broken line is an error of its own."""
    lines = [json.dumps(GOOD), "{broken", "", json.dumps({**GOOD, "payload": "x"})]
    status, answer = await post(client, "\r\n".join(lines).encode())
    assert status == 200
    assert [r["status"] for r in answer["results"]] == ["success", "error", "success"]
    assert answer["results"][1]["code"] == "INVALID_JSON"


async def test_order_is_kept_within_an_event_type(client: Client) -> None:
    """A batch is stored in the order given."""
    batch = [{**GOOD, "payload": n} for n in range(1000)]
    _, answer = await post(client, batch)
    assert answer["status"] == "success"
    assert [r["sequence"] for r in answer["results"]] == list(range(1, 1001))


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "INVALID_NOTIFICATION_REQUEST"),
        (b"[]", 400, "INVALID_NOTIFICATION_REQUEST"),
        (b"[1,", 400, "INVALID_JSON"),
        (b'[{"a":1}] x', 400, "INVALID_JSON"),
        (b"[" + b"1," * 20 + b"1]", 400, "INVALID_NOTIFICATION_REQUEST"),
        (b" " * 5000, 413, "PAYLOAD_TOO_LARGE"),
    ],
)
async def test_bodies_refused_as_a_whole(body: bytes, status: int, code: str) -> None:
    """What cannot be taken apart, or is too much, is one error and stores nothing."""
    limits: dict[str, Any] = {"application": {"max_batch_items": 20, "max_batch_bytes": 4096}}
    async with connected(settings(limits)) as client:
        got, answer = await post(client, body)
        assert (got, answer["code"]) == (status, code)


async def test_a_compressed_batch_is_bounded_too() -> None:
    """gzip is understood, and its decoded size is what counts."""
    limits: dict[str, Any] = {"application": {"max_batch_bytes": 4096}}
    async with connected(settings(limits)) as client:
        good = gzip.compress(json.dumps([GOOD]).encode())
        status, _ = await post(client, good, Content_Encoding="gzip")
        assert status == 200
        bomb = gzip.compress(b" " * 10_000_000)
        status, answer = await post(client, bomb, Content_Encoding="gzip")
        assert (status, answer["code"]) == (413, "PAYLOAD_TOO_LARGE")


async def test_a_batch_sent_twice_is_stored_once(client: Client) -> None:
    """The header makes a key for every item; an item's own key wins."""
    batch = [GOOD, {**GOOD, "payload": 1, "idempotency_key": "mine"}]
    _, first = await post(client, batch, Idempotency_Key="batch-1")
    _, again = await post(client, batch, Idempotency_Key="batch-1")
    _, other = await post(client, [batch[1]], Idempotency_Key="batch-2")
    assert first["results"] == again["results"]
    assert other["results"] == [first["results"][1]]
    assert (await client.notify("ev", {"region": "n"}))["sequence"] == 3


async def test_bad_keys_of_items_are_item_errors(client: Client) -> None:
    """A key must be visible ASCII text."""
    batch = [{**GOOD, "idempotency_key": key} for key in ("", "a b", 5, "x" * 256)]
    _, answer = await post(client, batch)
    assert {r["code"] for r in answer["results"]} == {"INVALID_NOTIFICATION_REQUEST"}
    assert answer["status"] == "error"


async def test_a_key_counts_on_both_routes(client: Client) -> None:
    """For something else it is a 409 on notify and an item error in a batch; nothing is stored."""
    body = {**GOOD, "payload": 1, "idempotency_key": "k"}
    await post(client, [body])
    url, headers = f"{client.running.url}/api/v1/notification", {"Idempotency-Key": "k"}
    async with client.session.post(url, json=GOOD, headers=headers) as response:
        assert (response.status, (await response.json())["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    _, batch = await post(client, [{**body, "payload": 3}])
    assert batch["results"][0]["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert (await client.notify("ev", {"region": "n"}))["sequence"] == 2


async def test_an_item_has_the_limit_of_a_request_that_comes_alone() -> None:
    """One that is larger is an error of its own; the others are stored."""
    limits: dict[str, Any] = {"application": {"max_body_bytes": 2048}}
    async with connected(settings(limits)) as client:
        large = {**GOOD, "payload": "x" * 2048}
        for body in ([GOOD, large, GOOD], b"\n".join(map(_line, [GOOD, large, GOOD]))):
            _, answer = await post(client, body)
            assert [r["status"] for r in answer["results"]] == ["success", "error", "success"]
            assert answer["results"][1]["code"] == "PAYLOAD_TOO_LARGE"


async def test_nothing_of_an_array_with_a_fault_is_stored(client: Client) -> None:
    """An array is one JSON text, so one broken element breaks it; lines are texts of their own."""
    status, answer = await post(client, b"[" + _line(GOOD) + b',\n {"event_type": yes}]')
    assert (status, answer["code"]) == (400, "INVALID_JSON")
    assert answer["message"].endswith(" at line 2 column 17")
    assert (await client.notify("ev", {"region": "n"}))["sequence"] == 1


def _line(item: dict[str, Any]) -> bytes:
    return json.dumps(item).encode()


# All or none

EXTREME = {
    "event_type": "extreme",
    "identifier": {"region": "north", "run_time": "0000", "severity": 1, "anomaly": 1},
    "payload": 1,
}


def together(*items: dict[str, Any]) -> dict[str, Any]:
    """An atomic batch."""
    return {"atomic": True, "notifications": list(items)}


async def count(client: Client) -> int:
    """How many are stored."""
    async with client.replay("ev", {}, from_id="1") as stream:
        return sum(event.kind == "replay" for event in await stream.rest())


async def test_an_atomic_batch_is_stored_as_one(client: Client) -> None:
    """Consecutive sequences; sent again it is answered with the same ones."""
    batch = together(*({**GOOD, "payload": n} for n in range(3)))
    status, answer = await post(client, batch, Idempotency_Key="k")
    assert (status, answer["status"], answer["accepted"]) == (200, "success", 3)
    assert [item["id"] for item in answer["results"]] == ["ev@1", "ev@2", "ev@3"]
    _, again = await post(client, batch, Idempotency_Key="k")
    assert again["results"] == answer["results"]
    assert await count(client) == 3


async def test_one_refused_keeps_all_of_an_atomic_batch(client: Client) -> None:
    """The one says why, the others that it was because of another."""
    status, answer = await post(client, together(GOOD, {**GOOD, "identifier": {}}, GOOD))
    assert (status, answer["status"], answer["accepted"], answer["rejected"]) == (
        200,
        "error",
        0,
        3,
    )
    codes = [item["code"] for item in answer["results"]]
    assert codes == ["BATCH_NOT_STORED", "INVALID_NOTIFICATION_REQUEST", "BATCH_NOT_STORED"]
    assert await count(client) == 0


async def test_an_atomic_batch_that_was_stored_in_part(client: Client) -> None:
    """What is known by its key is named; nothing more is stored."""
    await post(client, [{**GOOD, "idempotency_key": "a"}])
    batch = together({**GOOD, "idempotency_key": "a"}, {**GOOD, "idempotency_key": "b"})
    _, answer = await post(client, batch)
    assert [item["code"] for item in answer["results"]] == ["BATCH_NOT_STORED"] * 2
    assert "as ev@1" in answer["results"][0]["message"]
    assert await count(client) == 1


async def test_an_atomic_batch_with_keys_of_another(client: Client) -> None:
    """Keys that were used for something else are refused, as those of single ones are."""
    keyed = [{**GOOD, "payload": n, "idempotency_key": f"k{n}"} for n in range(2)]
    await post(client, together(*keyed))
    _, answer = await post(client, together(keyed[0], {**keyed[1], "payload": "other"}))
    codes = [item["code"] for item in answer["results"]]
    assert codes == ["BATCH_NOT_STORED", "IDEMPOTENCY_KEY_REUSED"]
    assert await count(client) == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (
            together(GOOD, EXTREME),
            "event_type",
        ),
        (together(*[{**GOOD, "idempotency_key": "k"}] * 2), "idempotency_key"),
        (together(*[GOOD] * 1001), None),
        ({"atomic": "yes", "notifications": [GOOD]}, "atomic"),
        ({"atomic": True}, None),
    ],
)
async def test_atomic_batches_refused_as_a_whole(
    client: Client, body: dict[str, Any], field: str | None
) -> None:
    """What cannot be stored as one is a 400, and nothing is stored."""
    status, answer = await post(client, body)
    assert status == 400
    assert answer.get("field") == field
    assert await count(client) == 0


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (StorageFailed("no"), 500, "NOTIFICATION_STORAGE_FAILED"),
        (Unacknowledged("no answer"), 503, "BATCH_OUTCOME_UNKNOWN"),
        (NoBatches("too old"), 501, "ATOMIC_BATCH_UNSUPPORTED"),
        (OSError("something"), 503, "BATCH_OUTCOME_UNKNOWN"),
    ],
)
async def test_a_store_that_fails_an_atomic_batch(error: Exception, status: int, code: str) -> None:
    """It did not happen, or nobody knows, or it cannot be done here."""
    async with edge(settings(), Parts(FaultyBackend({"append_together": error}))) as served:
        found, answer = await post(served, together(GOOD, GOOD))
        assert (found, answer["code"]) == (status, code)
