"""Servers with metrics, and reading their page as Prometheus would."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from support.config import settings

from aviso_server.core.json import Json
from aviso_server.server.serve import Running
from aviso_server.settings import Settings
from aviso_server.telemetry.exposition import render
from aviso_server.telemetry.metrics import Metrics

Sample = tuple[str, frozenset[tuple[str, str]]]
"""Name and labels."""


@dataclass(frozen=True)
class Page:
    """The values of one page."""

    text: str
    types: Mapping[str, str]
    values: Mapping[Sample, float]

    def value(self, name: str, **labels: str) -> float:
        """One value, which must be there."""
        return self.values[name, frozenset(labels.items())]

    def named(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        """All values of a name, by labels."""
        return {labels: value for (found, labels), value in self.values.items() if found == name}

    def total(self, name: str) -> float:
        """The sum over all labels."""
        return sum(self.named(name).values())

    def growing(self) -> dict[Sample, float]:
        """What must never fall: counters, and all of a histogram."""
        endings = ("_total", "_bucket", "_count", "_sum")
        return {key: value for key, value in self.values.items() if key[0].endswith(endings)}

    def since(self, earlier: "Page") -> dict[Sample, float]:
        """What has changed, and by how much; of histograms only their counts, of what goes on
        by itself nothing.

        How long something took is not for a test to say.
        """
        changed = {}
        for key, value in self.values.items():
            if key[0].startswith(("process_", "aviso_loop_lag_")) or key[0].endswith(
                ("_bucket", "_seconds_sum")
            ):
                continue
            if difference := value - earlier.values.get(key, 0.0):
                changed[key] = difference
        return changed


def parsed(text: str) -> Page:
    """A page from its text."""
    types, values = {}, {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        types[name] = family.type
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in values, f"{key} twice"
            values[key] = sample.value
    return Page(text, types, values)


def shown(metrics: Metrics) -> Page:
    """What a scrape would see, without a listener and the process series."""
    assert metrics.cells is not None
    return parsed(render(metrics.cells.snapshot(), []).decode())


def moved(name: str, amount: float = 1.0, /, **labels: str) -> dict[Sample, float]:
    """One change, as ``Page.since`` shows it."""
    return {(name, frozenset(labels.items())): amount}


async def scrape(url: str) -> Page:
    """The page at an address."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert response.status == 200
        return parsed(await response.text())


def counting(
    overrides: Mapping[str, Json] | None = None, schemas: Mapping[str, Json] | None = None
) -> Settings:
    """Settings with metrics on a free port, which a configuration file cannot ask for."""
    on: dict[str, Json] = {"metrics": {"enabled": True, "port": 9090}}
    parsed_settings = settings({**on, **(overrides or {})}, schemas=schemas)
    free = parsed_settings.metrics.model_copy(update={"port": 0})
    return replace(parsed_settings, metrics=free)


def page_url(running: Running) -> str:
    """Where a server in this process shows its metrics."""
    return f"http://127.0.0.1:{running.metrics_port}/metrics"
