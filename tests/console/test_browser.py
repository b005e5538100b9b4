"""The browser of these tests: a page that complains fails its test, pictures are small."""

from pathlib import Path
from typing import Literal

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Browser
from support.browser import PALETTE, Tab, tab


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
    browser: Browser, event: Literal["console", "pageerror"], code: str
) -> None:
    """Errors, warnings and exceptions nobody caught are found, unless the test provoked them."""
    with tab(browser) as opened:
        with opened.page.expect_event(event):
            opened.page.evaluate(code)
        with pytest.raises(AssertionError, match="broken"):
            opened.check()
        opened.expected.append("broken")


def test_pictures_are_small_and_look_like_the_page(
    page: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture has a palette, and no colour of it is far from what was on the page."""
    monkeypatch.setenv("AVISO_PICTURES", str(tmp_path))
    page.shoot("icon")
    page.page.screenshot(path=tmp_path / "full.png")
    taken = Image.open(tmp_path / "icon.png")
    assert taken.mode == "P"
    assert len(taken.getcolors() or []) <= PALETTE
    apart = ImageChops.difference(
        taken.convert("RGB"), Image.open(tmp_path / "full.png").convert("RGB")
    )
    bands = [band for band in apart.getextrema() if isinstance(band, tuple)]
    assert len(bands) == 3
    assert max(most for _, most in bands) < 16


def test_nobody_gets_pictures_unasked(
    page: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the variable nothing is written."""
    monkeypatch.delenv("AVISO_PICTURES", raising=False)
    monkeypatch.chdir(tmp_path)
    page.shoot("icon")
    assert list(tmp_path.iterdir()) == []
