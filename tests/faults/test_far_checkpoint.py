"""The archive with its lake and Spark's checkpoint in an object store, stopped and killed.

Spark reaches the store through hadoop-aws, which comes from Maven with half a gigabyte of Amazon's
own client. So this is part of ``make faults``, and conftest leaves it out otherwise.
"""

import asyncio
from pathlib import Path

import pyarrow.fs as pa_fs
import pytest
import yaml
from support import archive
from support.archive import configured_archive
from support.archived import assert_same
from support.config import document, on_jetstream
from support.log import SCHEMAS, fill, log_at
from support.nats import nats_server
from support.s3 import object_store

from aviso_server.core.json import Json
from aviso_server.lake.layout import CHECKPOINTS, Place
from aviso_server.lake.storage import files

TYPES = ("storm", "flood")
PACKAGES = "org.apache.hadoop:hadoop-aws:3.5.0"
"""Of the version of Hadoop that PySpark brings."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_checkpoint_in_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials are said once, for delta-rs; killed, stopped and started again, each sequence is
    archived once."""
    monkeypatch.setattr(archive, "PATIENCE_S", 900)
    brisk = ("--master", "local[2]", "--interval", "1s", "--max-records", "200")
    with nats_server(tmp_path / "nats") as server, object_store() as place:
        config = _configured(tmp_path / "config.yaml", server.url, place)
        _fill(server.url, 0, 100)
        with configured_archive(config, *brisk) as job:
            job.until(lambda line: line["archived"] >= 200)
            _fill(server.url, 100, 300)
            job.until(lambda line: line["archived"] >= 400)
            job.kill()
        before = _batches(place)
        assert before
        with configured_archive(config, *brisk) as job:
            _fill(server.url, 300, 350)
            job.until(lambda line: line["state"] == "running" and line["lag"] == 0)
            assert job.stop() == 0, job.errors
        # It went on with the same checkpoint instead of beginning another one.
        assert max(_batches(place)) > max(before)
        _fill(server.url, 350, 400)
        with configured_archive(config, "--once", *brisk[:2]) as job:
            assert job.wait() == 0, job.errors
        assert asyncio.run(assert_same(server.url, place, *TYPES)) == 800


def _configured(config: Path, url: str, place: Place) -> Path:
    lake: dict[str, Json] = {
        "path": place.path,
        "storage_options": dict(place.options),
        "spark_packages": [PACKAGES],
    }
    told = document({**on_jetstream(url), "lake": lake}, schemas=SCHEMAS)
    config.write_text(yaml.safe_dump(told))
    return config


def _fill(url: str, begin: int, end: int) -> None:
    async def fill_all() -> None:
        async with log_at(url) as log:
            for name in TYPES:
                await fill(log, name, range(begin, end))

    asyncio.run(fill_all())


def _batches(place: Place) -> list[int]:
    """The micro-batches that the checkpoint has as committed."""
    folder = files(place, CHECKPOINTS)
    found = folder.get_file_info(pa_fs.FileSelector("archive/commits"))
    return sorted(int(info.base_name) for info in found if info.base_name.isdigit())
