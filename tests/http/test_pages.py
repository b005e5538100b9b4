"""The home page, its files and Swagger UI, and the headers they come with."""

import gzip
import mimetypes
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.config import settings
from support.raw import Wire, request, wired
from support.server import connected

from aviso_server.http.pages import PACKAGED_STATIC, home_page, swagger_asset, swagger_page
from aviso_server.http.release import Release

LINKS = {
    "client_documentation_url": "https://client.example/docs",
    "client_repository_url": "https://client.example/code",
    "server_documentation_url": "https://server.example/docs",
    "server_repository_url": "https://server.example/code",
}
UNREADABLE = "<h1>Index file not found</h1><p>Please check the static files configuration.</p>"


class References(HTMLParser):
    """Collects what a page loads and links to, and what a strict CSP would forbid."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.forbidden: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Sort the tag's references; inline script and style are forbidden."""
        given = {name: value or "" for name, value in attrs}
        if tag in ("link", "script", "img"):
            self.loaded.append(given.get("href") or given.get("src") or "")
        if tag == "a":
            self.linked.append(given["href"])
        if tag == "style" or (tag == "script" and "src" not in given):
            self.forbidden.append(tag)
        self.forbidden += [name for name in given if name == "style" or name.startswith("on")]


def page_of(folder: Path, text: str) -> Path:
    (folder / "index.html").write_text(text, encoding="utf-8")
    return folder


def test_version_and_links_are_filled_in_everywhere(tmp_path: Path) -> None:
    """Every occurrence is replaced; other braces are left alone."""
    folder = page_of(
        tmp_path,
        "{{SERVER_VERSION}} é {{SERVER_VERSION}} {{CLIENT_REPOSITORY_URL}} {{OTHER}} {{x}}",
    )
    assert home_page(folder, "1.2.3", LINKS) == (
        "1.2.3 é 1.2.3 https://client.example/code {{OTHER}} {{x}}"
    )


def test_values_are_escaped_and_not_filled_in_again(tmp_path: Path) -> None:
    """A link cannot break out of its attribute, and a placeholder inside one stays text."""
    folder = page_of(tmp_path, '<a href="{{SERVER_REPOSITORY_URL}}">')
    links = {"server_repository_url": "https://x.example/?a=1&b=\"'<>{{SERVER_VERSION}}"}
    assert home_page(folder, "1", links) == (
        '<a href="https://x.example/?a=1&amp;b=&quot;&#x27;&lt;&gt;{{SERVER_VERSION}}">'
    )


def test_an_unreadable_index_gives_a_page_all_the_same(tmp_path: Path) -> None:
    """A missing folder, a missing file and a file that is not text are all told the same way."""
    assert home_page(tmp_path / "nowhere", "1", LINKS) == UNREADABLE
    assert home_page(tmp_path, "1", LINKS) == UNREADABLE
    (tmp_path / "index.html").write_bytes(b"\xff\xfe")
    assert home_page(tmp_path, "1", LINKS) == UNREADABLE


def test_the_shipped_home_page_is_complete() -> None:
    """Title, version, Swagger UI and all four links are there; nothing is left unfilled."""
    page = home_page(PACKAGED_STATIC, "1.2.3", LINKS)
    assert "<title>ECMWF Aviso - Data Notification Service</title>" in page
    assert "1.2.3" in page
    assert "{{" not in page
    linked = References(page).linked
    assert "swagger-ui/" in linked
    assert set(LINKS.values()) <= set(linked)


async def test_the_shipped_home_page_loads_only_what_is_shipped(wire: Wire) -> None:
    """No inline script or style, no outside resource, no dangling file: a strict CSP can hold."""
    references = References((await wire.ask("GET", "/")).body.decode())
    assert references.forbidden == []
    assert references.loaded
    for name in references.loaded:
        assert re.match(r"static/@[0-9a-f]{16}/", name)
        assert (await wire.ask("GET", f"/{name}")).status == 200


async def test_the_home_page_names_every_module_at_once(wire: Wire) -> None:
    """A browser need not read one module to learn of the next."""
    loaded = References((await wire.ask("GET", "/")).body.decode()).loaded
    modules = PACKAGED_STATIC.rglob("*.js")
    names = {module.relative_to(PACKAGED_STATIC).as_posix() for module in modules}
    assert names <= {name.split("/", 2)[2] for name in loaded}


async def test_a_file_of_this_release_is_kept_for_ever_and_compressed(wire: Wire) -> None:
    """It is never asked for again; who does not take gzip gets the same file."""
    loaded = References((await wire.ask("GET", "/")).body.decode()).loaded
    path = next(f"/{name}" for name in loaded if name.endswith("main.js"))
    plain = await wire.ask("GET", path)
    small = await wire.ask("GET", path, headers=[("Accept-Encoding", "br, gzip")])
    refused = await wire.ask("GET", path, headers=[("Accept-Encoding", "gzip;q=0")])
    assert plain.body == refused.body == gzip.decompress(small.body)
    assert plain.body == (PACKAGED_STATIC / "console" / "main.js").read_bytes()
    assert (plain.header("content-encoding"), small.header("content-encoding")) == (None, "gzip")
    for answer in (plain, small):
        assert answer.header("cache-control") == "public, max-age=31536000, immutable"
        assert answer.header("vary") == "Accept-Encoding"
        assert answer.header("content-type") == "text/javascript; charset=utf-8"
        assert answer.header(POLICY) is not None


@pytest.mark.parametrize("digest", ["@0123456789abcdef", "@", "@x"])
async def test_a_page_of_another_release_goes_on_working(wire: Wire, digest: str) -> None:
    """During an upgrade a page may be of one server and its files of another; none is kept."""
    answer = await wire.ask("GET", f"/static/{digest}/console/main.js")
    assert (answer.status, answer.header("cache-control")) == (200, "no-cache")


def test_another_release_has_another_digest(tmp_path: Path) -> None:
    """Whatever changes, content or name, the address changes with it."""
    digests = set()
    for name, content in [("a.js", "1"), ("a.js", "2"), ("b.js", "2"), ("b.js", "")]:
        folder = tmp_path / f"{name}{content}"
        folder.mkdir()
        (folder / name).write_text(content)
        digests.add(Release(folder).digest)
    assert len(digests) == 4


def test_every_local_link_of_the_home_page_is_relative() -> None:
    """The page works behind a proxy that adds a path prefix."""
    linked = References(home_page(PACKAGED_STATIC, "1", LINKS)).linked
    local = [name for name in linked if name not in LINKS.values()]
    assert local
    assert all(re.match(r"[a-z#]", name) and "://" not in name for name in local)


def test_the_swagger_page_loads_only_assets_that_are_served() -> None:
    """Every reference is a served neighbour and nothing is inline."""
    references = References(swagger_page())
    assert references.forbidden == []
    assert len(references.loaded) == 6
    for name in references.loaded:
        assert swagger_asset(name) is not None


def test_swagger_reads_our_document_by_a_relative_reference_and_sends_nothing_elsewhere() -> None:
    """The document is found next door, and no public validator is asked about it."""
    asset = swagger_asset("swagger-initializer.js")
    assert asset is not None
    assert b'url: "../api-docs/openapi.json"' in asset[0]
    assert b"validatorUrl: null" in asset[0]


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
        ("swagger-ui-standalone-preset.js", "text/javascript; charset=utf-8"),
        ("swagger-ui.css", "text/css; charset=utf-8"),
        ("favicon-16x16.png", "image/png"),
        ("favicon-32x32.png", "image/png"),
    ],
)
def test_assets_have_their_content_type(name: str, content_type: str) -> None:
    """Each file of the whitelist is there and typed."""
    asset = swagger_asset(name)
    assert asset is not None
    assert asset[0]
    assert asset[1] == content_type


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "index.html",
        "LICENSE",
        "swagger-editor.js",
        "../__init__.py",
        "/etc/passwd",
        "static/swagger-ui.css",
        "SWAGGER-UI.CSS",
        "swagger-ui.css/",
        "swagger-ui.css\x00",
    ],
)
def test_nothing_outside_the_whitelist_is_served(name: str) -> None:
    """Names are looked up, never joined to a path by a client."""
    assert swagger_asset(name) is None


POLICY = "content-security-policy"
PROTECTING = {
    "cache-control": "no-cache",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
PAGES = [
    "/",
    "/static/icon.svg",
    "/swagger-ui/",
    "/swagger-ui/index.html",
    "/swagger-ui/swagger-ui.css",
]


@asynccontextmanager
async def serving_folder(folder: Path) -> AsyncIterator[Wire]:
    """A connection to a server with an operator's own static files."""
    chosen = settings({"application": {"static_files_path": str(folder)}})
    async with connected(chosen) as client, wired(client.running) as connection:
        yield connection


@pytest.fixture
def odd_machine() -> Iterator[None]:
    """A machine whose own table of file types is of no use for the web."""
    for ending in (".js", ".css", ".svg", ".json", ".html", ".png"):
        mimetypes.add_type("text/plain", ending)
    yield
    mimetypes.init()


@pytest.mark.parametrize("path", [*PAGES, "/api-docs/openapi.json"])
async def test_pages_and_files_have_protecting_headers(wire: Wire, path: str) -> None:
    """Nothing is guessed, nothing is revealed to others, and a new release shows at once."""
    answer = await wire.ask("GET", path)
    assert answer.status == 200
    assert {name: answer.header(name) for name in PROTECTING} == PROTECTING
    denied = (answer.header("permissions-policy") or "").split(", ")
    assert {"camera=()", "geolocation=()", "microphone=()", "usb=()"} <= set(denied)


def directives(policy: str | None) -> dict[str, str]:
    """A content security policy, by directive."""
    assert policy is not None
    return dict(part.split(" ", 1) for part in policy.split("; "))


@pytest.mark.parametrize("path", PAGES)
async def test_the_policy_allows_this_server_and_nothing_inline(wire: Wire, path: str) -> None:
    """It starts from nothing, and names no wildcard, no scheme of the network, no other host."""
    allowed = directives((await wire.ask("GET", path)).header(POLICY))
    assert allowed["script-src"] == allowed["connect-src"] == "'self'"
    for name in ("default-src", "base-uri", "form-action", "frame-ancestors"):
        assert allowed[name] == "'none'"
    assert not re.search(r"unsafe|\*|http|ws|\.", " ".join(allowed.values()))


async def test_only_swagger_may_write_markup(wire: Wire) -> None:
    """The home page has trusted types, and no policy of its own that would make any."""
    home = directives((await wire.ask("GET", "/")).header(POLICY))
    assert (home["require-trusted-types-for"], home["trusted-types"]) == ("'script'", "'none'")
    swagger = directives((await wire.ask("GET", "/swagger-ui/")).header(POLICY))
    assert "require-trusted-types-for" not in swagger


@pytest.mark.parametrize("path", ["/health", "/ready", "/api/v1/schema", "/api/v1/schema/nothing"])
async def test_answers_of_the_api_are_as_they_were(wire: Wire, path: str) -> None:
    """Headers for browsers are on pages and their files only."""
    names = {name for name, _ in (await wire.ask("GET", path)).headers}
    assert names == {"content-type", "content-length", "date", "x-request-id"}


async def test_an_operators_page_has_no_policy_of_ours(tmp_path: Path) -> None:
    """It may have inline scripts; the other headers cannot break it."""
    page_of(tmp_path, "<script>document.title = 'mine'</script>")
    async with serving_folder(tmp_path) as wire:
        for path in ("/", "/static/index.html"):
            answer = await wire.ask("GET", path)
            assert answer.body.startswith(b"<script>")
            assert answer.header(POLICY) is None
            assert {name: answer.header(name) for name in PROTECTING} == PROTECTING
        assert (await wire.ask("GET", "/swagger-ui/")).header(POLICY) is not None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("main.js", "text/javascript; charset=utf-8"),
        ("main.mjs", "text/javascript; charset=utf-8"),
        ("MAIN.JS", "text/javascript; charset=utf-8"),
        ("world.json", "application/json"),
        ("icon.svg", "image/svg+xml"),
        ("style.css", "text/css; charset=utf-8"),
        ("page.html", "text/html; charset=utf-8"),
        ("picture.png", "image/png"),
        ("app.webmanifest", "application/manifest+json"),
        ("paper.pdf", "application/pdf"),
        ("style.css.gz", "application/octet-stream"),
        ("no-ending", "application/octet-stream"),
    ],
)
async def test_files_are_what_they_are_on_every_machine(
    odd_machine: None, tmp_path: Path, name: str, kind: str
) -> None:
    """A browser that must not guess gets the right type, whatever the machine thinks."""
    (tmp_path / name).write_bytes(b"x")
    async with serving_folder(tmp_path) as wire:
        assert (await wire.ask("GET", f"/static/{name}")).header("content-type") == kind


@pytest.mark.parametrize("ending", [".gz", ".br"])
async def test_a_compressed_file_is_not_sent_in_place_of_another(
    tmp_path: Path, ending: str
) -> None:
    """Answers are never compressed, even where a folder has such files."""
    (tmp_path / "style.css").write_bytes(b"plain")
    (tmp_path / f"style.css{ending}").write_bytes(gzip.compress(b"other"))
    async with serving_folder(tmp_path) as wire:
        answer = await wire.ask(
            "GET", "/static/style.css", headers=[("Accept-Encoding", "gzip, br")]
        )
    assert (answer.body, answer.header("content-encoding")) == (b"plain", None)


async def test_an_unchanged_file_is_not_sent_again(tmp_path: Path) -> None:
    """A browser that asks with the file's tag gets 304, and the new file once there is one."""
    file = tmp_path / "main.js"
    file.write_text("export const answer = 41;")
    async with serving_folder(tmp_path) as wire:
        tag = (await wire.ask("GET", "/static/main.js")).header("etag")
        assert tag is not None
        ask = [("If-None-Match", tag)]
        await wire.send(request("GET", "/static/main.js", headers=ask))
        assert (await wire.answer(to="HEAD")).status == 304
        file.write_text("export const answer = 42; // changed")
        answer = await wire.ask("GET", "/static/main.js", headers=ask)
    assert (answer.status, answer.body) == (200, file.read_bytes())
