"""One browser and one server for the tests of the console; each test gets a fresh page."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from support.browser import Tab, chromium, tab
from support.config import document
from support.process import ServerProcess, server_process


@pytest.hookimpl(tryfirst=True)  # xdist looks at groups in this very hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep what shares the browser in one worker of pytest-xdist."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A real Chromium, gone with the last test of this folder.

    Playwright's synchronous face leaves an event loop running in its thread, which asynchronous
    tests elsewhere could not share.
    """
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server in memory, for tests that can share it: they use event types of their own."""
    with server_process(document(), tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture
def page(browser: Browser, server: ServerProcess) -> Iterator[Tab]:
    """A page on the shared server's origin, with nothing of the console loaded yet.

    For tests of single modules: ``page.page.evaluate("import('/static/console/moments.js')...")``.
    """
    with tab(browser) as opened:
        opened.page.goto(f"{server.url}/static/icon.svg")
        yield opened
