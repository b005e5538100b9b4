"""The browser of these tests: a page that complains fails its test, pictures are small."""

import runpy
from io import BytesIO
from pathlib import Path
from typing import Literal

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import BrowserContext
from support.browser import Tab, tab


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ("console", "() => console.error('broken')"),
        ("console", "() => console.warn('broken')"),
        ("pageerror", "() => { setTimeout(() => { throw new Error('broken'); }); }"),
        ("pageerror", "() => { Promise.reject(new Error('broken')); }"),
    ],
)
def test_a_page_that_complains_fails_its_test(
    context: BrowserContext, event: Literal["console", "pageerror"], code: str
) -> None:
    """Errors, warnings and exceptions nobody caught are found, unless the test provoked them."""
    with tab(context) as opened:
        with opened.page.expect_event(event):
            opened.page.evaluate(code)
        with pytest.raises(AssertionError, match="broken"):
            opened.check()
        opened.expected.append("broken")


def test_pictures_are_small_and_look_like_the_page(page: Tab) -> None:
    """A picture has a palette, and no colour of it is far from what was on the page."""
    tool = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "pictures.py"))
    screenshot = page.page.screenshot()
    taken = tool["reduced"](screenshot)
    assert len(taken.getcolors()) <= tool["PALETTE"]
    apart = ImageChops.difference(
        taken.convert("RGB"), Image.open(BytesIO(screenshot)).convert("RGB")
    )
    bands = [band for band in apart.getextrema() if isinstance(band, tuple)]
    assert len(bands) == 3
    assert max(most for _, most in bands) < 16
