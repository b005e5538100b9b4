"""Direct mode against a stand-in auth-o-tron."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from support.access import READ_ONLY, SECRET, AuthOTron, auth_o_tron, served, token
from support.clock import Clock

from aviso_server.auth.authotron import MAX_ANSWER_BYTES, Direct, DirectOptions
from aviso_server.auth.keyring import FixedKeys
from aviso_server.auth.keys import shared_secret
from aviso_server.auth.refusal import Forbidden, Refusal, Unauthorized, Unavailable
from aviso_server.auth.token import TokenCheck

AWAY = "Authentication service temporarily unavailable"
TOKEN = token(READ_ONLY)
HEADER = "Bearer opaque"


@asynccontextmanager
async def direct(
    url: str, *, clock: Clock | None = None, **options: float
) -> AsyncIterator[Direct]:
    tokens = TokenCheck([FixedKeys(shared_secret(SECRET))], now_ns=time.time_ns)
    made = Direct(
        DirectOptions(url, **options), tokens, now_ns=time.time_ns, clock=clock or Clock()
    )
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def stand_in() -> AsyncIterator[AuthOTron]:
    async with auth_o_tron({HEADER: TOKEN}) as started:
        yield started


async def refusal(asked: Direct, header: str = HEADER) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await asked.identify(header)
    return caught.value


@pytest.mark.parametrize("header", [HEADER, "Basic dXNlcjpwYXNz", f"  {HEADER} "])
@pytest.mark.parametrize("slashes", ["", "/", "///"])
async def test_the_header_is_forwarded_and_nothing_else(
    stand_in: AuthOTron, header: str, slashes: str
) -> None:
    """Bearer and Basic, trimmed; no cookie, no request id, no word about the client."""
    stand_in.users["Basic dXNlcjpwYXNz"] = TOKEN
    async with direct(stand_in.url + slashes) as asked:
        assert (await asked.identify(header)).username == "reader"
    assert set(stand_in.seen[0]) == {"host", "authorization"}
    assert stand_in.seen[0]["authorization"] == header.strip()


def body(text: str, **headers: str) -> Callable[[], web.Response]:
    return lambda: web.Response(text=text, headers=headers)


OTHER = token(("other", "ecmwf", ()))


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (body("Authenticated successfully", Authorization=f"Bearer {TOKEN}"), "reader"),
        (body(OTHER, Authorization=f"bearer  {TOKEN}"), "reader"),
        (body(OTHER, Authorization="Bearer nonsense"), "other"),
        (body(OTHER, Authorization=f"Basic {TOKEN}"), "other"),
        (body(json.dumps({"access_token": OTHER, "jwt": OTHER, "token": TOKEN})), "reader"),
        (body(json.dumps({"access_token": OTHER, "jwt": TOKEN})), "reader"),
        (body(json.dumps({"token": "nonsense", "access_token": TOKEN})), "reader"),
        (body(json.dumps({"token": 5, "access_token": TOKEN})), "reader"),
        (body(json.dumps(TOKEN)), "reader"),
        (body(f" {TOKEN}\n"), "reader"),
    ],
)
async def test_where_the_token_is_looked_for(
    stand_in: AuthOTron, answer: Callable[[], web.Response], name: str
) -> None:
    """Header, members of the body, the body as JSON text, the bare body; in this order."""
    stand_in.answer = answer
    async with direct(stand_in.url) as asked:
        assert (await asked.identify(HEADER)).username == name


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (lambda: web.Response(status=401), Unauthorized, "Invalid or expired token"),
        (lambda: web.Response(status=403), Forbidden, "Token validation was denied"),
        (lambda: web.Response(status=500), Unavailable, AWAY),
        (lambda: web.Response(status=404), Unavailable, AWAY),
        (lambda: web.Response(status=429), Unavailable, AWAY),
        (lambda: web.Response(status=304), Unavailable, AWAY),
        (body(""), Unavailable, AWAY),
        (body("Authenticated successfully"), Unavailable, AWAY),
        (body("{}"), Unavailable, AWAY),
        (body('{"token":null}'), Unavailable, AWAY),
        (body("x" * (MAX_ANSWER_BYTES + 1)), Unavailable, AWAY),
        (lambda: web.Response(body=b"\xff\xfe"), Unavailable, AWAY),
        (body(token(READ_ONLY, key="x" * 40)), Unauthorized, "Invalid or expired token"),
        (body(token(READ_ONLY, lives_s=-100)), Unauthorized, "Invalid or expired token"),
    ],
)
async def test_answers_that_let_nobody_in(
    stand_in: AuthOTron, answer: Callable[[], web.Response], kind: type[Refusal], message: str
) -> None:
    """Refusals are passed on; everything unforeseen is a 503; its tokens are checked here too."""
    stand_in.answer = answer
    async with direct(stand_in.url) as asked:
        refused = await refusal(asked)
        assert (type(refused), refused.message) == (kind, message)
        await refusal(asked)
    assert len(stand_in.seen) == 2, "a refusal was remembered"


async def test_nobody_there() -> None:
    """A service that does not listen."""
    async with auth_o_tron() as gone:
        url = gone.url
    async with direct(url) as asked:
        refused = await refusal(asked)
    assert (type(refused), refused.message) == (Unavailable, AWAY)


async def test_a_service_that_does_not_answer(stand_in: AuthOTron) -> None:
    """The time for the whole exchange is bounded."""
    stand_in.hold = asyncio.Event()
    async with direct(stand_in.url, timeout_s=0.05) as asked:
        refused = await refusal(asked)
    assert (type(refused), refused.message) == (Unavailable, AWAY)


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://x", "http://", "http://u:p@127.0.0.1:1"])
async def test_an_address_that_is_none(url: str) -> None:
    """The operator's mistake is reported as such."""
    async with direct(url) as asked:
        refused = await refusal(asked)
    assert isinstance(refused, Unavailable)
    assert refused.message == "Authentication service is not configured correctly"


async def test_redirects_keep_the_credential_at_home(stand_in: AuthOTron) -> None:
    """Followed, but another origin does not get the header."""

    async def elsewhere(_: web.Request) -> web.Response:
        raise web.HTTPFound(f"{stand_in.url}/authenticate")

    async def nearby(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == HEADER
        return web.Response(text=TOKEN)

    async def here(_: web.Request) -> web.Response:
        raise web.HTTPFound("/nearby")

    away, home = web.Application(), web.Application()
    away.router.add_get("/authenticate", elsewhere)
    home.router.add_get("/authenticate", here)
    home.router.add_get("/nearby", nearby)
    async with served(away) as url, direct(url) as asked:
        assert isinstance(await refusal(asked), Unauthorized)
        assert "authorization" not in stand_in.seen[0]
    async with served(home) as url, direct(url) as asked:
        assert (await asked.identify(HEADER)).username == "reader"


async def test_answers_are_remembered_for_a_few_seconds(stand_in: AuthOTron) -> None:
    """One question per credential and a few seconds; another credential is another question."""
    clock = Clock()
    stand_in.users["Bearer second"] = OTHER
    async with direct(stand_in.url, clock=clock) as asked:
        for _ in range(3):
            assert (await asked.identify(HEADER)).username == "reader"
        assert (await asked.identify("Bearer second")).username == "other"
        assert len(stand_in.seen) == 2
        clock.now = 10
        await asked.identify(HEADER)
        assert len(stand_in.seen) == 3


async def test_a_memory_of_no_seconds(stand_in: AuthOTron) -> None:
    """``auth.cache_seconds: 0`` asks every time, as the reference server does."""
    async with direct(stand_in.url, cache_s=0) as asked:
        for _ in range(3):
            await asked.identify(HEADER)
    assert len(stand_in.seen) == 3


async def test_nothing_is_remembered_beyond_the_tokens_end(stand_in: AuthOTron) -> None:
    """A token that only the leeway keeps alive is asked about every time."""
    stand_in.users[HEADER] = token(READ_ONLY, lives_s=-10)
    async with direct(stand_in.url) as asked:
        await asked.identify(HEADER)
        await asked.identify(HEADER)
    assert len(stand_in.seen) == 2


async def test_the_memory_ends_with_the_token(stand_in: AuthOTron) -> None:
    """A token with five seconds left is remembered for less than five."""
    clock = Clock()
    stand_in.users[HEADER] = token(READ_ONLY, lives_s=5)
    async with direct(stand_in.url, clock=clock) as asked:
        await asked.identify(HEADER)
        clock.now = 5
        await asked.identify(HEADER)
    assert len(stand_in.seen) == 2


async def test_concurrent_requests_share_one_question(stand_in: AuthOTron) -> None:
    """A burst of reconnecting clients is one request to auth-o-tron."""
    stand_in.hold = asyncio.Event()
    async with direct(stand_in.url, cache_s=0) as asked:
        asking = [asyncio.create_task(asked.identify(HEADER)) for _ in range(50)]
        await stand_in.asked.wait()
        stand_in.hold.set()
        assert {identity.username for identity in await asyncio.gather(*asking)} == {"reader"}
    assert len(stand_in.seen) == 1


async def test_the_memory_holds_no_credential(stand_in: AuthOTron) -> None:
    """Headers are remembered as keyed digests only."""
    async with direct(stand_in.url) as asked:
        await asked.identify(HEADER)
        assert HEADER.encode() not in repr(vars(asked._flights)).encode()
        assert "opaque" not in repr(vars(asked._flights))
