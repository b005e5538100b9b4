"""The live job: a real log, a real server, a real watch, Spark between them."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nats
import pytest
import yaml
from pyspark.sql import SparkSession
from support.config import on_jetstream, settings
from support.nats import nats_server
from support.server import Client, connected

from aviso_server.core.json import Json
from aviso_server.pipeline.live import alert
from aviso_server.pipeline.live.expected import CyclePart
from aviso_server.pipeline.live.job import (
    CYCLES,
    RATES,
    LiveJob,
    LiveJobFailed,
    LiveOptions,
    LiveOutcome,
    add_progress,
    check,
)

FIELD: dict[str, Json] = {"type": "StringHandler", "required": False}
SCHEMAS: dict[str, Json] = {
    "mars": {
        "topic": {"base": "mars", "key_order": ["date", "time", "stream", "step"]},
        "identifier": {
            "date": {"type": "DateHandler", "required": False},
            "time": {"type": "TimeHandler", "required": False},
            "stream": FIELD,
            "step": {"type": "IntHandler", "required": False},
        },
    },
    "ev": {"topic": {"base": "ev", "key_order": ["region"]}, "identifier": {"region": FIELD}},
    **yaml.safe_load(alert.SCHEMA),
}


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Client, LiveOptions]]:
    """A server on a log of its own, and options for short windows."""
    with nats_server(folder / "nats") as log:
        async with connected(settings(on_jetstream(log.url), schemas=SCHEMAS)) as client:
            yield (
                client,
                LiveOptions(
                    {"servers": log.url},
                    url=client.running.url,
                    checkpoint=str(folder / "checkpoint"),
                    window_s=2,
                    slide_s=1,
                    watermark_s=1,
                    interval_s=0.5,
                ),
            )


async def publish(client: Client, base: datetime, *steps: int) -> None:
    """Announce steps of a cycle."""
    identifier = {"date": f"{base:%Y%m%d}", "time": f"{base:%H%M}", "stream": "oper"}
    for step in steps:
        await client.notify("mars", {**identifier, "step": step})


async def alerts(client: Client) -> list[dict[str, Any]]:
    """Everything that was published, as identifiers."""
    async with client.replay(alert.EVENT_TYPE, {}, from_id="1") as stream:
        found = [event.data for event in await stream.rest() if event.kind == "replay"]
    return [item["data"]["identifier"] for item in found]


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The alerts of one kind."""
    return [item for item in found if item["kind"] == kind]


async def short_memory(url: str) -> None:
    """Let the log forget idempotency keys at once, as if two minutes had passed."""
    connection = await nats.connect(url)
    try:
        stream = connection.jetstream()
        known = (await stream.stream_info("ALERT")).config
        known.duplicate_window = 0.1
        await stream.update_stream(known)
    finally:
        await connection.close()


async def followed(
    spark: SparkSession, options: LiveOptions, client: Client, base: datetime
) -> LiveOutcome:
    """Run the job until a burst has reached a watch as a rate, and a late cycle was told."""
    told: asyncio.Queue[LiveOutcome] = asyncio.Queue()
    loop, stop = asyncio.get_running_loop(), threading.Event()

    def tell(outcome: LiveOutcome) -> None:
        loop.call_soon_threadsafe(told.put_nowait, outcome)

    job = asyncio.create_task(asyncio.to_thread(LiveJob(spark, options, tell=tell, stop=stop).run))
    rates = {"kind": "rate", "event_type": "mars"}  # others may be told, too, on a busy machine
    try:
        await told.get()
        async with client.watch(alert.EVENT_TYPE, rates) as watch:
            await publish(client, base, *[3] * 20)
            (event,) = (await watch.until("live-notification"))[-1:]
        assert event.data["data"]["identifier"]["event_type"] == "mars"
        payload = event.data["data"]["payload"]
        assert payload["count"] >= 1
        assert payload["per_second"] == payload["count"] / 2
        while not (await told.get()).alerts.get(alert.LATE):
            pass
    finally:
        stop.set()
        outcome = await job
    return outcome


def killed_before_noting(checkpoint: Path) -> None:
    """Take back that the last micro-batch was done, as if the job had been killed just then."""
    for name in (RATES, CYCLES):
        commits = checkpoint / name / "commits"
        last = max((p for p in commits.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_alerts_reach_a_watch_once(spark: SparkSession, tmp_path: Path) -> None:
    """A burst becomes a rate, a missing part a late cycle; stopped, killed, started: none twice."""
    async with running(tmp_path) as (client, options):
        base = datetime.now(UTC).replace(second=0, microsecond=0)
        await client.notify("ev", {"region": "n"})
        await publish(client, base, 0)
        cycle = CyclePart("mars", f"{base:%H%M}", "stream=oper", "0", 2 * 86_400)
        first = replace(options, expected=(cycle,), event_types=("mars",), once=True)
        # Killed before, at its first offset: Spark would refuse that checkpoint.
        offsets = Path(options.checkpoint) / RATES / "offsets"
        offsets.mkdir(parents=True)
        (offsets / ".0.95e2195e.tmp").touch()
        told: list[str | None] = []
        await asyncio.to_thread(
            LiveJob(spark, first, tell=lambda outcome: told.append(outcome.trouble)).run
        )
        assert f"{options.checkpoint}/{RATES}.refused-1" in str(told[0])
        assert of_kind(await alerts(client), alert.LATE) == []
        # From here on both steps are due soon; one of them is there, the other never comes.
        due_s = int(time.time() - base.timestamp()) + 3
        parts = tuple(replace(cycle, part=part, due_s=due_s) for part in ("0", "6"))
        outcome = await followed(spark, replace(options, expected=parts), client, base)
        assert outcome.trouble is None
        # Stored before the first run, read in the second: its windows were over.
        assert outcome.late_rows >= 1
        await short_memory(options.source["servers"])
        killed_before_noting(Path(options.checkpoint))
        again = replace(options, expected=parts, once=True)
        await asyncio.to_thread(LiveJob(spark, again).run)
        found = await alerts(client)
        (late,) = of_kind(found, alert.LATE)
        assert (late["severity"], late["key"]) == ("4", "stream=oper")
        assert late["window"] == f"{base:%Y-%m-%dT%H:%M:%SZ}"
        seen = Counter(tuple(item[name] for name in alert.IDENTITY) for item in found)
        assert set(seen.values()) == {1}
        rates = of_kind(found, alert.RATE)
        # A quick machine may read the first one while the last of its windows is still open.
        assert sum(item["event_type"] == "mars" for item in rates) >= 2


async def test_a_server_without_the_event_type(tmp_path: Path) -> None:
    """Told at the start, with what to do."""
    async with connected(settings()) as client:
        options = LiveOptions({}, url=client.running.url, checkpoint=str(tmp_path))
        with pytest.raises(LiveJobFailed, match="no event type aviso_alert; add its schema"):
            await asyncio.to_thread(check, options)


def test_what_spark_says_is_added_up() -> None:
    """Notifications are counted once, though two queries read them; alerts by kind."""
    outcome = LiveOutcome()
    for name in (RATES, CYCLES):
        found: Json = {f"{name}_read": {"rows": 5, "late": 2}, f"{name}_alerts": {"rows": 1}}
        outcome = add_progress(outcome, name, {"observedMetrics": found})
        outcome = add_progress(outcome, name, {"observedMetrics": {}})
    assert outcome == LiveOutcome(5, 2, {"rate": 1, "late": 1})
