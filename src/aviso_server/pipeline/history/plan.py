"""From a question about the past to files of the lake and a range of the log. No Spark here.

Rules
- Times become sequences, as in a replay over HTTP: from the first one stored at or after the start
  to the last one stored at or before the end.
- The log is queried before the lake. Everything up to the mark of the lake comes from the lake,
  everything above it from the log, up to where the log ended then.
- A log that is not the one that was archived is refused: together they would be no history.
- The schema is the one given, else the one the log knows, else none: then fields are plain texts.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeAlias

from aviso_server.core.cursor import parse_moment
from aviso_server.core.declaration import declaration
from aviso_server.core.errors import AvisoError
from aviso_server.core.filter import Filter
from aviso_server.core.json import Json, compact
from aviso_server.core.schema import Schema
from aviso_server.lake.index import Files
from aviso_server.lake.layout import Place
from aviso_server.lake.predicate import region
from aviso_server.lake.ranges import MOST
from aviso_server.lake.snapshot import EventTypeSnapshot, look
from aviso_server.pipeline.history.files import LakeScope, choose_files, reader
from aviso_server.pipeline.source.agreement import check_agreement
from aviso_server.pipeline.source.bridge import ask
from aviso_server.pipeline.source.failure import BadOption
from aviso_server.pipeline.source.log import SourceLog
from aviso_server.pipeline.source.options import At, Moment, SourceOptions, read_options

LAKE_VARIABLE = "AVISOSERVER_LAKE__PATH"
LOG_VARIABLE = "AVISOSERVER_NOTIFICATION_BACKEND__JETSTREAM__NATS_URL"
"""Where lake and log are by default: the variables that configure the server."""

Where: TypeAlias = Mapping[str, str] | str | None
"""An address, or options of the source."""
Asked: TypeAlias = Mapping[str, Json] | str | None
"""The identifier of a replay request, as JSON or as a dictionary."""
Point: TypeAlias = int | str | datetime | None
"""A sequence, or a time in one of the API's formats."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query about one event type."""

    event_type: str
    place: Place | None = None
    log: Mapping[str, str] | None = field(default=None, repr=False)
    """Options of the source that say where the log is; may hold secrets."""
    identifier: Asked = None
    start: Point = None
    end: Point = None
    schema: Schema | None = None
    fail_on_data_loss: bool = True

    def source(self, *, first: int, last: int, schema: Schema | None = None) -> dict[str, str]:
        """Options of the source for a range of the log."""
        options = {
            # Without a log the options are only read for what they ask.
            **(self.log or {"servers": "nats://nowhere"}),
            "eventType": self.event_type,
            "startingSequence": str(first),
            "endingSequence": str(last),
            "failOnDataLoss": str(self.fail_on_data_loss).lower(),
        }
        if self.identifier is not None:
            options["filter"] = _text(self.identifier)
        known = schema or self.schema
        if known is not None:
            options["schemas"] = compact([declaration(known)]).decode()
        return options


@dataclass(frozen=True, slots=True, eq=False)
class HistoryPlan:
    """Where the answer is, as of one query of log and lake."""

    question: Question
    schema: Schema
    wanted: Filter | None
    """None where everything is asked for."""
    first: int
    last: int
    """The sequences asked for, both included; none if ``last < first``."""
    snapshot: EventTypeSnapshot | None = None
    """The event type in the lake."""
    newest: int = 0
    """The last sequence that lake or log had."""

    @property
    def through(self) -> int:
        """Up to here the lake answers, above it the log."""
        return 0 if self.snapshot is None else self.snapshot.through

    @property
    def part(self) -> LakeScope:
        """What is asked of the lake."""
        return LakeScope(self.first, min(self.last, self.through), box=region(self.wanted))

    @property
    def files(self) -> Files | None:
        """The files of the lake that are opened for it."""
        return None if self.snapshot is None else choose_files(self.snapshot, self.part)

    @property
    def source(self) -> dict[str, str] | None:
        """Options of the source for what is asked of the log; None if that is nothing."""
        first = max(self.first, self.through + 1)
        if self.question.log is None or first > self.last:
            return None
        return self.question.source(first=first, last=self.last, schema=self.schema)

    def between(self, first: int, last: int) -> "HistoryPlan":
        """The same question about fewer sequences."""
        return replace(self, first=max(first, self.first), last=min(last, self.last))


def question(  # noqa: PLR0913 - the fields of a replay request, and where to ask
    event_type: str,
    *,
    lake: Place | str | None = None,
    log: Where = None,
    filter: Asked = None,  # noqa: A002 - as the source calls it
    start: Point = None,
    end: Point = None,
    schemas: Sequence[Schema] | Mapping[str, Schema] = (),
    fail_on_data_loss: bool = True,
) -> Question:
    """A question from what a user writes; lake and log from the environment if both are unsaid."""
    if lake is None and log is None:
        lake, log = os.environ.get(LAKE_VARIABLE), os.environ.get(LOG_VARIABLE)
    if not lake and not log:
        raise BadOption(
            "say where the notifications are: lake (a path or URL), log (nats://..., http://...), "
            f"or both; or set {LAKE_VARIABLE} and {LOG_VARIABLE}"
        )
    declared = schemas.values() if isinstance(schemas, Mapping) else schemas
    return Question(
        event_type=event_type,
        place=Place(lake) if isinstance(lake, str) and lake else lake or None,
        log=log_options(log) if log else None,
        identifier=filter,
        start=start,
        end=end,
        schema=next((item for item in declared if item.event_type == event_type), None),
        fail_on_data_loss=fail_on_data_loss,
    )


def make_plan(asked: Question) -> HistoryPlan:
    """Look at log and lake, in this order; BadOption, Unreached or LakeFailed if it cannot be."""
    start, end = _point("start", asked.start), _point("end", asked.end)
    options = read_options(asked.source(first=1, last=1))
    seen = None if asked.log is None else _looked_at(options, asked.event_type, start, end)
    schema = asked.schema or (_generic(asked.event_type) if seen is None else seen.schema)
    wanted = options.filter_on(schema)
    ours = None if asked.place is None else look(asked.place).of(asked.event_type)
    if seen is not None and ours is not None:
        ask(options, partial(check_agreement, marks={asked.event_type: ours.mark}))
    return HistoryPlan(
        asked,
        schema,
        None if wanted == Filter() else wanted,
        _first(asked, start, seen, ours),
        _last(asked, end, seen, ours),
        ours,
        _newest(seen, ours),
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the log says of an event type."""

    schema: Schema
    last: int
    since: int = MOST
    """First sequence of the time asked for."""
    until: int = 0


def _looked_at(
    options: SourceOptions, event_type: str, start: At | Moment | None, end: At | Moment | None
) -> _Seen:
    async def inspect_log(log: SourceLog) -> _Seen:
        seen = _Seen(await log.schema(event_type), (await log.bounds(event_type)).last)
        if isinstance(start, Moment):
            seen = replace(seen, since=await log.since(event_type, start.ns))
        if isinstance(end, Moment):
            seen = replace(seen, until=await log.until(event_type, end.ns))
        return seen

    return ask(options, inspect_log)


def _first(
    asked: Question, start: At | Moment | None, seen: _Seen | None, ours: EventTypeSnapshot | None
) -> int:
    if start is None:
        return 1
    if isinstance(start, At):
        return max(start.sequence, 1)
    if ours is not None and asked.place is not None:
        found = reader(asked.place).first(ours, least=1, since=start.ns)
        if found is not None:
            return found
    return MOST if seen is None else seen.since


def _last(
    asked: Question, end: At | Moment | None, seen: _Seen | None, ours: EventTypeSnapshot | None
) -> int:
    through = 0 if ours is None else ours.through
    newest = _newest(seen, ours)
    if end is None:
        return newest
    if isinstance(end, At):
        return min(end.sequence, newest)
    if seen is not None and seen.until > through:
        return min(seen.until, newest)
    if ours is None or asked.place is None:
        return 0
    return reader(asked.place).last(ours, until=end.ns) or 0


def _newest(seen: _Seen | None, ours: EventTypeSnapshot | None) -> int:
    return max(0 if ours is None else ours.through, 0 if seen is None else seen.last)


def _point(name: str, value: Point) -> At | Moment | None:
    match value:
        case None:
            return None
        case bool() | float():
            raise BadOption(f"{name} is a sequence (a whole number) or a time, not {value}")
        case int():
            return At(min(value, MOST))
        case datetime():
            moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return Moment((moment - _EPOCH) // timedelta(microseconds=1) * 1000)
        case _:
            try:
                return Moment(parse_moment(name, value))
            except AvisoError as error:
                raise BadOption(error.message) from None


def log_options(where: Mapping[str, str] | str) -> dict[str, str]:
    """Options of the source for an address, or unchanged."""
    if not isinstance(where, str):
        return dict(where)
    http = where.lower().startswith(("http://", "https://"))
    return {"url" if http else "servers": where}


def _generic(event_type: str) -> Schema:
    return Schema(event_type=event_type, base=event_type, generic=True)


def _text(identifier: Mapping[str, Json] | str) -> str:
    return identifier if isinstance(identifier, str) else compact(dict(identifier)).decode()
