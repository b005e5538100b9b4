"""Cross-origin requests: the protocol's one header by default, allowed origins when configured."""

from collections.abc import AsyncIterator

import pytest
from support.config import settings
from support.raw import Answer, wired
from support.server import Client, connected

from aviso_server.http.app import ROUTES, Route

GOOD = "https://console.example"
BAD = "https://evil.example"
WATCH = b'{"event_type":"ev","identifier":{}}'


@pytest.fixture(scope="module")
async def open_to_one() -> AsyncIterator[Client]:
    """A server that one other origin may use."""
    allowed = settings({"application": {"cors_allowed_origins": [GOOD, "http://localhost:3000"]}})
    async with connected(allowed) as started:
        yield started


async def ask(
    client: Client, method: str, target: str, origin: str | None, body: bytes = b"", **more: str
) -> Answer:
    """One request as a browser sends it from a page of that origin."""
    headers = [] if origin is None else [("Origin", origin)]
    headers += [(name.replace("_", "-"), value) for name, value in more.items()]
    async with wired(client.running) as wire:
        if target.endswith(("watch", "replay")) and method == "POST":
            await wire.send(_head(target, headers, body))
            return await wire._head()
        return await wire.ask(method, target, body, headers)


def _head(target: str, headers: list[tuple[str, str]], body: bytes) -> bytes:
    lines = [f"POST {target} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def cors(answer: Answer) -> dict[str, str]:
    """The headers about origins."""
    return {n: v for n, v in answer.headers if n.startswith("access-control-") or n == "vary"}


def path(route: Route) -> str:
    """A path that the route matches."""
    inner = {"{path:.+}": "style.css", "{asset:[^/]+}": "index.css", "{event_type:[^/]+}": "ev"}
    shown = route.path.replace("{notification_id:[^/]+}", "ev@1")
    for pattern, value in inner.items():
        shown = shown.replace(pattern, value)
    return shown


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_by_default_only_streams_say_anything(shared: Client, route: Route) -> None:
    """OPTIONS is 405 and no answer but a stream's has a CORS header."""
    asked = await ask(shared, "OPTIONS", path(route), GOOD, Access_Control_Request_Method="POST")
    assert (asked.status, cors(asked)) == (405, {})
    if route.method == "GET":
        assert cors(await ask(shared, "GET", path(route), GOOD)) == {}


async def test_by_default_streams_are_for_all(shared: Client) -> None:
    """Whoever asks, and asks from wherever."""
    for origin in (None, GOOD):
        answer = await ask(shared, "POST", "/api/v1/watch", origin, WATCH)
        assert cors(answer) == {"access-control-allow-origin": "*"}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_allowed_origins_get_preflights_on_every_route(
    open_to_one: Client, route: Route
) -> None:
    """With the methods of the path and the headers the API reads; others get a bare 405."""
    target = path(route)
    asked = await ask(
        open_to_one, "OPTIONS", target, GOOD, Access_Control_Request_Method=route.method
    )
    assert asked.status == 204
    assert asked.request_id
    found = cors(asked)
    assert route.method in found.pop("access-control-allow-methods").split(", ")
    assert found == {
        "access-control-allow-origin": GOOD,
        "access-control-allow-headers": (
            "Authorization, Content-Type, Idempotency-Key, Traceparent"
        ),
        "access-control-expose-headers": "Retry-After, X-Request-ID",
        "access-control-max-age": "600",
        "vary": "Origin",
    }
    for origin in (BAD, None, "null", GOOD.upper(), f"{GOOD}:8443"):
        asked = await ask(
            open_to_one, "OPTIONS", target, origin, Access_Control_Request_Method=route.method
        )
        assert (asked.status, cors(asked)) == (405, {"vary": "Origin"})


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("GET", "/health", b"", 200),
        ("GET", "/api/v1/schema", b"", 200),
        ("GET", "/static/style.css", b"", 200),
        ("GET", "/no/such/path", b"", 404),
        ("PUT", "/health", b"", 405),
        ("POST", "/api/v1/notification", b"nonsense", 400),
        ("POST", "/api/v1/notification", b'{"event_type":"ev","identifier":{"region":"n"}}', 200),
        ("POST", "/api/v1/watch", WATCH, 200),
        ("DELETE", "/api/v1/admin/notification/ev@99", b"", 404),
    ],
)
async def test_answers_are_for_allowed_origins(
    open_to_one: Client, method: str, target: str, body: bytes, status: int
) -> None:
    """Successes, streams and refusals can be read by a page that is allowed, and by no other."""
    answer = await ask(open_to_one, method, target, GOOD, body)
    assert answer.status == status
    assert cors(answer) == {
        "access-control-allow-origin": GOOD,
        "access-control-expose-headers": "Retry-After, X-Request-ID",
        "vary": "Origin",
    }
    for origin in (BAD, None):
        answer = await ask(open_to_one, method, target, origin, body)
        assert (answer.status, cors(answer)) == (status, {"vary": "Origin"})


async def test_options_without_a_preflights_headers_is_405(open_to_one: Client) -> None:
    """It is no question of a browser; unknown paths stay unknown."""
    assert (await ask(open_to_one, "OPTIONS", "/health", GOOD)).status == 405
    asked = await ask(open_to_one, "OPTIONS", "/nothing", GOOD, Access_Control_Request_Method="GET")
    assert asked.status == 404


async def test_a_star_is_any_origin() -> None:
    """The same answer for all, so caches need not tell them apart."""
    async with connected(settings({"application": {"cors_allowed_origins": ["*"]}})) as client:
        answer = await ask(client, "GET", "/health", BAD)
        assert cors(answer) == {
            "access-control-allow-origin": "*",
            "access-control-expose-headers": "Retry-After, X-Request-ID",
        }
        asked = await ask(client, "OPTIONS", "/health", BAD, Access_Control_Request_Method="GET")
        assert (asked.status, cors(asked)["access-control-allow-methods"]) == (204, "GET, HEAD")
