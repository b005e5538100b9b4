"""One browser and one server for the tests of the console, in each of two workers.

A new page costs a second of CPU, so tests share two: ``page`` for single modules, which keep no
state, ``fresh`` or ``console`` for the console itself, emptied after every test; and there is a
``profile`` for what a browser remembers.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext
from support.browser import Tab, chromium, profile, tab
from support.config import SCHEMAS, document
from support.console import Console, copies
from support.process import ServerProcess, server_process

from aviso_server.core.json import Json

SECOND = {"test_access", "test_map", "test_publish", "test_replay", "test_security"}
"""What the second of the two workers does; both have about as much to do."""
VERSIONED: dict[str, Json] = {
    "topic": {"base": "runs", "key_order": ["expver"]},
    "identifier": {
        "expver": {"type": "ExpverHandler", "default": "0001", "required": False},
    },
}


@pytest.hookimpl(tryfirst=True)  # xdist looks at groups in this very hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep what shares a browser in one worker of pytest-xdist."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "browser" in getattr(item, "fixturenames", ()):
            group = "browser-b" if item.path.stem in SECOND else "browser-a"
            item.add_marker(pytest.mark.xdist_group(group))
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A real Chromium, gone with the last test of this folder.

    Playwright's synchronous face leaves an event loop running in its thread, which asynchronous
    tests elsewhere could not share.
    """
    with chromium() as started:
        yield started


@pytest.fixture(scope="package")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """The profile that pages share: what one has loaded, the next has cached."""
    with profile(browser) as shared:
        yield shared


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server in memory, which all share: those that count have event types of their own."""
    schemas = {
        **SCHEMAS,
        **copies(
            "ev", "seen", "paused", "replaced", "tabs", "counted", "searched", "kept", "clicks"
        ),
        **copies("ev", "lane_a", "lane_b", "lane_c", "lane_d"),
        **copies("area", "clicked", "flood"),
        **copies("test_polygon", "drawn"),
        "runs": VERSIONED,
    }
    with server_process(document(schemas=schemas), tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture(scope="package")
def _modules(context: BrowserContext) -> Iterator[Tab]:
    with tab(context) as opened:
        yield opened


@pytest.fixture
def page(_modules: Tab, server: ServerProcess) -> Iterator[Tab]:
    """A page on the shared server's origin, for tests of single modules, which it imports.

    All tests share it. It has no document to speak of, and a test that goes elsewhere with it is
    followed by one that comes back.
    """
    address = f"{server.url}/static/icon.svg"
    if _modules.page.url != address:
        _modules.page.goto(address)
    _modules.forget()
    yield _modules
    _modules.check()
    _modules.forget()


@pytest.fixture(scope="package")
def _emptied(context: BrowserContext) -> Iterator[Tab]:
    with tab(context) as opened:
        yield opened


@pytest.fixture
def fresh(_emptied: Tab) -> Iterator[Tab]:
    """A page with nothing loaded yet; whatever a test does to it is undone after it."""
    _emptied.page.bring_to_front()  # behind another page it would hardly be painted
    try:
        yield _emptied
        _emptied.check()
    finally:
        _emptied.page.unroute_all(behavior="ignoreErrors")
        _emptied.page.emulate_media(reduced_motion="reduce", color_scheme="light")
        _emptied.page.mouse.move(0, 0)
        _emptied.page.goto("about:blank")
        _emptied.forget()


@pytest.fixture
def console(fresh: Tab, server: ServerProcess) -> Console:
    """The console of the shared server, on a page for one test."""
    return Console(fresh, server.url)
