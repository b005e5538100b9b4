"""What a stream should look like, and how far an existing one is from it. Pure.

The rules are in docs/storage.md#streams.

Configurations are the JSON objects of the JetStream API, not classes: an update has to send back
every setting the server knows, also those that are newer than this program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aviso_server.backends.backend import Bounds
from aviso_server.backends.jetstream.options import StreamDefaults
from aviso_server.core.declaration import declaration, read_declaration
from aviso_server.core.errors import AvisoError, MalformedBody, SetupFailed
from aviso_server.core.json import Json, compact, parse
from aviso_server.core.schema import EarlierTopics, Schema, stream_conflict

Config = Mapping[str, Json]

OURS = "aviso: "
"""How the description of our streams begins; the event type follows."""

WIPED_THROUGH = "aviso-wiped-through"
WIPED_LOST = "aviso-wiped-lost"
"""Metadata: everything up to the first was accounted for when the second had been lost."""

DECLARED = "aviso-schema"
"""Metadata: the schema of the event type as JSON, for readers that know NATS only (Spark)."""

TOPIC = "aviso-topic"
TOPIC_FROM = "aviso-topic-from"
"""Metadata: the fields that every message has at the same place in its subject, as JSON with null
where they differ, and the sequence from which on that holds. By these the server can search."""

EARLIER = "aviso-earlier-topics"
"""Metadata: the fields of subjects up to a sequence, as JSON pairs, for messages that do not name
them themselves, such as the reference server's."""
MAX_EARLIER = 16

NOTED = (DECLARED, TOPIC, TOPIC_FROM, EARLIER)
"""The part of the metadata that is kept up to date."""

MAX_DECLARED_BYTES = 64 * 1024
"""Half of what the server takes as metadata: the rest is for others."""

DUPLICATE_WINDOW_NS = 120 * 1_000_000_000
"""How long idempotency keys are remembered."""

_NS = 1_000_000_000

COMPARED = {
    "subjects": "subjects",
    "max_messages": "max_msgs",
    "max_bytes": "max_bytes",
    "max_age": "max_age",
    "max_messages_per_subject": "max_msgs_per_subject",
    "num_replicas": "num_replicas",
    "compression": "compression",
    "discard": "discard",
    "allow_direct": "allow_direct",
    "allow_atomic": "allow_atomic",
}
"""The settings that are kept in line, in the order of docs/storage.md#streams, by their names in
the API. The last two are our addition: the reference server's streams lack them. History is read
directly, and group commits are atomic batches."""


def description(event_type: str) -> str:
    """Marks a stream as ours."""
    return OURS + event_type


def desired(schema: Schema, defaults: StreamDefaults, *, batches: bool = False) -> dict[str, Json]:
    """The configuration an event type's stream should have; ``batches`` where NATS has them."""
    policy = schema.storage
    max_age_s = _first(policy.retention_s, defaults.retention_s)
    config: dict[str, Json] = {
        "name": schema.stream,
        "description": description(schema.event_type),
        "subjects": subjects(schema),
        "retention": "limits",
        "storage": defaults.storage_type,
        "discard": defaults.discard_policy,
        "max_msgs": _first(policy.max_messages, defaults.max_messages) or -1,
        "max_bytes": _first(policy.max_bytes, defaults.max_bytes) or -1,
        "max_age": (max_age_s or 0) * _NS,
        # Full history unless the schema asks for the newest per subject.
        "max_msgs_per_subject": 1 if policy.allow_duplicates is False else -1,
        "duplicate_window": min(DUPLICATE_WINDOW_NS, (max_age_s or 120) * _NS),
        "allow_direct": True,
    }
    if batches:
        config["allow_atomic"] = True
    # Unset means the server's choice, which an operator may have changed on the stream itself.
    if defaults.replicas is not None:
        config["num_replicas"] = defaults.replicas
    if policy.compression is not None:
        config["compression"] = "s2" if policy.compression else "none"
    text = compact(declaration(schema))
    if len(text) <= MAX_DECLARED_BYTES:
        topic = compact([*(schema.key_order or ())])
        config["metadata"] = {DECLARED: text.decode(), TOPIC: topic.decode()}
    return config


def with_topic(wanted: Config, info: Mapping[str, Json]) -> dict[str, Json]:
    """The wanted configuration, claiming only fields that were always at the same place.

    They only ever become fewer: before a server writes anything, it removes those that it writes
    elsewhere. How subjects were laid out until now is noted, too.
    """
    existing = _object(info.get("config"))
    metadata = {**_object(wanted.get("metadata"))}
    before = _object(existing.get("metadata"))
    last = _number(_object(info.get("state")).get("last_seq"))
    if TOPIC in before:
        both = zip(_fields(before[TOPIC]), _fields(metadata.get(TOPIC)), strict=False)
        metadata[TOPIC] = compact([a if a == b else None for a, b in both]).decode()
        if TOPIC_FROM in before:
            metadata[TOPIC_FROM] = before[TOPIC_FROM]
    elif last and str(existing.get("description") or "").startswith(OURS):
        # Written by an earlier version under key orders that are no longer known. The reference
        # server, on the other hand, writes no fields outside the subject.
        metadata[TOPIC_FROM] = str(last + 1)
    noted = earlier_topics(existing)
    was, now = (_declared_fields(metadata) for metadata in (before, metadata))
    if last and was is not None and was != now and len(noted) < MAX_EARLIER:
        noted = (*noted, EarlierTopics(last, was))
    if noted:
        pairs: list[Json] = [[item.through, [*item.fields]] for item in noted]
        metadata[EARLIER] = compact(pairs).decode()
    return {**wanted, "metadata": metadata}


def earlier_topics(config: Config) -> tuple[EarlierTopics, ...]:
    """How subjects were laid out before, by the account of a stream."""
    items = _list(_object(config.get("metadata")).get(EARLIER))
    pairs = (item for item in items if isinstance(item, list) and len(item) == 2)
    return tuple(
        EarlierTopics(_number(through), tuple(map(str, fields)))
        for through, fields in pairs
        if isinstance(fields, list)
    )


def _declared_fields(metadata: Mapping[str, Json]) -> tuple[str, ...] | None:
    """The fields of subjects as the schema of a stream has them."""
    text = metadata.get(DECLARED)
    try:
        schema = read_declaration(parse(text.encode())) if isinstance(text, str) else None
    except AvisoError:
        return None
    return None if schema is None else schema.token_fields


def beginning(through: int) -> dict[str, Json]:
    """The setting of a new stream whose sequences up to one were already assigned."""
    return {"first_seq": through + 1} if through else {}


def subjects(schema: Schema) -> list[Json]:
    """The subjects of a stream; a topic without values is the base alone."""
    below = f"{schema.base}.>"
    return [below] if schema.key_order is not None else [schema.base, below]


def declared_text(config: Config) -> str | None:
    """The schema that a stream carries, as JSON; None where it carries none."""
    text = _object(config.get("metadata")).get(DECLARED)
    return text if isinstance(text, str) else None


def drift(existing: Config, wanted: Config) -> list[str]:
    """The settings that really differ, in the order of docs/storage.md#streams; ours last."""
    fields = [
        name
        for name, key in COMPARED.items()
        if key in wanted and _normal(key, existing.get(key)) != _normal(key, wanted[key])
    ]
    before, after = _object(existing.get("metadata")), _object(wanted.get("metadata"))
    return fields + [key for key in NOTED if before.get(key) != after.get(key)]


def with_changes(existing: Config, wanted: Config, fields: Sequence[str]) -> dict[str, Json]:
    """The existing configuration with the named settings updated."""
    changed = {COMPARED[name]: wanted[COMPARED[name]] for name in fields if name in COMPARED}
    config = {**existing, "description": wanted["description"], **changed}
    noted = [key for key in NOTED if key in fields]
    if noted:
        # Only these keys: what else is noted there, wipes for one, is not ours to forget.
        before, after = _object(existing.get("metadata")), _object(wanted.get("metadata"))
        others = {key: text for key, text in before.items() if key not in noted}
        config["metadata"] = {**others, **{key: after[key] for key in noted if key in after}}
    window, age = config.get("duplicate_window"), config.get("max_age")
    if isinstance(window, int) and isinstance(age, int) and 0 < age < window:
        config["duplicate_window"] = age  # the server insists
    return config


def check_usable(schema: Schema, existing: Config, wanted: Config) -> None:
    """Refuse a stream that belongs to something else or that we must not change."""
    name, shown = schema.stream, str(existing.get("description") or "")
    # Clients invent generic names; only a stream that no other event type claims may be used.
    claimed = shown.startswith(OURS) or not _within(existing.get("subjects"), schema.base)
    if schema.generic and shown != wanted["description"] and claimed:
        raise stream_conflict(schema.event_type)
    check_storage(name, existing, wanted["storage"])
    retention = existing.get("retention", "limits")
    if retention != "limits":
        raise SetupFailed(
            f"Stream '{name}' uses retention policy '{retention}', which is not supported; "
            "use 'limits'"
        )


def check_storage(name: str, existing: Config, storage_type: Json) -> None:
    """Storage cannot be changed on an existing stream."""
    if existing.get("storage", storage_type) != storage_type:
        raise SetupFailed(
            f"Stream '{name}' uses storage type '{existing['storage']}', "
            f"configuration wants '{storage_type}'"
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the identifier is found in a stretch of a stream, as far as subjects go."""

    fields: tuple[str | None, ...] = ()
    """Those that every message of the stretch has at this place of its subject."""
    first: int = 1
    last: int = 0
    """What is written later may be written otherwise; what comes up to here is not."""
    earlier: tuple[EarlierTopics, ...] = ()

    def read_by(self, schema: Schema) -> Schema:
        """The schema by which messages are read."""
        return replace(schema, earlier=self.earlier) if self.earlier else schema

    def covers(self, first: int, last: int) -> bool:
        """Whether it holds for all of a range."""
        return self.first <= first and last <= self.last

    def fits(self, key_order: Sequence[str]) -> bool:
        """Whether one who writes topics in this order may go on."""
        own = (*key_order, *([None] * len(self.fields)))
        return all(name in {None, own[at]} for at, name in enumerate(self.fields))


@dataclass(frozen=True, slots=True)
class StreamState:
    """What a stream holds at one instant, as STREAM.INFO reports it."""

    first: int
    last: int
    last_ns: int
    """Storage time of the last notification ever stored."""
    bounds: Bounds
    layout: Layout = Layout()

    @classmethod
    def of(cls, info: Mapping[str, Json], last_ns: int) -> "StreamState":
        """Read them from an answer."""
        config, state = _object(info.get("config")), _object(info.get("state"))
        last = _number(state.get("last_seq"))
        messages = _number(state.get("messages"))
        first = _number(state.get("first_seq")) if messages else last + 1
        holes = last - first + 1 - messages
        bounds = Bounds(first, last, _lost(config, first), holes)
        metadata = _object(config.get("metadata"))
        layout = Layout(
            _fields(metadata.get(TOPIC)),
            _number(metadata.get(TOPIC_FROM)),
            last,
            earlier_topics(config),
        )
        return cls(first, last, last_ns, bounds, layout)


def with_wipe(existing: Config, *, through: int, lost: int) -> dict[str, Json]:
    """The configuration with a note that removals up to ``through`` are deliberate.

    ``lost`` is what retention had removed before: a wipe must not make that forgotten.
    """
    metadata = {**_object(existing.get("metadata"))}
    metadata[WIPED_THROUGH] = str(through)
    metadata[WIPED_LOST] = str(lost)
    return {**existing, "metadata": metadata}


def takes_batches(config: Config) -> bool:
    """Whether messages can be stored together, all or none."""
    return config.get("allow_atomic") is True


def trims(config: Config) -> bool:
    """Whether retention can remove anything on its own."""
    if _number(config.get("max_age")) > 0:
        return True
    limited = _number(config.get("max_msgs")) > 0 or _number(config.get("max_bytes")) > 0
    return limited and config.get("discard", "old") == "old"


def _lost(config: Config, first: int) -> int:
    """The highest sequence that retention removed.

    If both retention and keep-latest may remove, their effects cannot be distinguished: everything
    below the first counts as lost, so that no reader skips a notification unknowingly.
    """
    if not trims(config):
        return 0
    metadata = _object(config.get("metadata"))
    gone = first - 1
    if gone <= _number(metadata.get(WIPED_THROUGH)):
        return _number(metadata.get(WIPED_LOST))
    return gone


def _normal(key: str, value: Json) -> Json:
    """Spellings of the same setting made equal: 0 and -1, absent and none."""
    match key:
        case "subjects":
            return [*sorted(map(str, value))] if isinstance(value, list) else []
        case "compression" | "discard":
            return value or {"compression": "none", "discard": "old"}[key]
        case "allow_direct" | "allow_atomic":
            return bool(value)
        case "num_replicas":
            return max(_number(value), 1)
        case _:
            return max(_number(value), 0)


def _within(names: Json, base: str) -> bool:
    """Whether all subjects of a stream are the base or below it."""
    known = list(map(str, names)) if isinstance(names, list) else []
    return bool(known) and all(n == base or n.startswith(f"{base}.") for n in known)


def _first(policy: int | None, default: int | None) -> int | None:
    return default if policy is None else policy


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _fields(text: Json) -> tuple[str | None, ...]:
    """The fields of a topic as metadata lists them."""
    return tuple(item if isinstance(item, str) else None for item in _list(text))


def _list(text: Json) -> list[Json]:
    """A list that metadata has as text; empty where it is missing or damaged."""
    try:
        items = parse(text.encode()) if isinstance(text, str) else None
    except MalformedBody:
        return []
    return items if isinstance(items, list) else []


def _number(value: Json) -> int:
    """A whole number of the API, which writes metadata as text."""
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isdigit() else 0
