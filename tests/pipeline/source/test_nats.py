"""The nats transport, read as plain Python from a real server."""

import json
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from backends.contract import OPEN
from backends.jetstream.conftest import brisk
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from support.nats import NatsServer, nats_server
from support.source import (
    SAMPLES,
    append,
    batch,
    fill,
    on_backend,
    payloads,
    read_batch,
    stream,
    table,
)

from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.core.declaration import declaration
from aviso_server.core.json import Json
from aviso_server.core.moment import rfc3339
from aviso_server.core.schema import Catalogue
from aviso_server.lake.record import batch_to_records
from aviso_server.pipeline.source.bridge import join_ranges, open_log
from aviso_server.pipeline.source.columns import MARKED
from aviso_server.pipeline.source.failure import BadOption, DataLost, StreamReplaced, Unreached
from aviso_server.pipeline.source.nats import gaps
from aviso_server.pipeline.source.options import read_options
from aviso_server.pipeline.source.ranges import Range


def test_rows_are_what_was_stored(store: NatsServer) -> None:
    """Every kind of notification comes back bit by bit, told apart by the streams themselves."""

    async def stored(backend: JetStreamBackend) -> list[Any]:
        found: list[Any] = []
        for event_type, sample in SAMPLES.items():
            await append(backend, event_type, [sample, sample])
        for event_type in sorted(SAMPLES):
            found += (await backend.read(event_type, 1, 9, limit=9)).entries
        return found

    entries = on_backend(store.url, stored)
    rows = read_batch(servers=store.url, eventType="*").combine_chunks()
    assert list(map(repr, batch_to_records(rows.to_batches()[0]))) == list(map(repr, entries))
    assert rows["problem"].null_count == rows.num_rows == 2 * len(SAMPLES)


def test_streams_without_schema_can_be_given_one(store: NatsServer) -> None:
    """The reference server leaves none; without any the topic's values have no names."""

    async def make(backend: JetStreamBackend) -> None:
        call = backend._connection.call
        settings = {"name": "DISS", "subjects": ["diss.>"], "allow_direct": True}
        await call("STREAM.CREATE.DISS", settings)  # type: ignore[arg-type]
        await backend._connection._client.request("diss.FOO", b"1")

    on_backend(store.url, make)
    given = json.dumps([declaration(OPEN.schemas["diss2"])])
    for event_type in ("diss2", "*"):
        rows = read_batch(servers=store.url, eventType=event_type, schemas=given)
        assert rows["identifier"].to_pylist() == [[("destination", "FOO")]]
        assert rows["event_type"].to_pylist() == ["diss2"]
    plain = read_batch(servers=store.url, eventType="diss")
    assert (plain["identifier"].to_pylist(), plain["topic"].to_pylist()) == ([[]], ["diss.FOO"])


def test_a_topic_that_was_declared_otherwise(store: NatsServer) -> None:
    """Rows have the meaning with which notifications were stored, by us or by others."""

    async def stored(backend: JetStreamBackend) -> None:
        for order in (("destination", "note"), ("note", "destination")):
            schema = replace(OPEN.schemas["diss2"], key_order=order)
            backend.adopt(Catalogue([schema]))
            backend._streams.forget(schema)
            identifier: dict[str, Json] = {"destination": "FOO", "note": "a"}
            await append(backend, "diss2", [(identifier, 1)], schema=schema)
            await backend._connection._client.request(
                f"diss.{'.'.join(str(identifier[name]) for name in order)}", b"2"
            )

    on_backend(store.url, stored)
    written = [("destination", "FOO"), ("note", "a")]
    rows = read_batch(servers=store.url, eventType="diss2")
    assert rows["payload"].to_pylist() == ["1", "2", "1", "2"]
    assert rows["identifier"].to_pylist() == [written] * 4
    given = json.dumps([declaration(OPEN.schemas["diss2"])])
    rows = read_batch(servers=store.url, eventType="diss2", schemas=given)
    assert rows["identifier"].to_pylist() == [*[written] * 3, [("destination", "a")]]


def test_streams_of_older_servers_are_not_misread(store: NatsServer) -> None:
    """Without the schema identifiers would be missing from rows; without topics they are not."""

    async def forget(backend: JetStreamBackend) -> None:
        for event_type in ("ev", "Foo"):
            await append(backend, event_type, [SAMPLES[event_type]])
            stream = event_type.upper()
            info = await backend._connection.call(f"STREAM.INFO.{stream}")
            config = {**info["config"], "metadata": {}}  # type: ignore[dict-item]
            await backend._connection.call(f"STREAM.UPDATE.{stream}", config)

    on_backend(store.url, forget)
    with pytest.raises(Unreached, match="stream 'EV' does not have its schema"):
        read_batch(servers=store.url, eventType="*")
    rows = read_batch(servers=store.url, eventType="Foo")
    assert rows["identifier"].to_pylist() == [[("any", "thing"), ("polygon", "text")]]
    on_backend(store.url, lambda backend: backend.bounds("ev"))
    assert read_batch(servers=store.url, eventType="*").num_rows == 2


def test_rows_are_of_the_event_type_that_was_asked_for(store: NatsServer) -> None:
    """Whatever a stranger wrote into the stream; another spelling is another event type."""

    async def intrude(backend: JetStreamBackend) -> None:
        await append(backend, "Foo", [SAMPLES["Foo"]])
        headers = {"Aviso-Event-Type": "other"}
        await backend._connection._client.request("Foo.x", b"1", headers=headers)

    on_backend(store.url, intrude)
    rows = read_batch(servers=store.url, eventType="Foo")
    assert rows["event_type"].to_pylist() == ["Foo", "Foo"]
    with pytest.raises(BadOption, match="no event type 'foo'; its stream is of 'Foo'"):
        read_batch(servers=store.url, eventType="foo")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, range(1, 31)),
        ({"startingSequence": "5", "endingSequence": "7"}, range(5, 8)),
        ({"startingSequence": "0", "endingSequence": "99"}, range(1, 31)),
        ({"startingSequence": "latest"}, range(0)),
        ({"startingSequence": "99"}, range(0)),
        ({"startingSequence": '{"ev": 30}', "minPartitions": "5"}, range(30, 31)),
        ({"minPartitions": "7"}, range(1, 31)),
        ({"endingSequence": "0"}, range(0)),
    ],
)
def test_ranges(store: NatsServer, options: dict[str, str], expected: range) -> None:
    """Both ends are inclusive and may lie outside of what is there."""
    fill(store.url, 30)
    rows = read_batch(servers=store.url, eventType="ev", **options)
    assert rows["sequence"].to_pylist() == list(expected)
    assert payloads(rows) == [str(n) for n in expected]


def test_times_are_points_too(store: NatsServer) -> None:
    """Inclusive at nanoseconds, at both ends."""
    fill(store.url, 9)
    times = read_batch(servers=store.url, eventType="ev")["time_ns"].to_pylist()

    def between(first: int, last: int) -> list[str | None]:
        points = {"startingTimestamp": rfc3339(first), "endingTimestamp": rfc3339(last)}
        return payloads(read_batch(servers=store.url, eventType="ev", **points))

    assert between(times[2], times[5]) == ["3", "4", "5", "6"]
    assert between(times[2] + 1, times[5] - 1) == ["4", "5"]
    assert between(times[8] + 1, times[8] + 2) == []
    assert between(0, times[0] - 1) == []


def test_filters_are_those_of_a_watch(store: NatsServer) -> None:
    """Scalars and places, the same JSON; what a watch would refuse is refused."""
    fill(store.url, 10)
    on_backend(store.url, lambda b: append(b, "test_polygon", [SAMPLES["test_polygon"]]))
    even = read_batch(servers=store.url, eventType="ev", filter='{"region": "even"}')
    assert even["sequence"].to_pylist() == [2, 4, 6, 8, 10]
    for point, count in (("52.55,13.5", 1), ("0,0", 0)):
        asked = {"event_type": "test_polygon", "identifier": {"point": point}}
        assert read_batch(servers=store.url, filter=json.dumps(asked)).num_rows == count
    with pytest.raises(BadOption, match="filter on 'ev': Unknown field 'colour'"):
        batch(servers=store.url, eventType="ev", filter='{"colour": 1}').partitions()


def test_trimmed_notifications_are_lost(store: NatsServer) -> None:
    """Whoever asked for them is told, by an error or by marks; the earliest are those kept."""
    fill(store.url, 25, max_messages=10)
    at = {"servers": store.url, "eventType": "ev"}
    with pytest.raises(DataLost, match="notifications 5 to 15 of 'ev' are no longer kept"):
        read_batch(**at, startingSequence="5")
    kept = [str(n) for n in range(16, 26)]
    assert payloads(read_batch(**at)) == kept
    lenient = read_batch(MARKED, **at, startingSequence="5", failOnDataLoss="false")
    assert payloads(lenient) == [*kept, None, None]
    assert lenient["id"].to_pylist()[10:] == ["ev@15", "ev@25"]
    assert lenient["mark"].to_pylist()[10:] == [
        {"first": 5, "last": 15, "lost": True},
        {"first": 5, "last": 25, "lost": False},
    ]


def test_what_is_trimmed_while_it_is_read_is_lost_too(store: NatsServer) -> None:
    """The plan was made in time and the task was not."""
    fill(store.url, 10, max_messages=10)
    reader = batch(servers=store.url, eventType="ev", minPartitions="2")
    parts = reader.partitions()
    fill(store.url, 7, first=11, max_messages=10)
    with pytest.raises(DataLost, match="1 to 5"):
        list(reader.read(parts[0]))
    with pytest.raises(DataLost, match="6 to 7"):
        list(reader.read(parts[1]))


def test_deliberate_holes_are_no_loss(store: NatsServer) -> None:
    """Deleted, wiped or superseded: nothing was promised, and marks go on."""

    async def remove(backend: JetStreamBackend) -> None:
        await backend.delete("ev", 4)
        await backend.delete("ev", 5)

    fill(store.url, 9, max_messages=100)
    on_backend(store.url, remove, max_messages=100)
    at = {"servers": store.url, "eventType": "ev", "startingSequence": "1"}
    rows = read_batch(MARKED, **at, minPartitions="3")
    assert rows["sequence"].to_pylist() == [1, 2, 3, 3, 6, 6, 7, 8, 9, 9]
    assert rows["problem"].null_count == rows.num_rows
    on_backend(store.url, lambda backend: backend.wipe("ev"), max_messages=100)
    assert read_batch(MARKED, **at)["id"].to_pylist() == ["ev@9"]


def test_messages_that_are_no_notifications_become_rows(store: NatsServer) -> None:
    """With the reason, and with what was stored; their neighbours are as good as ever."""

    async def spoil(backend: JetStreamBackend) -> None:
        request = backend._connection._client.request
        await request("ev.%ZZ", b"1", headers={"A": "b"})
        await request("ev.n", b'"\xff"', headers={"Aviso-Event-Type": "ev"})

    fill(store.url, 1)
    on_backend(store.url, spoil)
    fill(store.url, 1, first=2)
    rows = read_batch(servers=store.url, eventType="ev").to_pylist()
    assert [row["payload"] for row in rows] == ["1", None, None, "2"]
    assert "non-hex 'Z'" in rows[1]["problem"]
    assert rows[2]["problem"] == "its text is not valid UTF-8"
    assert rows[1]["time_ns"] is not None
    raw = json.loads(rows[1]["raw"])
    assert (raw["subject"], raw["headers"]["A"], raw["body"]) == ("ev.%ZZ", "b", "MQ==")


def test_the_embedded_server_is_found_by_its_address_file(tmp_path: Path) -> None:
    """The file holds a token, which no error shows."""
    settings = {"authorization": {"token": "s3cret"}}
    with nats_server(tmp_path / "nats", settings) as store:  # type: ignore[arg-type]
        address = tmp_path / "address"
        address.write_text(f"nats://s3cret@127.0.0.1:{store.port}\n")
        assert read_batch(addressFile=str(address), eventType="*").num_rows == 0
        with pytest.raises(Unreached) as refused:
            read_batch(servers=f"nats://wr0ng@127.0.0.1:{store.port}", eventType="*")
        assert "wr0ng" not in repr(refused.value)
    with pytest.raises(Unreached, match="addressFile cannot be read"):
        read_batch(addressFile=str(tmp_path / "none"), eventType="*")


def test_nothing_is_changed_in_nats(store: NatsServer) -> None:
    """A stream that cannot be read directly is left as it is, and the error says what to do."""

    async def look(backend: JetStreamBackend) -> list[dict[str, Any]]:
        return [dict(config) async for config in backend._streams.configurations()]

    async def make(backend: JetStreamBackend) -> list[dict[str, Any]]:
        await backend._connection.call("STREAM.CREATE.EV", {"name": "EV", "subjects": ["ev.>"]})
        await backend._connection._client.request("ev.n", b"1")
        return await look(backend)

    before = on_backend(store.url, make)
    assert read_batch(servers=store.url, eventType="Missing").num_rows == 0
    with pytest.raises(Unreached, match="nats stream edit EV --allow-direct"):
        read_batch(servers=store.url, eventType="ev")
    assert on_backend(store.url, look) == before


async def test_a_lost_connection_is_waited_for(store: NatsServer) -> None:
    """NATS is restarted in the middle of a range: everything comes, once."""
    backend = await JetStreamBackend.open(brisk(store.url), OPEN)
    await append(backend, "ev", [({"region": "n"}, n) for n in range(1100)])
    await backend.close()
    seen: list[int] = []
    options = read_options({"servers": store.url, "eventType": "ev"})
    async with open_log(options) as log, aclosing(log.read(Range("ev", 1, 1100))) as parts:
        async for part in parts:
            if not seen:
                store.restart()
            seen += [entry.sequence for entry in part.entries]
    assert seen == list(range(1, 1101))


# Streams


def test_offsets_of_a_stream(store: NatsServer) -> None:
    """Limited steps reach the end, each batch has what lies between two offsets."""
    fill(store.url, 5)
    fill(store.url, 3, event_type="dust")
    reader = stream(servers=store.url, eventType="*", maxRecordsPerTrigger="4")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(4)
    offset, seen = reader.initialOffset(), []
    assert offset == {"dust": 1, "ev": 1}
    assert reader.partitions(offset, offset) == []
    while (end := reader.latestOffset(offset, limit)) != offset:
        found = [b for part in reader.partitions(offset, end) for b in reader.read(part)]
        seen.append(table(iter(found))["id"].to_pylist())
        offset = end
    assert seen == [["dust@1", "dust@2", "ev@1", "ev@2"], ["dust@3", "ev@3", "ev@4", "ev@5"]]
    assert offset == reader.reportLatestOffset() == {"dust": 4, "ev": 6}
    start = {"dust": 4, "ev": 1}
    assert reader.latestOffset(start, ReadMinRows(6)) == start
    assert reader.latestOffset(start, ReadMinRows(5)) == offset
    assert reader.latestOffset(start, ReadAllAvailable()) == offset


def test_new_event_types_are_picked_up(store: NatsServer) -> None:
    """A stream made while the query runs is read from its first notification."""
    fill(store.url, 2)
    reader = stream(servers=store.url, eventType="*", startingSequence="latest")
    start = reader.initialOffset()
    assert start == {"ev": 3}
    fill(store.url, 2, event_type="fresh")
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end == {"ev": 3, "fresh": 3}
    found = [b for part in reader.partitions(start, end) for b in reader.read(part)]
    assert table(iter(found))["id"].to_pylist() == ["fresh@1", "fresh@2"]


def test_available_now_has_an_end(store: NatsServer) -> None:
    """What comes in after the query began is left for the next one."""
    fill(store.url, 3)
    reader = stream(servers=store.url, eventType="*")
    reader.prepareForTriggerAvailableNow()
    fill(store.url, 3, first=4)
    fill(store.url, 3, event_type="fresh")
    limit = reader.getDefaultReadLimit()
    assert reader.latestOffset({"ev": 1}, limit) == {"ev": 4}
    assert reader.latestOffset({"ev": 4}, limit) == {"ev": 4}


def test_a_stream_made_anew_is_noticed(store: NatsServer) -> None:
    """Sequences that begin again would be taken for read ones."""
    fill(store.url, 3)
    reader = stream(servers=store.url, eventType="ev")
    with pytest.raises(StreamReplaced, match="ends at sequence 3 and the query is to resume at 9"):
        reader.latestOffset({"ev": 9}, reader.getDefaultReadLimit())


def test_streams_have_no_end(store: NatsServer) -> None:
    """An ending is for batches."""
    with pytest.raises(BadOption, match="for batch reads"):
        stream(servers=store.url, eventType="ev", endingSequence="9")


def test_gaps() -> None:
    """What is missing, at either end and in between."""
    assert gaps(1, [1, 2, 3], 4) == []
    assert gaps(1, [3, 4, 7], 10) == [(1, 2), (5, 6), (8, 9)]
    assert gaps(5, [], 8) == [(5, 7)]
    assert join_ranges([(1, 2), (3, 5), (7, 7)]) == [(1, 5), (7, 7)]
