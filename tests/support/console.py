"""The console as a person uses it: what to click, and what is to be seen."""

import json
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from playwright.sync_api import Locator, Page, expect
from support.browser import Tab
from support.config import SCHEMAS

from aviso_server.core.json import Json

WITHIN_MS = 60_000
"""Machines are shared: nothing is too late before this."""
_SHOWS = """(wanted) => {
  const rows = [...document.querySelectorAll("main .table-row:not([hidden])")];
  const seen = rows
    .filter((row) => row.checkVisibility())
    .sort((one, other) => one.dataset.index - other.dataset.index)
    .map((row) => Number(row.firstChild.textContent));
  const compared = seen.slice(0, Math.max(wanted.length, Math.min(seen.length, 7)));
  return JSON.stringify(compared) === JSON.stringify(wanted);
}"""
"""The rows from the top; a few more than wanted are compared, so that others are noticed."""


def copies(event_type: str, *names: str) -> dict[str, Json]:
    """More event types like one of the examples, each with a numbering that begins at 1."""
    schema = cast("dict[str, Any]", SCHEMAS[event_type])
    return {name: {**schema, "topic": {**schema["topic"], "base": name}} for name in names}


def notify(
    url: str, event_type: str, identifier: Mapping[str, Any], payload: Any = None, token: str = ""
) -> int:
    """Publish as a producer does; the sequence."""
    body = {"event_type": event_type, "identifier": identifier, "payload": payload}
    return int(_post(f"{url}/api/v1/notification", body, token)["sequence"])


def notify_many(url: str, items: Sequence[Mapping[str, Any]]) -> None:
    """Publish many at once, all of which must be good."""
    answer = _post(f"{url}/api/v1/notifications", list(items), "")
    assert answer["status"] == "success", answer


def _post(url: str, body: Any, token: str) -> Any:
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
        return json.load(response)


@dataclass
class Console:
    """One view of the console in a tab."""

    tab: Tab
    url: str

    @property
    def page(self) -> Page:
        """The page."""
        return self.tab.page

    @property
    def view(self) -> Locator:
        """The view that is shown, and of several streams the one that is."""
        return self.page.locator("main :is(.overview, .workspace):visible")

    def open(self, where: str) -> None:
        """Go to a view, such as ``live/mars``, and wait until the page is ready."""
        self.page.set_default_timeout(WITHIN_MS)
        self.page.goto(f"{self.url}/#{where}")
        view = where.partition("/")[0]
        self.page.locator(f'html[data-ready] body[data-view="{view}"]').wait_for()

    def press(self, name: str) -> None:
        """Click a button of the view."""
        self.view.get_by_role("button", name=name, exact=True).click()

    def field(self, label: str) -> Locator:
        """A control of the view by its label."""
        return self.view.get_by_label(label, exact=True)

    def state(self, text: str) -> None:
        """Wait until the stream is said to be so."""
        expect(self.view.locator(".strip .state")).to_contain_text(text, timeout=WITHIN_MS)

    def counted(self, number: int) -> None:
        """Wait until so many were received."""
        received = self.view.locator(".counters dd").first
        expect(received).to_have_text(f"{number:,}", timeout=WITHIN_MS)

    def shows(self, *sequences: int) -> None:
        """Wait until the table begins with these sequences, and has no others if it has room."""
        self.page.wait_for_function(_SHOWS, arg=list(sequences), timeout=WITHIN_MS)

    def says(self, text: str) -> None:
        """Wait for words of the server in the list of messages."""
        expect(self.view.locator(".notices li", has_text=text).first).to_be_visible(
            timeout=WITHIN_MS
        )

    def problem(self, field: str) -> Locator:
        """What is wrong with a field."""
        return self.view.locator(f'.field[data-field="{field}"] .problem')

    def snippet(self, tab: str) -> str:
        """The request in one of its spellings."""
        self.view.get_by_role("tab", name=tab, exact=True).click()
        return self.view.locator(".snippets code").inner_text()

    def click_map(self, *places: tuple[float, float]) -> None:
        """Click on places of the map, given as shares of its width and height."""
        box = self.view.locator("canvas").bounding_box()
        assert box is not None
        for x, y in places:
            self.page.mouse.click(box["x"] + box["width"] * x, box["y"] + box["height"] * y)

    def shapes(self, words: str) -> None:
        """Wait until the map says so of its shapes."""
        expect(self.view.locator(".map-summary")).to_have_text(words, timeout=WITHIN_MS)
