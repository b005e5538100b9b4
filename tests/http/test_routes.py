"""Routes: which paths exist, and what every answer has."""

import pytest
from support.raw import Answer, Wire, request, wired
from support.server import Client

GET = {
    "/",
    "/health",
    "/ready",
    "/static/index.html",
    "/swagger-ui/",
    "/swagger-ui/swagger-ui.css",
    "/api-docs/openapi.json",
    "/api/v1/schema",
    "/api/v1/schema/ev",
    "/api/v1/auth/check",
    "/api/v1/overview",
}
POST = {"/api/v1/notification", "/api/v1/notifications", "/api/v1/watch", "/api/v1/replay"}
DELETE = {
    "/api/v1/admin/wipe/stream",
    "/api/v1/admin/wipe/all",
    "/api/v1/admin/notification/ev@1",
}
ALLOWED = (
    dict.fromkeys(GET, "GET, HEAD") | dict.fromkeys(POST, "POST") | dict.fromkeys(DELETE, "DELETE")
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
REPLAY = b'{"event_type":"ev","identifier":{},"from_id":"1"}'


def assert_empty(answer: Answer, status: int) -> None:
    """An unmatched request is answered with nothing but its id."""
    assert (answer.status, answer.body) == (status, b"")
    assert answer.header("content-length") == "0"
    assert answer.header("content-type") is None
    assert answer.header("server") is None
    assert answer.request_id


@pytest.mark.parametrize("path", sorted(ALLOWED))
async def test_wrong_methods_are_405_with_allow(wire: Wire, path: str) -> None:
    """A known path names its methods, alphabetically; OPTIONS is not offered."""
    for method in METHODS:
        answer = await wire.ask(method, path)
        if method in ALLOWED[path].split(", "):
            assert answer.status not in {404, 405} or answer.body, method
        elif method == "HEAD":
            assert (answer.status, answer.header("allow")) == (405, ALLOWED[path])
        else:
            assert_empty(answer, 405)
            assert answer.header("allow") == ALLOWED[path]


@pytest.mark.parametrize("path", sorted(GET))
async def test_head_is_get_without_the_body(wire: Wire, path: str) -> None:
    """Status and headers are those of GET, and the connection goes on after the empty body."""
    got = await wire.ask("GET", path)
    head = await wire.ask("HEAD", path)
    assert head.status == got.status == 200
    changing = {"date", "x-request-id"}
    assert [h for h in head.headers if h[0] not in changing] == (
        [h for h in got.headers if h[0] not in changing]
    )
    assert head.request_id != got.request_id
    assert (await wire.ask("GET", "/health")).body == b'{"status":"ok"}'


@pytest.mark.parametrize(
    "path",
    [
        "/health/",
        "//health",
        "/Health",
        "/api/v1/watch/",
        "/api/v1//watch",
        "/api/v1/schema/",
        "/api/v1/schema/a/b",
        "/api/v1/admin",
        "/api/v1/admin/notification/",
        "/api/v1/admin/wipe/stream/",
        "/swagger-ui",
        "/swagger-ui/nothing.js",
        "/swagger-ui/a/b",
        "/metrics",
        "/static",
        "/static/",
        "/static/nothing.css",
        "/static/index.html/",
        "/static//index.html",
        "/static/./index.html",
        "/static/x/../index.html",
        "/static/../pages.py",
        "/static/%2e%2e/pages.py",
        "/static/..%2Fpages.py",
        "/static/%2Fetc%2Fpasswd",
        "/static/a%00b",
        "/static/" + "a" * 300,
        "/static/" + "a/" * 3000 + "b",
        "*",
        "/%",
        "/%zz",
        "/%ff",
    ],
)
async def test_unknown_paths_are_404(wire: Wire, path: str) -> None:
    """No slash normalisation, no other case, no way out of the static folder; never a 500."""
    method = "OPTIONS" if path == "*" else "GET"
    assert_empty(await wire.ask(method, path), 404)
    assert (await wire.ask("GET", "/health")).status == 200


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
async def test_unknown_paths_are_404_for_every_method(wire: Wire, method: str) -> None:
    """An unknown path is not there whatever is done to it, with or without a body."""
    assert_empty(await wire.ask(method, "/api/v1/nothing", b"{}"), 404)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/%68ealth", 200),
        ("GET", "/health%3Fx", 404),
        ("GET", "/health%2F", 404),
        ("GET", "/%2568ealth", 404),
        ("GET", "/api/v1/%73chema/%65v", 200),
        ("GET", "/static/index%2Ehtml", 200),
        ("DELETE", "/api/v1/%61dmin/wipe/all", 200),
        ("DELETE", "/%61%70%69/v1/admin/wipe/%61ll", 200),
    ],
)
async def test_paths_are_decoded_once(wire: Wire, method: str, path: str, status: int) -> None:
    """A percent-encoded spelling is the same route; decoding is not repeated."""
    assert (await wire.ask(method, path)).status == status


@pytest.mark.parametrize("target", ["/health?a=1&b", "/health?", "http://elsewhere/health"])
async def test_query_and_absolute_targets_are_the_path(wire: Wire, target: str) -> None:
    """Query strings are ignored everywhere, and so is the host of an absolute target."""
    assert (await wire.ask("GET", target)).status == 200


async def test_accept_and_content_type_are_ignored(wire: Wire) -> None:
    """JSON stays JSON whatever the client asks for or calls its body."""
    headers = [("Accept", "text/html"), ("Content-Type", "text/plain"), ("Accept-Encoding", "gzip")]
    answer = await wire.ask("POST", "/api/v1/replay", b"nonsense", headers)
    assert answer.header("content-type") == "application/json"
    assert answer.header("content-encoding") is None
    assert answer.data["code"] == "INVALID_JSON"


async def test_request_ids_are_fresh_and_never_echoed(wire: Wire) -> None:
    """An incoming id is ignored, on every kind of answer."""
    mine = "11111111-1111-4111-8111-111111111111"
    asked = [("GET", "/"), ("GET", "/nothing"), ("POST", "/health"), ("POST", "/api/v1/watch")]
    asked += [("GET", "/api/v1/schema/nothing"), ("DELETE", "/api/v1/admin/notification/x")]
    answers = [await wire.ask(m, p, headers=[("X-Request-ID", mine)]) for m, p in asked]
    assert len({answer.request_id for answer in answers} | {mine}) == len(asked) + 1


async def test_stream_headers(wire: Wire) -> None:
    """Exactly these, chunked, and nothing that names the software."""
    answer = await wire.ask("POST", "/api/v1/replay", REPLAY)
    headers = {name: value for name, value in answer.headers if name != "date"}
    assert headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
        "access-control-allow-origin": "*",
        "transfer-encoding": "chunked",
        "x-request-id": answer.request_id,
    }


async def test_http_1_0_is_served(shared: Client) -> None:
    """An old client gets its answer and the end of the connection."""
    async with wired(shared.running) as old:
        await old.send(b"GET /health HTTP/1.0\r\n\r\n")
        answer = await old.answer()
        assert (answer.status, answer.body) == (200, b'{"status":"ok"}')
        assert await old.rest() == b""


async def test_http_1_0_stream_ends_with_the_connection(shared: Client) -> None:
    """Chunks do not exist in HTTP/1.0: the frames come plain."""
    async with wired(shared.running) as old:
        await old.send(request("POST", "/api/v1/replay", REPLAY).replace(b"HTTP/1.1", b"HTTP/1.0"))
        answer = await old.answer()
        assert answer.header("transfer-encoding") is None
        assert answer.body.startswith(b"event: replay-control\ndata: {")
        assert answer.body.endswith(b"}\n\n")


async def test_pipelined_requests_are_answered_in_order(wire: Wire) -> None:
    """Requests sent without waiting are answered one after another, a stream among them."""
    await wire.send(
        request("GET", "/health")
        + request("POST", "/api/v1/replay", REPLAY)
        + request("GET", "/nothing")
    )
    assert (await wire.answer()).body == b'{"status":"ok"}'
    assert b"end_of_stream" in (await wire.answer()).body
    assert (await wire.answer()).status == 404


async def test_an_upgrade_is_declined(wire: Wire) -> None:
    """A client that would like another protocol is answered in this one."""
    headers = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
    assert (await wire.ask("GET", "/health", headers=headers)).status == 200
