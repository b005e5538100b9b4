"""docs/source.md is true: its options, its columns, its examples."""

import asyncio
import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from support.config import on_jetstream, settings
from support.nats import nats_server
from support.server import connected

from aviso_server.core.json import Json
from aviso_server.pipeline.source.columns import SPARK
from aviso_server.pipeline.source.options import KNOWN

PAGE = (Path(__file__).parents[3] / "docs" / "source.md").read_text()


def _table(heading: str) -> list[tuple[str, ...]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return [tuple(cell.strip() for cell in row) for row in rows]


def test_every_option_is_described() -> None:
    """And none that does not exist."""
    described = [name for row in _table("Options") for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(described) == sorted(KNOWN)


def test_every_column_is_described() -> None:
    """With its type, in order."""
    described = [
        (name, row[1]) for row in _table("Columns") for name in re.findall(r"`(\w+)`", row[0])
    ]
    assert described == [(item.name, item.dataType.simpleString()) for item in SPARK]


MARS: dict[str, Json] = {
    "topic": {"base": "mars", "key_order": ["class", "stream"]},
    "identifier": {
        "class": {"type": "StringHandler", "required": False},
        "stream": {"type": "StringHandler", "required": False},
    },
}


async def test_the_examples_run(spark: SparkSession, tmp_path: Path) -> None:
    """As they stand on the page, but for addresses and folders."""
    names: dict[str, Any] = {"spark": spark}
    with nats_server(tmp_path / "nats") as store:
        chosen = settings(on_jetstream(store.url), schemas={"mars": MARS})
        async with connected(chosen) as client:
            for n in range(3):
                await client.notify("mars", {"class": "od", "stream": "oper"}, payload=n)
            places = {
                "nats://localhost:4222": store.url,
                "http://localhost:8000": client.running.url,
                '"out"': f'"{tmp_path / "out"}"',
                '"checkpoint"': f'"{tmp_path / "checkpoint"}"',
            }
            for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
                code = re.sub("|".join(places), lambda found: places[found[0]], example)
                await asyncio.to_thread(exec, code, names)
            counts = [
                await asyncio.to_thread(names["notifications"].count),
                await asyncio.to_thread(names["archive"].count),
                await asyncio.to_thread(lambda: spark.read.parquet(f"{tmp_path}/out").count()),
            ]
    assert counts == [3, 3, 3]
