"""Signing in, in a real browser: asked when the server wants it, kept in memory, forgotten."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect
from support.access import ADMIN, PROTECTED, READ_ONLY, WRITER, proxy_auth, token
from support.browser import Tab
from support.config import document
from support.console import WITHIN_MS, Console, notify
from support.process import ServerProcess, server_process


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that asks who is there."""
    config = document({"auth": proxy_auth()}, schemas=PROTECTED)
    with server_process(config, tmp_path_factory.mktemp("guarded")) as running:
        yield running


@pytest.fixture
def console(fresh: Tab, guarded: ServerProcess) -> Console:
    """The console of that server."""
    fresh.expected += ["401 (Unauthorized)", "403 (Forbidden)"]
    return Console(fresh, guarded.url)


def sign_in(console: Console, secret: str) -> None:
    console.page.get_by_label("Token", exact=True).last.fill(secret)
    console.page.locator("dialog").get_by_role("button", name="Sign in", exact=True).click()


def test_a_401_asks_and_the_stream_goes_on(console: Console) -> None:
    """A wrong token is reported in the box; with the right one the watch begins by itself."""
    reader = token(READ_ONLY)
    console.open("live/roles")
    console.press("Watch")
    dialog = console.page.locator("dialog")
    expect(dialog).to_be_visible(timeout=WITHIN_MS)
    expect(dialog).to_contain_text("Authentication is required for this stream")
    # This server takes no passwords, so none is asked for.
    expect(dialog.get_by_text("User and password")).to_be_hidden()
    sign_in(console, "not.a.token")
    expect(dialog.locator(".problem")).to_contain_text("Invalid or expired token")
    sign_in(console, reader)
    expect(dialog).to_be_hidden(timeout=WITHIN_MS)
    console.state("Live")
    notify(console.url, "roles", {"region": "a"}, token=token(WRITER))
    console.counted(1)
    assert "$AVISO_TOKEN" in console.snippet("curl")


def test_the_secret_is_nowhere_but_in_memory(console: Console) -> None:
    """Not in an address, not in storage, not in the document; a reload forgets it."""
    secret = token(READ_ONLY)
    asked: list[str] = []
    console.page.on("request", lambda request: asked.append(request.url))
    console.open("overview")
    console.page.get_by_role("button", name="Sign in").first.click()
    sign_in(console, secret)
    account = console.page.locator(".account")
    expect(account).to_have_text("reader", timeout=WITHIN_MS)
    kept = console.page.evaluate(
        "() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie,"
        " location.href, document.documentElement.outerHTML,"
        " [...document.querySelectorAll('input')].map((input) => input.value)])"
    )
    assert secret not in kept
    assert not any(secret in url for url in asked)
    console.page.reload()
    expect(account).to_have_text("Sign in", timeout=WITHIN_MS)


def test_who_is_signed_in_and_what_the_role_allows(console: Console) -> None:
    """The corner says so; the overview and its buttons follow the role."""
    console.open("overview")
    closed = console.view.locator('.card[data-event="roles"]')
    expect(closed).to_contain_text("Sign in to read this event type")
    console.page.get_by_role("button", name="Sign in").first.click()
    sign_in(console, token(WRITER))
    expect(closed.get_by_role("link", name="Publish")).to_be_visible(timeout=WITHIN_MS)
    expect(closed.get_by_role("link", name="Watch")).to_be_hidden()
    console.page.locator(".account").click()
    box = console.page.locator(".account-box")
    for text in ("writer", "ecmwf", "producer", "may readev, members", "may publishev, roles"):
        expect(box).to_contain_text(text)
    box.get_by_role("button", name="Sign out").click()
    expect(console.page.locator(".account")).to_have_text("Sign in")
    expect(closed.get_by_role("link", name="Publish")).to_be_hidden()


def test_an_administrator_is_told_so(console: Console) -> None:
    """The role that may remove everything."""
    console.open("overview")
    console.page.get_by_role("button", name="Sign in").first.click()
    sign_in(console, token(ADMIN))
    expect(console.page.locator(".account")).to_have_text("boss", timeout=WITHIN_MS)
    console.page.locator(".account").click()
    expect(console.page.locator(".account-box")).to_contain_text("administrator")


def test_a_refused_role_is_reported_and_not_asked_again(console: Console) -> None:
    """403 is no question of who: no box, the server's words."""
    console.open("overview")
    console.page.get_by_role("button", name="Sign in").first.click()
    sign_in(console, token(READ_ONLY))
    expect(console.page.locator(".account")).to_have_text("reader", timeout=WITHIN_MS)
    console.page.evaluate("location.hash = 'publish/roles'")
    console.field("region").fill("a")
    console.press("Publish")
    expect(console.view.locator(".trouble")).to_contain_text("write role", timeout=WITHIN_MS)
    expect(console.view.locator(".trouble")).to_be_in_viewport(ratio=1)
    expect(console.page.locator("dialog")).to_be_hidden()


def test_who_does_not_want_to_sign_in_is_left_alone(console: Console) -> None:
    """Cancel ends the watch; the open event type still works."""
    console.open("live/members")
    console.press("Watch")
    console.page.locator("dialog").get_by_role("button", name="Cancel").click()
    console.state("Not watching")
    console.field("event type").select_option("ev")
    console.press("Watch")
    console.state("Live")
