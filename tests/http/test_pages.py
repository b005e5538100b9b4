"""The home page and Swagger UI (http.md 12)."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from aviso_server.http.pages import PACKAGED_STATIC, home_page, swagger_asset, swagger_page

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


def test_an_unreadable_index_gives_the_contracts_page(tmp_path: Path) -> None:
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


def test_the_shipped_home_page_loads_only_what_is_shipped() -> None:
    """No inline script or style, no outside resource, no dangling file: a strict CSP can hold."""
    references = References(home_page(PACKAGED_STATIC, "1", LINKS))
    assert references.forbidden == []
    assert references.loaded
    for name in references.loaded:
        assert name.startswith("static/")
        assert (PACKAGED_STATIC / name.removeprefix("static/")).is_file()
    style = (PACKAGED_STATIC / "style.css").read_text(encoding="utf-8")
    assert not re.search(r"@import|url\(", style)


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


def test_swagger_reads_our_document_by_a_relative_reference_and_tells_no_one() -> None:
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
