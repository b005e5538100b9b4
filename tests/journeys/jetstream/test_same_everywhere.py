"""What is acknowledged is what is replayed: from memory, from the log and from the lake."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias
from uuid import uuid4

from backends.jetstream.conftest import brisk
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from support.config import SCHEMAS, settings
from support.lake import everything, filled
from support.nats import NatsServer

from aviso_server.backends.backend import Backend
from aviso_server.backends.jetstream.backend import JetStreamBackend
from aviso_server.backends.memory.backend import MemoryBackend, MemoryLimits
from aviso_server.core.announcement import notification_of
from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Area
from aviso_server.core.identifier import compile_filter
from aviso_server.core.json import Json
from aviso_server.core.notification import Notification, Record
from aviso_server.core.operation import Operation
from aviso_server.core.schema import Catalogue
from aviso_server.core.wire import NotificationRequest
from aviso_server.lake.lake import Lake
from aviso_server.lake.layout import Place

Sent: TypeAlias = tuple[str, dict[str, Json], Json]
"""Event type, identifier and payload of a request."""

CATALOGUE = Catalogue(settings(schemas=SCHEMAS).catalogue.schemas.values(), strict=False)

BLANKS = ["\u00a0", "\u3000", "\u2028", "\u2009", "\u0085", "\t", " ", "\x00", "\ufeff"]
"""Texts may begin and end with these; each was or may be taken for something to strip."""

WORLD = "(-90,-180,90,-180,90,180,-90,180,-90,-180)"

_plain = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
_texts = st.one_of(
    _plain,
    st.tuples(st.sampled_from(["", *BLANKS]), _plain, st.sampled_from(BLANKS)).map("".join),
    st.sampled_from([*BLANKS, "*", ">", ".", "%", "%41", "a.b", "-0", "é"]),
)
_payloads: st.SearchStrategy[Json] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(-1e9, 1e9), _texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_texts, inner, max_size=3)
    ),
    max_leaves=5,
)
_points = st.tuples(st.floats(-80, 80), st.floats(-170, 170)).map(list)

_texts_only = st.fixed_dictionaries({"destination": _texts, "note": _texts})
_areas = st.tuples(st.integers(-80, 80), st.floats(0.5, 9)).map(
    lambda at: {
        "date": "20260101",
        "polygon": [[at[0], 0], [at[0], at[1]], [at[0] + 1, 0], [at[0], 0]],
    }
)
_clouds = st.fixed_dictionaries(
    {"date": st.just("20260101"), "point_cloud": st.lists(_points, min_size=1, max_size=4)}
)
_free = st.dictionaries(_texts.filter(lambda t: t not in {"polygon", "point"}), _texts, max_size=3)

_sent: st.SearchStrategy[Sent] = st.one_of(
    st.tuples(st.just("diss2"), _texts_only, _payloads),
    st.tuples(st.just("area"), _areas, _payloads),
    st.tuples(st.just("observations"), _clouds, _payloads),
    st.tuples(st.just("made-up"), _free, _payloads),
)


def accepted(sent: Sent) -> Notification:
    """The notification that a request makes."""
    event_type, identifier, payload = sent
    request = NotificationRequest(event_type=event_type, identifier=identifier, payload=payload)
    return notification_of(CATALOGUE.find(event_type), request)


def itself(record: Record) -> Filter:
    """A filter on every value of a notification, as a client would send it; its area included."""
    notification = record.notification
    asked: dict[str, Json] = {**notification.identifier}
    if isinstance(notification.geometry, Area):
        asked["polygon"] = notification.geometry.text
    elif notification.geometry is not None:
        asked["polygon"] = WORLD
    return compile_filter(CATALOGUE.find(notification.event_type), asked, Operation.REPLAY)


async def kept(backend: Backend, notifications: Sequence[Notification], run: str) -> list[Record]:
    """Everything appended and read back, in the order of appending."""
    places = [
        (item.event_type, (await backend.append(item, key=f"{run}-{number}")).sequence)
        for number, item in enumerate(notifications)
    ]
    found = []
    for event_type, sequence in places:
        batch = await backend.read(event_type, sequence, sequence, limit=1)
        assert isinstance(batch.entries[0], Record), batch.entries[0]
        found.append(batch.entries[0])
    return found


async def archived(folder: Path, records: Sequence[Record]) -> list[Record]:
    """The same out of the lake, each looked for by a filter on itself."""
    place = Place(str(folder))
    ordered = sorted(records, key=lambda record: record.notification.event_type)
    await asyncio.to_thread(filled, place, ordered)
    lake = Lake(place)
    try:
        return [
            entry
            for record in records
            for entry in await everything(
                lake,
                record.notification.event_type,
                span=(record.sequence, record.sequence),
                wanted=itself(record),
            )
            if isinstance(entry, Record)
        ]
    finally:
        await lake.close()


@given(sent=st.lists(_sent, min_size=1, max_size=12))
@given_settings(max_examples=20)
def test_the_same_everywhere(nats: NatsServer, sent: list[Sent]) -> None:
    """Any accepted notification comes back identical from every tier, and by its own filter."""
    notifications = [accepted(item) for item in sent]
    run = uuid4().hex

    async def check() -> None:
        memory = MemoryBackend(MemoryLimits(), now_ns=lambda: 1)
        assert [r.notification for r in await kept(memory, notifications, run)] == notifications
        log = await JetStreamBackend.open(
            replace(brisk(nats.url), username="a0", password="p"), CATALOGUE
        )
        try:
            stored = await kept(log, notifications, run)
        finally:
            await log.close()
        assert [record.notification for record in stored] == notifications
        assert all(itself(record).matches(record.notification) for record in stored)
        with TemporaryDirectory() as folder:
            assert await archived(Path(folder) / "lake", stored) == stored

    asyncio.run(check())
