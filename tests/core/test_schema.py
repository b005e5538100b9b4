"""The catalogue: strict and generic mode, names, the public view."""

import pytest
from support.config import settings

from aviso_server.core.errors import InvalidRequest
from aviso_server.core.schema import Catalogue

CONFIGURED = settings().catalogue


@pytest.mark.parametrize("name", ["", "-a", "a b", "a.b", "é", "a*", "_a", "a\n"])
def test_generic_names(name: str) -> None:
    """An event type without schema must be a plain name."""
    with pytest.raises(InvalidRequest) as caught:
        Catalogue(strict=False).find(name)
    assert caught.value.message == (
        f"event_type '{name}' is invalid. It must match [A-Za-z0-9][A-Za-z0-9_-]*"
    )


def test_resolving_admin_names() -> None:
    """Exact, then ignoring case, then the stream name."""
    assert CONFIGURED.resolve("extreme") == "extreme"
    assert CONFIGURED.resolve("EXTREME") == "extreme"
    assert CONFIGURED.resolve("diss") == "diss2"
    assert CONFIGURED.resolve("POLYGON") == "test_polygon"
    assert CONFIGURED.resolve("made_up") is None
    assert CONFIGURED.resolve("MADE_UP", ["made_up"]) == "made_up"


def test_labels_are_bounded() -> None:
    """Metrics never carry a name that a client made up."""
    assert CONFIGURED.label("ev") == "ev"
    assert CONFIGURED.label("made_up") == "generic"
