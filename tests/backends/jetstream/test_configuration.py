"""Stream configurations: what is wanted, what differs, what counts as lost."""

from dataclasses import replace

import pytest
from support.config import settings

from aviso_server.backends.backend import Bounds
from aviso_server.backends.jetstream.configuration import (
    DECLARED,
    StreamState,
    check_usable,
    declared_text,
    desired,
    drift,
    with_changes,
    with_wipe,
)
from aviso_server.backends.jetstream.options import StreamDefaults
from aviso_server.core.declaration import read_declaration
from aviso_server.core.errors import InvalidRequest
from aviso_server.core.fields.text import StringField
from aviso_server.core.json import Json, parse
from aviso_server.core.schema import Schema, StoragePolicy

EV = settings().catalogue.schemas["ev"]
GENERIC = Schema(event_type="Foo", base="Foo", generic=True)


def test_full_history_by_default() -> None:
    """Nothing is limited unless the operator limits it."""
    config = desired(EV, StreamDefaults())
    assert config["name"] == "EV"
    assert config["subjects"] == ["ev.>"]
    assert config["description"] == "aviso: ev"
    assert (config["storage"], config["retention"], config["discard"]) == ("file", "limits", "old")
    limits = ("max_msgs", "max_bytes", "max_msgs_per_subject", "max_age")
    assert [config[key] for key in limits] == [-1, -1, -1, 0]


def test_the_schema_beats_the_defaults() -> None:
    """The policy overrides backend defaults key by key."""
    defaults = StreamDefaults(max_messages=5, max_bytes=6, retention_s=7, replicas=3)
    policy = StoragePolicy(
        retention_s=100, max_messages=50, allow_duplicates=False, compression=True
    )
    config = desired(replace(EV, storage=policy), defaults)
    assert (config["max_msgs"], config["max_bytes"]) == (50, 6)
    assert config["max_age"] == 100 * 10**9
    assert config["max_msgs_per_subject"] == 1
    assert (config["num_replicas"], config["compression"]) == (3, "s2")


def test_bare_topics_have_a_subject() -> None:
    """Generic and topic-less event types can have the base alone."""
    assert desired(GENERIC, StreamDefaults())["subjects"] == ["Foo", "Foo.>"]


@pytest.mark.parametrize(
    "existing",
    [
        {"max_msgs": 0, "max_bytes": 0, "max_age": 0, "max_msgs_per_subject": 0},
        {"max_msgs": -1, "compression": "none", "num_replicas": 1},
        {"num_replicas": 3, "compression": "s2", "max_consumers": 7, "discard": None},
    ],
)
def test_other_spellings_are_no_drift(existing: dict[str, Json]) -> None:
    """0 and -1, absent and none are the same; what is not configured is the server's affair."""
    wanted = desired(EV, StreamDefaults())
    kept: dict[str, Json] = {"allow_direct": True, "metadata": wanted["metadata"]}
    assert drift({"subjects": ["ev.>"], **kept, **existing}, wanted) == []


def test_drift_is_reported_in_order() -> None:
    """Changed settings are named in the order of docs/storage.md#streams."""
    defaults = StreamDefaults(max_messages=1, max_bytes=1, retention_s=1, replicas=3)
    policy = StoragePolicy(allow_duplicates=False, compression=True)
    wanted = desired(replace(EV, storage=policy), replace(defaults, discard_policy="new"))
    assert drift({"subjects": ["other"]}, wanted) == [
        "subjects",
        "max_messages",
        "max_bytes",
        "max_age",
        "max_messages_per_subject",
        "num_replicas",
        "compression",
        "discard",
        "allow_direct",
        "aviso-schema",
        "aviso-topic",
    ]


def test_updates_keep_what_they_do_not_know() -> None:
    """Settings newer than this program survive an update."""
    wanted = desired(EV, StreamDefaults(max_messages=9))
    config = with_changes({"name": "EV", "brand_new": 1, "max_msgs": 5}, wanted, ["max_messages"])
    assert (config["brand_new"], config["max_msgs"]) == (1, 9)
    assert "subjects" not in config


def test_streams_carry_their_schema() -> None:
    """Whoever reads NATS alone can tell which topic token is which field."""
    text = declared_text(desired(EV, StreamDefaults()))
    assert text is not None
    assert read_declaration(parse(text.encode())) == replace(EV, access=None)
    assert declared_text({}) is None
    assert declared_text({"metadata": {DECLARED: 1}}) is None


def test_a_changed_schema_is_brought_in_line_alone() -> None:
    """What else is noted in the metadata, by us or by others, stays."""
    wanted = desired(EV, StreamDefaults())
    noted: dict[str, Json] = {"aviso-wiped-through": "7", "theirs": "x", DECLARED: "{}"}
    config = with_changes({"max_msgs": 5, "metadata": noted}, wanted, [DECLARED])
    assert config["metadata"] == {**noted, DECLARED: declared_text(wanted)}
    assert config["max_msgs"] == 5


def test_a_schema_too_large_for_metadata_is_left_out() -> None:
    """A stream without it beats a stream the server refuses; an old text must not mislead."""
    fields = tuple(StringField(name=f"f{n}" * 20, required=False) for n in range(1000))
    wanted = desired(replace(EV, fields=fields), StreamDefaults())
    assert "metadata" not in wanted
    existing: dict[str, Json] = {"metadata": {DECLARED: "{}", "theirs": "x"}}
    assert DECLARED in drift(existing, wanted)
    assert with_changes(existing, wanted, [DECLARED])["metadata"] == {"theirs": "x"}


def test_duplicate_window_fits_the_age() -> None:
    """The server refuses a window longer than messages live."""
    assert desired(EV, StreamDefaults(retention_s=10))["duplicate_window"] == 10 * 10**9
    wanted = desired(EV, StreamDefaults(retention_s=10))
    config = with_changes({"duplicate_window": 120 * 10**9}, wanted, ["max_age"])
    assert config["duplicate_window"] == 10 * 10**9


@pytest.mark.parametrize(
    "existing",
    [
        {"description": "aviso: foo", "subjects": ["foo.>"]},
        {"description": "orders of the shop", "subjects": ["orders.>"]},
    ],
)
def test_made_up_names_do_not_take_over_streams(existing: dict[str, Json]) -> None:
    """A generic event type never touches a stream that belongs to another."""
    with pytest.raises(InvalidRequest, match="event_type 'Foo' conflicts"):
        check_usable(GENERIC, {**existing, "storage": "file"}, desired(GENERIC, StreamDefaults()))


def test_streams_of_the_reference_server_are_adopted() -> None:
    """It sets no description; its subjects are below the base."""
    existing: dict[str, Json] = {"subjects": ["Foo.>"], "storage": "file"}
    check_usable(GENERIC, existing, desired(GENERIC, StreamDefaults()))


def bounds_of(config: dict[str, Json], first: int, last: int, messages: int) -> Bounds:
    """The bounds that an answer of the server gives."""
    state: dict[str, Json] = {"first_seq": first, "last_seq": last, "messages": messages}
    return StreamState.of({"config": config, "state": state}, 0).bounds


def test_bounds() -> None:
    """The first stored and the last allocated; an empty stream begins after its last."""
    assert bounds_of({}, 0, 0, 0) == Bounds(1, 0)
    assert bounds_of({}, 3, 9, 5) == Bounds(3, 9, deleted=2)
    assert bounds_of({}, 10, 9, 0) == Bounds(10, 9)


@pytest.mark.parametrize(
    ("config", "lost"),
    [
        ({"max_age": 1}, 4),
        ({"max_msgs": 5}, 4),
        ({"max_bytes": 5, "discard": "old"}, 4),
        ({"max_msgs": 5, "discard": "new"}, 0),
        ({"max_msgs": -1, "max_msgs_per_subject": 1}, 0),
    ],
)
def test_lost_is_what_retention_removed(config: dict[str, Json], lost: int) -> None:
    """Only limits that remove by themselves lose anything; keep-latest is deliberate."""
    assert bounds_of(config, 5, 9, 5).lost == lost


def test_wipes_are_not_lost_and_losses_are_not_forgotten() -> None:
    """A note in the stream distinguishes removals, even those before and after a wipe."""
    config = with_wipe({"max_msgs": 5}, through=9, lost=4)
    assert bounds_of(config, 10, 9, 0).lost == 4
    assert bounds_of(config, 10, 12, 3).lost == 4
    assert bounds_of(config, 12, 16, 5).lost == 11
