"""What a server has already of the notifications that a killed run may have sent to it.

Rules
- Only what the server stored after the last sequence known to the run is compared.
- Notifications are compared by content, as the server's own schema makes it of our request. Equal
  ones count as often as they are stored.
- A replay request must name the required fields, so the server is asked once for each combination
  of their values.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TypeAlias, cast

from aviso_server.core.announcement import notification_of
from aviso_server.core.batch import parse_item
from aviso_server.core.errors import AvisoError
from aviso_server.core.geometry import Area, Box
from aviso_server.core.json import Json, compact
from aviso_server.core.notification import Notification, Record
from aviso_server.core.schema import Schema
from aviso_server.pipeline.delivery.target import Target
from aviso_server.pipeline.source.bridge import ask
from aviso_server.pipeline.source.log import SourceLog
from aviso_server.pipeline.source.options import SourceOptions, read_options
from aviso_server.pipeline.source.ranges import Range

Content: TypeAlias = tuple[object, ...]

MARGIN = 0.01
"""Degrees around a cloud of points, so that an area holds all of them."""


class Forgotten(AvisoError):
    """The server no longer has what would decide; the message says what to do."""


class TargetStream:
    """Asks a server what its stream of an event type holds."""

    def __init__(self, target: Target, event_type: str) -> None:
        self._target = target
        self._event_type = event_type
        self._schema: Schema | None = None

    def end(self, bodies: Sequence[bytes]) -> int | None:
        """The last sequence of the stream now; None if it would take none of these requests."""
        filters = self._filters(bodies)
        if not filters:
            return None
        return ask(self._options(filters[0]), lambda log: _last(log, self._event_type))

    def holds(self, bodies: Sequence[bytes], *, above: int) -> tuple[list[bool], int]:
        """For each request whether what it asks for was stored above a sequence, and where the
        stream ended then."""
        contents = {number: content(item) for number, item in self._notifications(bodies).items()}
        wanted = set(contents.values())
        stored: Counter[Content] = Counter()
        reached = above
        for identifier in self._filters(bodies):
            part, last = ask(self._options(identifier), lambda log: self._tail(log, above, wanted))
            # One that answers to several of the questions is one all the same.
            stored |= part
            reached = max(reached, last)
        return match([contents.get(number) for number in range(len(bodies))], stored), reached

    async def _tail(
        self, log: SourceLog, above: int, wanted: set[Content]
    ) -> tuple["Counter[Content]", int]:
        stored: Counter[Content] = Counter()
        last = await _last(log, self._event_type)
        if last <= above:
            return stored, last
        async with aclosing(log.read(Range(self._event_type, above + 1, last))) as parts:
            async for part in parts:
                if part.lost:
                    raise self._forgotten(*part.lost[0])
                records = (item for item in part.entries if isinstance(item, Record))
                contents = (content(record.notification) for record in records)
                stored.update(item for item in contents if item in wanted)
        return stored, last

    def _forgotten(self, first: int, last: int) -> Forgotten:
        return Forgotten(
            f"{self._target.url} no longer keeps its notifications {first} to {last} of "
            f"'{self._event_type}', so it is unknown which of the last ones were published. "
            "Check its end, and start again after it with another state folder"
        )

    def _notifications(self, bodies: Sequence[bytes]) -> dict[int, Notification]:
        """What the server makes of requests; those that it rejects are absent."""
        schema = self.schema
        made = {}
        for number, item in enumerate(map(parse_item, bodies)):
            if isinstance(item, AvisoError):
                continue
            try:
                made[number] = notification_of(schema, item[0])
            except AvisoError:
                continue
        return made

    def _filters(self, bodies: Sequence[bytes]) -> list[dict[str, Json]]:
        """Identifiers of replay requests that all of these answer to, distinct."""
        schema = self.schema
        required = {field.name for field in schema.fields if field.required}
        ways: dict[bytes, dict[str, Json]] = {}
        for item in self._notifications(bodies).values():
            way: dict[str, Json] = {
                name: text for name, text in item.identifier.items() if name in required
            }
            if schema.spatial is not None and schema.spatial.name in required:
                way["polygon"] = _around(item)
            ways.setdefault(compact(cast("Json", way)), way)
        return list(ways.values())

    @property
    def schema(self) -> Schema:
        """The schema that the server shows."""
        if self._schema is None:
            self._schema = ask(self._options({}), lambda log: log.schema(self._event_type))
        return self._schema

    def _options(self, identifier: Mapping[str, Json]) -> SourceOptions:
        return read_options(self._target.source_options(self._event_type, identifier))


def content(item: Notification) -> Content:
    """What makes a notification: not its topic, and not how a polygon is spelled."""
    place = None if item.geometry is None else (type(item.geometry), item.geometry.points)
    return tuple(sorted(item.identifier.items())), place, item.payload


def match(contents: Sequence[Content | None], stored: "Counter[Content]") -> list[bool]:
    """Which of ours are stored; of equal ones the first, since they were sent in order.

    A stream may keep only the newest notification about a thing. So if a later one about the same
    thing is stored, those before it were too: sent now, they would take its place.
    """
    left = stored.copy()
    held = []
    for item in contents:
        held.append(item is not None and left[item] > 0)
        if item is not None:
            left[item] -= 1
    later: set[Content] = set()
    for number, item in reversed(list(enumerate(contents))):
        if item is not None and held[number]:
            later.add(item[:2])
        elif item is not None and item[:2] in later:
            held[number] = True
    return held


async def _last(log: SourceLog, event_type: str) -> int:
    return (await log.bounds(event_type)).last


def _around(item: Notification) -> Json:
    """An area that the notification's place shares a point with."""
    place = item.geometry
    if isinstance(place, Area) or place is None:
        return None if place is None else cast("Json", place.points)
    box = place.box
    wide = Box(
        max(box.min_lat - MARGIN, -90.0),
        max(box.min_lon - MARGIN, -180.0),
        min(box.max_lat + MARGIN, 90.0),
        min(box.max_lon + MARGIN, 180.0),
    )
    low, high = (wide.min_lat, wide.min_lon), (wide.max_lat, wide.max_lon)
    return cast("Json", [low, (low[0], high[1]), high, (high[0], low[1]), low])
