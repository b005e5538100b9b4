"""Access control on real sockets: every caller on every route."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import settings as tuned
from hypothesis import strategies as st
from support import edge as edges
from support.access import (
    ADMIN,
    PROTECTED,
    READ_ONLY,
    STRANGER,
    WRITER,
    bearer,
    proxy_auth,
    token,
)
from support.config import settings
from support.edge import Edge, edge
from support.journal import recorded
from support.raw import Answer, Wire, request, wired
from support.server import Client, connected
from support.sse import opened

from aviso_server.auth.access import Policy
from aviso_server.core.json import Json
from aviso_server.http.app import ROUTES, build_app
from aviso_server.http.services import Services
from aviso_server.relay.query import StreamRules

NOTIFY, BATCH = "/api/v1/notification", "/api/v1/notifications"
WATCH, REPLAY = "/api/v1/watch", "/api/v1/replay"
WIPE, WIPE_ALL = "/api/v1/admin/wipe/stream", "/api/v1/admin/wipe/all"
DELETE, CHECK = "/api/v1/admin/notification/ev@9", "/api/v1/auth/check"
OVERVIEW = "/api/v1/overview"

PARTNER = ("partner", "partner", ())
HOMELESS = ("homeless", None, ("admin", "reader", "producer"))
NOBODY = None

WHO = (401, "Authentication is required for this stream")
NO_READ = (403, "User does not have required read role for this stream")
NO_WRITE = (403, "User does not have required write role for this stream")
ADMINS_WRITE = (403, "Only administrators can write to this stream")
NO_ADMIN = (403, "User does not have required administrative role")
NEEDED = (401, "Authorization header is required")
INVALID = (401, "Invalid or expired token")
OK = (200, None)

Identified = tuple[str, str | None, tuple[str, ...]]
User = Identified | None


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[Client]:
    """A server in trusted-proxy mode."""
    async with connected(settings({"auth": proxy_auth()}, schemas=PROTECTED)) as started:
        yield started


def headers(user: User) -> list[tuple[str, str]]:
    return [] if user is None else [bearer(token(user))]


def asking(event_type: str, **more: Json) -> bytes:
    return json.dumps({"event_type": event_type, "identifier": {}, **more}).encode()


def announcing(event_type: str) -> bytes:
    return json.dumps({"event_type": event_type, "identifier": {"region": "n"}}).encode()


CODES = {401: ("UNAUTHORIZED", "unauthorized"), 403: ("FORBIDDEN", "forbidden")}


def assert_answer(answer: Answer, expected: tuple[int, str | None]) -> None:
    """A 200, or the error object byte for byte and the challenge of a 401."""
    status, message = expected
    assert answer.status == status, answer.body
    if message is None:
        return
    code, error = CODES[status]
    assert answer.body.decode() == (
        f'{{"code":"{code}","error":"{error}","message":"{message}",'
        f'"request_id":"{answer.request_id}"}}'
    )
    assert answer.header("content-type") == "application/json"
    assert answer.header("www-authenticate") == ("Bearer" if status == 401 else None)


MATRIX = [
    # stream, caller, reading, writing
    ("ev", NOBODY, OK, OK),
    ("ev", READ_ONLY, OK, OK),
    ("ev", STRANGER, OK, OK),
    ("members", NOBODY, WHO, WHO),
    ("members", READ_ONLY, OK, ADMINS_WRITE),
    ("members", WRITER, OK, ADMINS_WRITE),
    ("members", STRANGER, OK, ADMINS_WRITE),
    ("members", HOMELESS, OK, ADMINS_WRITE),
    ("members", ADMIN, OK, OK),
    ("roles", NOBODY, WHO, WHO),
    ("roles", READ_ONLY, OK, NO_WRITE),
    ("roles", WRITER, NO_READ, OK),
    ("roles", PARTNER, OK, NO_WRITE),
    ("roles", STRANGER, NO_READ, NO_WRITE),
    ("roles", HOMELESS, NO_READ, NO_WRITE),
    ("roles", ADMIN, OK, OK),
]


@pytest.mark.parametrize(("stream", "user", "reading", "writing"), MATRIX)
async def test_the_role_matrix_of_streams(
    shared: Client,
    wire: Wire,
    stream: str,
    user: User,
    reading: tuple[int, str | None],
    writing: tuple[int, str | None],
) -> None:
    """Every caller on notify, batch, watch and replay of every kind of stream."""
    head = headers(user)
    assert_answer(await wire.ask("POST", NOTIFY, announcing(stream), head), writing)
    assert_answer(await wire.ask("POST", REPLAY, asking(stream, from_id="1"), head), reading)
    (result,) = (await wire.ask("POST", BATCH, announcing(stream), head)).data["results"]
    assert result.get("message") == writing[1]
    async with wired(shared.running) as watcher:
        await watcher.send(request("POST", WATCH, asking(stream), head))
        if reading == OK:
            assert (await watcher._head()).status == 200
        else:
            assert_answer(await watcher.answer(), reading)


@pytest.mark.parametrize("user", [NOBODY, READ_ONLY, WRITER, STRANGER, HOMELESS, ADMIN])
async def test_the_role_matrix_of_admin_routes(wire: Wire, user: User) -> None:
    """Administrators only, on each of them."""
    for path in (WIPE, WIPE_ALL, DELETE):
        answer = await wire.ask("DELETE", path, b'{"stream_name":"ev"}', headers(user))
        if user is ADMIN:
            assert answer.status == (404 if path == DELETE else 200)
        else:
            assert_answer(answer, NEEDED if user is NOBODY else NO_ADMIN)


async def test_each_notification_of_a_batch_is_authorised_by_its_own_event_type(
    wire: Wire,
) -> None:
    """What one may write is stored although the rest is refused; the order of checks holds."""
    lines = [announcing("ev"), announcing("members"), announcing("roles"), announcing("nope")]
    lines.append(b'{"event_type":"members","identifier":{"point":"1,2"}}')
    lines.append(b'{"event_type":"members","identifier":{"unknown":"1"}}')
    answer = await wire.ask("POST", BATCH, b"\n".join(lines), headers(WRITER))
    assert answer.status == 200
    assert (answer.data["accepted"], answer.data["rejected"]) == (2, 4)
    codes = [result.get("code") for result in answer.data["results"]]
    assert codes == [
        None,
        "FORBIDDEN",
        None,
        "UNKNOWN_EVENT_TYPE",
        "INVALID_NOTIFICATION_REQUEST",
        "FORBIDDEN",
    ]
    assert answer.data["results"][1]["error"] == "forbidden"
    anonymous = await wire.ask("POST", BATCH, announcing("members"))
    assert [result["code"] for result in anonymous.data["results"]] == ["UNAUTHORIZED"]


async def test_idempotency_keys_belong_to_their_caller(wire: Wire) -> None:
    """One user's key is no repeat of another's, nor of an anonymous one; in a batch too."""
    first, second = ("a/b", "c", ()), ("b", "c/a", ())
    callers: list[User] = [NOBODY, first, second, WRITER]
    key = ("Idempotency-Key", "one-key-for-all")
    given = [
        (await wire.ask("POST", NOTIFY, announcing("ev"), [*headers(user), key])).data["sequence"]
        for user in (*callers, *callers)
    ]
    assert len(set(given)) == len(callers)
    assert given[: len(callers)] == given[len(callers) :]
    line = announcing("ev")[:-1] + b', "idempotency_key": "one-key-for-all"}'
    batched = [
        (await wire.ask("POST", BATCH, line, headers(user))).data["results"][0]["sequence"]
        for user in callers
    ]
    assert batched == given[: len(callers)]


# Credentials

REFUSED = [
    token(READ_ONLY, key="x" * 40),
    token(READ_ONLY, lives_s=-120),
    "a.b.c",
    "nonsense",
    "é",
]


@pytest.mark.parametrize("text", REFUSED, ids=["forged", "expired", "noise", "word", "bytes"])
async def test_a_rejected_credential_is_refused_everywhere(wire: Wire, text: str) -> None:
    """Even on an open stream: a wrong password is a mistake that should be noticed."""
    head = [bearer(text)]
    for path in (NOTIFY, BATCH, WATCH, REPLAY):
        assert_answer(await wire.ask("POST", path, asking("ev"), head), INVALID)
    assert_answer(await wire.ask("DELETE", WIPE_ALL, headers=head), INVALID)
    assert_answer(await wire.ask("GET", CHECK, headers=head), INVALID)
    assert_answer(await wire.ask("GET", OVERVIEW, headers=head), INVALID)


@pytest.mark.parametrize("value", ["", "Bearer", "Basic dTpw", "Bearer a b", "Digest x", "x"])
async def test_a_malformed_header_counts_as_none_on_streams(wire: Wire, value: str) -> None:
    """On streams it is anonymous; where a user is required it is reported (trusted proxy)."""
    head = [("Authorization", value)]
    assert_answer(await wire.ask("POST", NOTIFY, announcing("ev"), head), OK)
    assert_answer(await wire.ask("POST", NOTIFY, announcing("members"), head), WHO)
    assert_answer(await wire.ask("GET", OVERVIEW, headers=head), OK)
    malformed = (401, "Authorization header must use Bearer token")
    assert_answer(await wire.ask("DELETE", WIPE_ALL, headers=head), malformed)
    assert_answer(await wire.ask("GET", CHECK, headers=head), malformed)


async def test_the_first_of_repeated_headers_counts(wire: Wire) -> None:
    """A second one cannot lend another identity."""
    good, bad = bearer(token(ADMIN)), bearer("a.b.c")
    assert (await wire.ask("GET", CHECK, headers=[good, bad])).data["username"] == "boss"
    assert_answer(await wire.ask("GET", CHECK, headers=[bad, good]), INVALID)


@pytest.mark.parametrize(
    "path", ["/", "/health", "/ready", "/api/v1/schema", "/api/v1/schema/roles"]
)
async def test_public_routes_look_at_no_credential(wire: Wire, path: str) -> None:
    """Not even at a wrong one."""
    assert (await wire.ask("GET", path, headers=[bearer("nonsense")])).status == 200


async def test_the_leeway_opens_no_stream(wire: Wire) -> None:
    """A token past its end but within the minute publishes; it cannot begin what must end."""
    late = [bearer(token(ADMIN, lives_s=-30))]
    assert_answer(await wire.ask("POST", NOTIFY, announcing("roles"), late), OK)
    assert_answer(await wire.ask("POST", REPLAY, asking("roles", from_id="1"), late), INVALID)
    assert_answer(await wire.ask("POST", WATCH, asking("ev"), late), INVALID)
    assert_answer(await wire.ask("GET", OVERVIEW, headers=late), INVALID)


async def test_who_am_i(wire: Wire) -> None:
    """The identity as the server sees it; nothing else happens."""
    answer = await wire.ask("GET", CHECK, headers=headers(WRITER))
    shown = answer.data
    assert list(shown) == [
        "status", "auth_enabled", "username", "realm", "roles", "admin", "expires_at", "request_id",
    ]  # fmt: skip
    assert (shown["username"], shown["realm"], shown["roles"]) == ("writer", "ecmwf", ["producer"])
    assert (shown["admin"], shown["auth_enabled"]) == (False, True)
    assert shown["expires_at"].endswith("Z")
    assert (await wire.ask("GET", CHECK, headers=headers(ADMIN))).data["admin"] is True
    assert (await wire.ask("HEAD", CHECK, headers=headers(ADMIN))).status == 200
    assert (await wire.ask("HEAD", CHECK)).status == 401
    assert_answer(await wire.ask("GET", CHECK), NEEDED)


async def test_who_am_i_without_authentication() -> None:
    """Anonymous, and everything is open."""
    async with connected(settings()) as open_server, wired(open_server.running) as wire:
        shown = (await wire.ask("GET", CHECK, headers=[bearer("nonsense")])).data
        assert (shown["username"], shown["admin"], shown["auth_enabled"]) == (
            "anonymous",
            True,
            False,
        )
        assert shown["expires_at"] is None


# Order of checks


async def test_credentials_are_judged_before_the_body(shared: Client, wire: Wire) -> None:
    """A body that is too large, or never comes, does not matter to a stranger."""
    large = b"x" * 300_000
    assert_answer(await wire.ask("POST", NOTIFY, large, [bearer("a.b.c")]), INVALID)
    async with wired(shared.running) as patient:
        head = request("POST", NOTIFY, headers=[bearer("a.b.c"), ("Content-Length", "100")])
        await patient.send(head.replace(b"Content-Length: 0\r\n", b""))
        assert_answer(await patient.answer(), INVALID)


async def test_routes_are_decided_before_credentials(wire: Wire) -> None:
    """404 and 405 come first, also below /api/v1 and for administrators."""
    for head in ([], [bearer("a.b.c")], headers(ADMIN)):
        assert (await wire.ask("GET", "/api/v1/admin", headers=head)).status == 404
        assert (await wire.ask("GET", WIPE_ALL, headers=head)).status == 405
        assert (await wire.ask("POST", f"{WIPE_ALL}/", headers=head)).status == 404


async def test_parsing_and_event_type_come_before_the_stream_s_rules(wire: Wire) -> None:
    """The stream must be known before its rules are."""
    for path in (NOTIFY, WATCH, REPLAY):
        assert (await wire.ask("POST", path, b"nonsense")).data["code"] == "INVALID_JSON"
        unknown = await wire.ask("POST", path, asking("nope"))
        assert unknown.data["code"] == "UNKNOWN_EVENT_TYPE"
    point = await wire.ask("POST", NOTIFY, b'{"event_type":"members","identifier":{"point":1}}')
    assert point.data["code"] == "INVALID_NOTIFICATION_REQUEST"
    ends = await wire.ask("POST", NOTIFY, asking("members", to_id="1"))
    assert ends.data["code"] == "INVALID_NOTIFICATION_REQUEST"


async def test_the_stream_s_rules_come_before_validation(wire: Wire) -> None:
    """Who may not read learns nothing about the fields or the cursors."""
    wrong = b'{"event_type":"members","identifier":{"unknown":1},"from_id":"x","to_id":"y"}'
    for path in (WATCH, REPLAY):
        assert_answer(await wire.ask("POST", path, wrong), WHO)
    wrong = b'{"event_type":"members","identifier":{"unknown":1}}'
    key = [("Idempotency-Key", "not valid")]
    assert_answer(await wire.ask("POST", NOTIFY, wrong, key), WHO)


# Paths


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/%61dmin/wipe/all",
        "/%61%70%69/v1/admin/wipe/%61ll",
        "/api/v1/admin/wipe/%61%6C%6c",
        "/api%2Fv1/admin/wipe/all",
        "//api/v1/admin/wipe/all",
        "/api//v1/admin/wipe/all",
        "/api/v1/admin//wipe/all",
        "/api/v1/./admin/wipe/all",
        "/api/v1/watch/../admin/wipe/all",
        "/api/v1/schema/../admin/wipe/all",
        "/health/../api/v1/admin/wipe/all",
        "/api/v1/%2e%2e/v1/admin/wipe/all",
        "/static/..%2Fapi/v1/admin/wipe/all",
        "/api/v1/admin/wipe/all/",
        "/api/v1/admin/wipe/all;x",
        "/api/v1/admin/wipe/all%00",
        "/api/v1/admin/wipe/all%20",
        "/api/v1/admin/wipe/all?x=/health",
        "/API/v1/admin/wipe/all",
        "/api/v1/%2561dmin/wipe/all",
        "http://localhost/api/v1/admin/wipe/all",
        "http://localhost/health/../api/v1/admin/wipe/all",
    ],
)
async def test_spellings_of_an_admin_path_never_get_past_the_check(
    shared: Client, wire: Wire, path: str
) -> None:
    """Encoded, doubled, dotted: the admin route needs the admin role, anything else is not there.

    An anonymous caller gets 401 exactly where an administrator gets through.
    """
    anonymous = await wire.ask("DELETE", path)
    assert anonymous.status in {401, 404, 405}
    known = await wire.ask("DELETE", path, headers=headers(ADMIN))
    assert (known.status == 200) == (anonymous.status == 401)
    assert (await wire.ask("DELETE", path, headers=headers(STRANGER))).status in {403, 404, 405}


@st.composite
def spellings(draw: st.DrawFn) -> tuple[str, str]:
    """A method and some spelling of a path, most of them close to one of ours."""
    route = draw(st.sampled_from(ROUTES))
    path = route.path.split("{", maxsplit=1)[0] + ("ev@1" if "{" in route.path else "")
    spelled = ""
    for letter in path:
        match draw(st.integers(0, 20)):
            case 0:
                spelled += f"%{ord(letter):02x}"
            case 1:
                spelled += quote(f"%{ord(letter):02X}")
            case 2 if letter == "/":
                spelled += draw(
                    st.sampled_from(["//", "/./", "/x/../", "/%2e/", "/%2E%2e/", "%2F"])
                )
            case 3:
                spelled += letter.swapcase()
            case _:
                spelled += letter
    spelled += draw(st.sampled_from(["", "", "", "/", "?a", "%00", ";a", "%20", "/..", "/."]))
    methods = [route.method, route.method, "GET", "HEAD", "POST", "DELETE", "PUT"]
    return draw(st.sampled_from(methods)), spelled if spelled.startswith("/") else f"/{spelled}"


@tuned(max_examples=300)
@given(spellings())
async def test_every_spelling_is_unknown_or_checked(shared: Client, asked: tuple[str, str]) -> None:
    """A refused credential shows it: only public routes and unmatched requests get round it.

    Whatever the spelling, a request that is not 404 or 405 was answered by a public route, or
    with 401. Nothing of the store can have changed.
    """
    method, path = asked
    async with wired(shared.running) as wire:
        answer = await wire.ask(method, path, headers=[bearer("a.b.c")])
    if answer.status in {404, 405}:
        return
    if answer.status == 200:
        assert method in {"GET", "HEAD"}
        decoded = path.split("?", maxsplit=1)[0].lower()
        assert "admin" not in decoded
        assert "auth" not in decoded
    else:
        assert answer.status == 401, (method, path, answer.body)


def test_every_route_has_the_policy_of_the_specification() -> None:
    """Every route has its policy, and nothing is public by accident."""
    policies = {(route.method, route.path.split("{")[0]): route.policy for route in ROUTES}
    public = {path for (_, path), policy in policies.items() if policy is Policy.PUBLIC}
    assert public == {
        "/",
        "/health",
        "/ready",
        "/static/",
        "/swagger-ui/",
        "/swagger-ui/index.html",
        "/api-docs/openapi.json",
        "/api/v1/schema",
        "/api/v1/schema/",
    }
    assert policies["GET", OVERVIEW] is Policy.READ
    for (method, path), policy in policies.items():
        if method == "DELETE":
            assert policy is Policy.ADMIN, path
        elif method == "POST":
            reads = path in {WATCH, REPLAY}
            assert policy is (Policy.READ if reads else Policy.WRITE), path


async def test_a_route_without_policy_is_for_administrators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Denied by default: a route that was added without protection is protected."""

    async def secret(_: web.Request) -> web.Response:
        return web.Response(text="secret")

    def extended(services: Services) -> web.Application:
        app = build_app(services)
        app.router.add_get("/forgotten", secret)
        return app

    monkeypatch.setattr(edges, "build_app", extended)
    protected = settings({"auth": proxy_auth()}, schemas=PROTECTED)
    async with edge(protected) as served, wired(served.running) as wire:
        assert_answer(await wire.ask("GET", "/forgotten"), NEEDED)
        assert_answer(await wire.ask("GET", "/forgotten", headers=headers(READ_ONLY)), NO_ADMIN)
        assert (await wire.ask("GET", "/forgotten", headers=headers(ADMIN))).body == b"secret"


# The life of a stream


@asynccontextmanager
async def moments_left(
    user: Identified, rules: StreamRules
) -> AsyncIterator[tuple[Edge, dict[str, str]]]:
    """A server whose clock says that the user's token is about to end, and that token."""
    shown = token(user)
    left = edges.ending(shown, in_s=0.5)
    async with edge(
        settings({"auth": proxy_auth()}, schemas=PROTECTED), edges.Parts(now_ns=left, rules=rules)
    ) as served:
        yield served, dict([bearer(shown)])


@pytest.mark.parametrize(("user", "event_type"), [(READ_ONLY, "roles"), (STRANGER, "ev")])
async def test_a_watch_ends_with_its_token(user: Identified, event_type: str) -> None:
    """Announced in the opening frame, and kept; whoever shows one is bound, on open streams too."""
    body = {"event_type": event_type, "identifier": {}}
    async with (
        moments_left(user, StreamRules()) as (served, head),
        opened(f"{served.running.url}{WATCH}", body, head) as stream,
    ):
        frames = await stream.rest()
    assert frames[0].data["connection_will_close_in_seconds"] <= 1
    assert frames[-1].kind == "max_duration_reached"


async def test_a_longer_token_does_not_lengthen_the_stream() -> None:
    """The smaller of the two limits is announced."""
    sections: dict[str, Json] = {
        "auth": proxy_auth(),
        "watch_endpoint": {"connection_max_duration_sec": 1},
    }
    async with connected(settings(sections, schemas=PROTECTED)) as server:
        head = dict(headers(READ_ONLY))
        body = {"event_type": "roles", "identifier": {}}
        async with opened(f"{server.running.url}{WATCH}", body, head) as stream:
            frames = await stream.rest()
    assert frames[0].data["connection_will_close_in_seconds"] == 1
    assert frames[-1].kind == "max_duration_reached"


async def test_a_replay_ends_with_its_token() -> None:
    """Replay has no limit of its own, but the token's; it is not called completed."""
    body = {"event_type": "ev", "identifier": {}, "from_id": "1"}
    slowly = StreamRules(batch_size=1, batch_delay_s=60)
    async with moments_left(READ_ONLY, slowly) as (served, head):
        for region in "abc":
            await served.notify("ev", {"region": region})
        async with opened(f"{served.running.url}{REPLAY}", body, head) as stream:
            kinds = [frame.kind for frame in await stream.rest()]
    assert kinds == ["replay_started", "replay", "max_duration_reached"]


# Logs


async def test_what_administrators_do_is_audited(shared: Client, wire: Wire) -> None:
    """Wipes and deletions tell user and realm, whatever became of them."""
    await shared.notify("ev", {"region": "n"})
    with recorded() as journal:
        await wire.ask("DELETE", WIPE, b'{"stream_name":"EV"}', headers(ADMIN))
        await wire.ask("DELETE", WIPE, b'{"stream_name":"nope"}', headers(ADMIN))
        await wire.ask("DELETE", DELETE, headers=headers(ADMIN))
        await wire.ask("DELETE", WIPE_ALL, headers=headers(ADMIN))
    for name in (
        "admin.stream.wipe.requested",
        "admin.stream.wipe.succeeded",
        "admin.stream.wipe.not_found",
        "admin.notification.delete.not_found",
        "admin.all.wipe.requested",
        "admin.all.wipe.succeeded",
    ):
        records = journal.all(name)
        assert records, name
        for record in records:
            assert (record["username"], record["auth_realm"]) == ("boss", "ecmwf")


async def test_denials_are_logged_without_the_credential(wire: Wire) -> None:
    """Who, where and why; never with what."""
    secret = token(READ_ONLY, key="x" * 40)
    with recorded() as journal:
        answers = [
            await wire.ask("DELETE", WIPE_ALL, headers=[bearer(secret)]),
            await wire.ask("DELETE", WIPE_ALL, headers=headers(READ_ONLY)),
            await wire.ask("POST", NOTIFY, announcing("roles"), headers(READ_ONLY)),
        ]
    records = journal.all("auth.middleware.request.denied")
    told = [
        (record["status_code"], record["outcome"], record["username"], record["path"])
        for record in records
    ]
    assert told == [
        (401, "unauthorized", "-", WIPE_ALL),
        (403, "forbidden", "reader", WIPE_ALL),
        (403, "forbidden", "reader", NOTIFY),
    ]
    assert records[0]["details"] == "signature"
    assert [r["request_id"] for r in records] == [a.request_id for a in answers]
    assert secret not in repr(records)
    assert secret.split(".")[2] not in repr(records)


async def test_the_log_says_who_published_and_who_read() -> None:
    """Every notification and stream names its user, and that anonymous ones are."""
    with recorded() as journal:
        protected = settings({"auth": proxy_auth()}, schemas=PROTECTED)
        async with connected(protected) as server, wired(server.running) as wire:
            await wire.ask("POST", NOTIFY, announcing("roles"), headers(WRITER))
            await wire.ask("POST", NOTIFY, announcing("ev"), headers(HOMELESS))
            await wire.ask("POST", NOTIFY, announcing("ev"))
            await wire.ask("POST", BATCH, announcing("roles"), headers(WRITER))
            await wire.ask("POST", REPLAY, asking("roles", from_id="1"), headers(READ_ONLY))
    writer = ("writer", "ecmwf")
    for name, users in {
        "api.notification.processed": [writer, ("homeless", "none"), ("anonymous", "none")],
        "api.notifications.processed": [writer],
        "api.replay.stream.established": [("reader", "ecmwf")],
    }.items():
        assert [(r["username"], r["auth_realm"]) for r in journal.all(name)] == users
