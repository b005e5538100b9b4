"""Shared fixtures: the event loop, silence from the logger, a NATS server to be harmed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings
from support.fuzz import FIXED, examples
from support.nats import NatsServer, nats_server
from support.workers import pytest_configure, pytest_xdist_make_scheduler

from aviso_server.lake.layout import Place

__all__ = ["pytest_configure", "pytest_xdist_make_scheduler"]

settings.register_profile(
    "suite",
    deadline=None,  # machines are shared: never assert a wall-clock time
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    max_examples=examples(100),
    derandomize=FIXED,
)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The event loop the server runs on."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(autouse=True, scope="session")
def _quiet() -> None:
    """Log records go nowhere unless a test asks for them."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(50),
        logger_factory=structlog.ReturnLoggerFactory(),
    )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Where a lake may be; nothing is there yet."""
    return Place(str(tmp_path / "lake"))


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A NATS server of the test's own, to be killed and paused."""
    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        yield running


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse to run when groups have no effect: every process would start a JVM and a browser."""
    if not getattr(config.option, "loadgroup", False):
        return
    grouped = (item.nodeid for item in items if item.get_closest_marker("xdist_group"))
    lost = next((name for name in grouped if "@" not in name), None)
    if lost is not None:
        raise pytest.UsageError(f"pytest-xdist does not see the group of {lost}")
