"""The ECPDS plugin against stand-in servers."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from support.access import EcpdsServer, destination, ecpds_server
from support.clock import Clock
from support.journal import recorded
from yarl import URL

from aviso_server.auth.destinations import (
    Destinations,
    EcpdsOptions,
    FetchFailed,
    Outcome,
    active,
    list_address,
)
from aviso_server.auth.ecpds import EcpdsPlugin, Memory, destination_of
from aviso_server.auth.identity import Identity
from aviso_server.auth.refusal import Forbidden, Refusal, Unavailable, Undecided
from aviso_server.core.constraint import Kind, enum_constraint, number_constraint
from aviso_server.core.filter import Filter
from aviso_server.core.json import Json

ALICE = Identity("alice", "ecmwf")
FOO = Filter((("destination", "FOO"),))
LISTS: dict[str, Json] = {"alice": [destination("FOO"), destination("BAR")]}


class Counted:
    """Writes down what the plugin reports, in the words of the metrics."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def ecpds_looked(self, *, hit: bool, size: int) -> None:
        self.said.append(f"{'hit' if hit else 'miss'} {size}")

    def ecpds_fetched(self, outcome: str) -> None:
        self.said.append(f"fetch {outcome}")

    def ecpds_decided(self, outcome: str) -> None:
        self.said.append(f"decide {outcome}")


@asynccontextmanager
async def plugin(
    *servers: str, clock: Clock | None = None, memory: Memory | None = None, **options: Any
) -> AsyncIterator[tuple[EcpdsPlugin, Counted]]:
    counted = Counted()
    made = EcpdsPlugin(
        Destinations(EcpdsOptions(servers, "service", "pass:word", **options)),
        "destination",
        memory or Memory(),
        metrics=counted,  # type: ignore[arg-type]
        clock=clock or Clock(),
    )
    try:
        yield made, counted
    finally:
        await made.close()


@pytest.fixture
async def server() -> AsyncIterator[EcpdsServer]:
    async with ecpds_server(LISTS) as started:
        yield started


async def refusal(asked: EcpdsPlugin, wanted: Filter = FOO, who: Identity = ALICE) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await asked.check(who, wanted)
    return caught.value


async def test_a_destination_one_has(server: EcpdsServer) -> None:
    """Asked once with the service account, then remembered; counted and logged."""
    async with plugin(server.url) as (asked, counted):
        with recorded() as journal:
            await asked.check(ALICE, FOO)
            await asked.check(ALICE, FOO)
    assert server.accounts == [f"Basic {b64encode(b'service:pass:word').decode()}"]
    assert server.queries == ["id=alice"]
    assert counted.said == ["fetch success", "miss 1", "decide allow", "hit 1", "decide allow"]
    allowed = journal.all("auth.ecpds.check.allowed")
    assert [record["cache_outcome"] for record in allowed] == ["miss_fetched", "hit"]
    assert {record["username"] for record in allowed} == {"alice"}


@pytest.mark.parametrize("wanted", ["BAZ", "foo", "FOO ", "*", ""])
async def test_a_destination_one_has_not(server: EcpdsServer, wanted: str) -> None:
    """Exact and case-sensitive; a star is nothing special, and nobody's."""
    server.lists["alice"] = [destination("FOO"), destination("*")]
    async with plugin(server.url) as (asked, counted):
        refused = await refusal(asked, Filter((("destination", wanted),)))
    assert isinstance(refused, Forbidden)
    assert refused.message == f"User 'alice' does not have access to destination '{wanted}'"
    assert counted.said[-1] == "decide deny_destination"


async def test_no_destination_at_all(server: EcpdsServer) -> None:
    """Refused without a question to anybody."""
    async with plugin(server.url) as (asked, counted):
        refused = await refusal(asked, Filter((("note", "FOO"),)))
    assert isinstance(refused, Forbidden)
    assert refused.message == "Required field 'destination' not found in request identifiers"
    assert refused.field == "destination"
    assert (counted.said, server.queries) == (["decide deny_match_key_missing"], [])


def test_which_destination_a_filter_asks_for() -> None:
    """A text, or a constraint that leaves one value; anything wider is ``*``."""

    def enum(spec: dict[str, Json]) -> Filter:
        return Filter(constraints=(enum_constraint("d", spec, ("foo", "bar")),))

    def number(spec: dict[str, Json]) -> Filter:
        return Filter(constraints=(number_constraint("d", spec, Kind.INT, None),))

    assert destination_of(Filter((("a", "1"), ("d", "x"))), "d") == "x"
    assert destination_of(enum({"eq": "FOO"}), "d") == "foo"
    assert destination_of(enum({"in": ["foo", "bar"]}), "d") == "*"
    assert destination_of(number({"eq": 4}), "d") == "4"
    assert destination_of(number({"gte": 4}), "d") == "*"
    assert destination_of(number({"gte": 4}), "e") is None


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (lambda: web.Response(status=401), "http_401"),
        (lambda: web.Response(status=403), "http_403"),
        (lambda: web.Response(status=404), "http_4xx"),
        (lambda: web.Response(status=500), "http_5xx"),
        (lambda: web.Response(status=302, headers={"Location": "/"}), "http_5xx"),
        (lambda: web.Response(text="nonsense"), "invalid_response"),
        (lambda: web.json_response([]), "invalid_response"),
        (lambda: web.json_response({"success": "yes"}), "invalid_response"),
        (lambda: web.json_response({"destinationList": []}), "invalid_response"),
        (lambda: web.json_response({"destinationList": {}, "success": "yes"}), "invalid_response"),
        (lambda: web.json_response({"destinationList": [], "success": "no"}), "invalid_response"),
        (lambda: web.json_response({"destinationList": [], "success": True}), "invalid_response"),
        (lambda: web.Response(body=b"\xff"), "invalid_response"),
    ],
)
async def test_answers_that_are_none(
    server: EcpdsServer, answer: Callable[[], web.Response], outcome: str
) -> None:
    """503, with the reason in metrics and log; never remembered."""
    server.answer = answer
    async with plugin(server.url) as (asked, counted):
        with recorded() as journal:
            refused = await refusal(asked)
        assert isinstance(refused, Unavailable)
        assert refused.message == "ECPDS service is inaccessible"
        assert counted.said == [f"fetch {outcome}", "miss 0", "decide unavailable"]
        (told,) = journal.all("auth.ecpds.check.unavailable")
        assert told["fetch_outcome"] == outcome
        server.answer = None
        await asked.check(ALICE, FOO)
    assert len(server.queries) == 2


async def test_a_server_that_is_not_there_or_does_not_answer(server: EcpdsServer) -> None:
    """Both are unreachable."""
    async with ecpds_server() as gone:
        url = gone.url
    server.hold = asyncio.Event()
    for address in (url, server.url):
        async with plugin(address, request_timeout_s=0.05) as (asked, counted):
            assert isinstance(await refusal(asked), Unavailable)
            assert counted.said[0] == "fetch unreachable"


@pytest.mark.parametrize(
    "records",
    [
        [destination("FOO", active=False)],
        [destination("FOO", active="true")],
        [destination("FOO", active=1)],
        [{"name": "FOO"}],
        [{"active": True}],
        [{"name": ["FOO"], "active": True}],
        ["FOO", None, 5],
    ],
)
async def test_records_that_do_not_count(server: EcpdsServer, records: list[Json]) -> None:
    """Inactive and unreadable records are left out, and spoil nothing."""
    server.lists["alice"] = [*records, destination("BAR")]
    async with plugin(server.url) as (asked, _):
        assert isinstance(await refusal(asked), Forbidden)
        await asked.check(ALICE, Filter((("destination", "BAR"),)))


async def test_another_target_field(server: EcpdsServer) -> None:
    """``target_field`` says where the name stands."""
    server.lists["alice"] = [{"id": "FOO", "name": "BAR", "active": True}]
    async with plugin(server.url, target_field="id") as (asked, _):
        await asked.check(ALICE, FOO)


async def test_all_servers_are_asked_at_once_and_their_lists_joined() -> None:
    """The union counts; no server waits for another."""
    async with (
        ecpds_server({"alice": [destination("FOO")]}) as one,
        ecpds_server({"alice": [destination("BAR")]}, prefix="/some/where") as two,
        plugin(one.url, f"{two.url}//") as (asked, counted),
    ):
        one.hold = two.hold = asyncio.Event()
        checking = asyncio.create_task(asked.check(ALICE, FOO))
        await one.asked.wait()
        await two.asked.wait()
        one.hold.set()
        await checking
        await asked.check(ALICE, Filter((("destination", "BAR"),)))
        assert counted.said.count("fetch success") == 1


@pytest.mark.parametrize(("strict", "allowed"), [(True, False), (False, True)])
async def test_a_partial_outage(strict: bool, allowed: bool) -> None:
    """``strict`` needs all servers, ``any_success`` one."""
    async with ecpds_server(LISTS) as one, ecpds_server() as two:
        two.answer = lambda: web.Response(status=500)
        async with plugin(one.url, two.url, strict=strict) as (asked, counted):
            if allowed:
                await asked.check(ALICE, FOO)
                assert counted.said[0] == "fetch success"
            else:
                assert isinstance(await refusal(asked), Unavailable)
                assert counted.said[0] == "fetch http_5xx"


@pytest.mark.parametrize("strict", [True, False])
async def test_the_worst_outcome_is_reported(strict: bool) -> None:
    """When all fail, whatever the policy."""
    async with ecpds_server() as one, ecpds_server() as two:
        one.answer = lambda: web.Response(status=500)
        two.answer = lambda: web.Response(status=401)
        options = EcpdsOptions((one.url, two.url), "u", "p", strict=strict)
        servers = Destinations(options)
        with pytest.raises(FetchFailed) as caught:
            await servers.of("alice")
        await servers.close()
    assert caught.value.outcome is Outcome.HTTP_401


async def test_concurrent_checks_share_one_fetch(server: EcpdsServer) -> None:
    """One per user; the others wait for it and are distinguished in the log."""
    server.hold = asyncio.Event()
    async with plugin(server.url) as (asked, counted):
        with recorded() as journal:
            checks = [asyncio.create_task(asked.check(ALICE, FOO)) for _ in range(20)]
            await server.asked.wait()
            server.hold.set()
            await asyncio.gather(*checks)
        outcomes = [r["cache_outcome"] for r in journal.all("auth.ecpds.check.allowed")]
    assert sorted(outcomes) == ["miss_coalesced"] * 19 + ["miss_fetched"]
    assert (len(server.queries), counted.said.count("fetch success")) == (1, 1)


async def test_memory_is_per_user_and_bounded_in_time_and_size(server: EcpdsServer) -> None:
    """What one user has says nothing about another; old and surplus entries go."""
    clock = Clock()
    async with plugin(server.url, clock=clock, memory=Memory(ttl_s=5, max_entries=1)) as (asked, _):
        await asked.check(ALICE, FOO)
        assert isinstance(await refusal(asked, who=Identity("bob")), Forbidden)
        await asked.check(ALICE, FOO)
        assert server.queries == ["id=alice", "id=bob", "id=alice"]
        clock.now = 4.9
        await asked.check(ALICE, FOO)
        assert len(server.queries) == 3
        server.lists["alice"] = []
        clock.now = 5
        assert isinstance(await refusal(asked), Forbidden)


async def test_a_fault_of_ours_lets_nobody_in() -> None:
    """500 and an error in the log; the caller learns nothing of it."""

    class Broken:
        """Stands for a mistake in our own code."""

        async def of(self, username: str) -> frozenset[str]:
            raise RuntimeError(username)

        async def close(self) -> None:
            pass

    counted = Counted()
    asked = EcpdsPlugin(Broken(), "destination", Memory(), metrics=counted)  # type: ignore[arg-type]
    refused = await refusal(asked)
    assert isinstance(refused, Undecided)
    assert refused.message == "ECPDS check failed unexpectedly"
    assert counted.said[-1] == "decide error"


@pytest.mark.parametrize(
    ("username", "query"),
    [("a b", "id=a+b"), ("a+b", "id=a%2Bb"), ("a&id=c", "id=a%26id%3Dc"), ("ü", "id=%C3%BC")],
)
async def test_user_names_are_encoded_as_in_a_form(
    server: EcpdsServer, username: str, query: str
) -> None:
    """Nobody can add a parameter by the choice of a name."""
    async with plugin(server.url) as (asked, _):
        await refusal(asked, who=Identity(username))
    assert server.queries == [query]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_user_name_stays_one_parameter(username: str) -> None:
    """Whatever its characters, the server reads back this name and no other parameter."""
    address = list_address("https://u:p@ecpds.example:8443/prefix/", username)
    assert address.path == "/prefix/ecpds/v1/destination/list"
    assert (address.host, address.port, address.user) == ("ecpds.example", 8443, None)
    assert list(URL(str(address)).query.items()) == [("id", username)]


def test_active_records_keep_their_order() -> None:
    """A plain look at records from a file."""
    records: list[Json] = json.loads('[{"active":true,"name":"b"},{"active":true,"name":"a"}]')
    assert active(records, "name") == ["b", "a"]
