"""Every job once, on one Spark session, in a process of its own.

    python -m support.alljobs sc://127.0.0.1:15002 FOLDER

FOLDER has ``told.json`` with ``server`` (URL) and ``log`` (address file); what the jobs told goes
into ``outcome.json`` there.
"""

import json
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from aviso_server.core.schema import Catalogue
from aviso_server.lake.layout import Place
from aviso_server.lake.tombstones import append_tombstones
from aviso_server.pipeline import archived, history
from aviso_server.pipeline.archive.job import ArchiveJob, ArchiveOptions
from aviso_server.pipeline.archive.progress import ArchiveSnapshot
from aviso_server.pipeline.audit.job import AuditOptions
from aviso_server.pipeline.audit.job import run as audit
from aviso_server.pipeline.history.plan import question
from aviso_server.pipeline.ingest.files import files
from aviso_server.pipeline.ingest.job import IngestOptions
from aviso_server.pipeline.ingest.job import run as ingest
from aviso_server.pipeline.ingest.staging import FromFiles
from aviso_server.pipeline.live.expected import DAY_S, CyclePart
from aviso_server.pipeline.live.job import LiveJob, LiveOptions
from aviso_server.pipeline.maintain.job import MaintainOptions
from aviso_server.pipeline.maintain.job import run as maintain
from aviso_server.pipeline.maintain.plan import MaintainPolicy
from aviso_server.pipeline.replay.job import run as replay
from aviso_server.pipeline.replay.options import Format, ReplayFiles, ReplayOptions, ReplayServer
from aviso_server.pipeline.report.job import ReportOptions
from aviso_server.pipeline.report.job import run as report
from aviso_server.pipeline.sink.options import parse_options
from aviso_server.pipeline.spark.session import SparkOptions, spark_session
from aviso_server.settings import load
from tools.synth import Plan
from tools.synth.job import Options as SynthOptions
from tools.synth.job import run as synth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = Path(__file__).parents[2] / "examples" / "config.yaml"
PLAN = Plan(date(2026, 1, 1), days=2, count=6000, seed=8)
NORTH_SEA = "(50,-6,62,-6,62,14,50,14,50,-6)"
FEW = 40
"""Notifications that are published again."""

Told = dict[str, object]


class Jobs:
    """The jobs, in an order in which each finds what it needs."""

    def __init__(self, spark: "SparkSession", folder: Path, *, server: str, log: str) -> None:
        self._spark = spark
        self._folder = folder
        self._place = Place(str(folder / "lake"))
        self._third = Place(str(folder / "third"))
        self._server = server
        self._log = {"addressFile": log}
        self._catalogue: Catalogue = load(
            config_file=CONFIG, environ={}, cwd=folder, home=None
        ).catalogue

    def all(self) -> dict[str, Told]:
        """What each of them told."""
        steps: dict[str, Callable[[], Told]] = {
            "synth": self.synth,
            "maintain": self.maintain,
            "audit": lambda: self._audited(self._place, None),
            "report": self.report,
            "archived": self.archived,
            "history": self.history,
            "parquet": lambda: self._replayed("parquet"),
            "ndjson": lambda: self._replayed("ndjson"),
            "stored": lambda: self._ingested(lake=Place(str(self._folder / "second"))),
            "published": lambda: self._ingested(lake=None),
            "again": self.again,
            "with_log": self.with_log,
            "archive": self.archive,
            "third": lambda: self._audited(self._third, self._log),
            "live": self.live,
        }
        told = {}
        for name, step in steps.items():
            began = time.monotonic()
            told[name] = step()
            # Read by whoever looks into a test that takes too long.
            sys.stderr.write(f"{name}: {time.monotonic() - began:.1f} s\n")
        return told

    def synth(self) -> Told:
        """The lake that the other jobs work on."""
        outcome = synth(SynthOptions(plan=PLAN, lake=self._place))
        return dict(outcome.counts)

    def maintain(self) -> Told:
        """Every file written again, without what was deleted."""
        append_tombstones(self._place, [("mars", 10, 19)], kind="deleted")
        policy = MaintainPolicy(everything=True)
        outcome = maintain(self._spark, MaintainOptions(self._place, policy=policy))
        return {
            "hidden": outcome.rows_hidden,
            "problems": outcome.problems,
            "rewrites": len(outcome.plan.rewrites),
        }

    def report(self) -> Told:
        """The page and its tables."""
        options = ReportOptions(
            self._place,
            self._folder / "report.html",
            tables=Place(str(self._folder / "report")),
            schemas=self._catalogue.schemas,
        )
        return {"notifications": report(self._spark, options).notifications}

    def archived(self) -> Told:
        """All of the lake, counted by Spark."""
        rows = archived(self._spark, self._place).groupBy("event_type").count().collect()
        return {row["event_type"]: row["count"] for row in rows}

    def history(self) -> Told:
        """A constraint on typed columns, and an area."""
        schemas = self._catalogue.schemas
        steps = history(
            self._spark,
            "mars",
            lake=self._place,
            filter={"class": "od", "stream": "enfo", "step": {"lte": 24}},
            typed=True,
            schemas=schemas,
        )
        found = steps.agg(F.count("*").alias("rows"), F.max("step").alias("step")).collect()[0]
        areas = history(
            self._spark,
            "test_polygon",
            lake=self._place,
            filter={"polygon": NORTH_SEA},
            schemas=schemas,
        )
        return {**found.asDict(), "areas": areas.count()}

    def again(self) -> Told:
        """A part of the lake published to the server."""
        sink = parse_options({"url": self._server, "onReject": "fail"})
        options = ReplayOptions(
            question=question(
                "mars",
                lake=self._place,
                start=101,
                end=100 + FEW,
                schemas=self._catalogue.schemas,
            ),
            target=ReplayServer(target=sink, state=self._folder / "ledger"),
        )
        return {"rows": replay(self._spark, options).rows}

    def with_log(self) -> Told:
        """What the server took, read back from its log."""
        rows = history(self._spark, "mars", log=self._log, filter={"class": "od"})
        return {"rows": rows.count()}

    def archive(self) -> Told:
        """All that the server took, carried into a lake."""
        told: list[ArchiveSnapshot] = []
        ArchiveJob(
            self._spark, ArchiveOptions(self._third, self._log, once=True), tell=told.append
        ).run()
        return {"stage": told[-1].stage, "archived": told[-1].archived}

    def live(self) -> Told:
        """Both views over what the server has, then a cycle of which nothing ever comes."""
        now = int(time.time())
        seconds = range(now % DAY_S, now % DAY_S + 3600)
        options = LiveOptions(
            self._log,
            url=self._server,
            checkpoint=str(self._folder / "checkpoint"),
            # Every second, so something falls due between two runs however long they take.
            expected=tuple(CyclePart("test_polygon", "0000", "", str(n), n) for n in seconds),
            watermark_s=1,
            interval_s=1,
            once=True,
        )
        first, second = (LiveJob(self._spark, options).run() for _ in range(2))
        return {"notifications": first.notifications, "late": second.alerts["late"]}

    def _audited(self, place: Place, log: dict[str, str] | None) -> Told:
        found = audit(self._spark, AuditOptions(place, source=log))
        return {
            "complete": found.complete,
            "present": sum(item.tally.present for item in found.event_types),
            "deleted": sum(item.tally.deleted for item in found.event_types),
            "compared": sum(item.tally.compared for item in found.event_types),
        }

    def _replayed(self, format: Format) -> Told:  # noqa: A002 - as the job calls it
        options = ReplayOptions(
            question=question("test_polygon", lake=self._place, schemas=self._catalogue.schemas),
            target=ReplayFiles(path=str(self._folder / format), format=format),
        )
        outcome = replay(self._spark, options)
        return {"rows": outcome.rows, "files": outcome.files}

    def _ingested(self, *, lake: Place | None) -> Told:
        """What was replayed as CloudEvents, taken in."""
        server = parse_options({"url": self._server, "onReject": "fail"})
        options = IngestOptions(
            source=FromFiles(tuple(files([str(self._folder / "ndjson")])), "ndjson"),
            catalogue=self._catalogue,
            state=self._folder / "state",
            server=server if lake is None else None,
            lake=lake,
        )
        outcome = ingest(options, self._spark)
        return {"read": outcome.read, "added": outcome.added, "rejected": outcome.rejected}


def main(remote: str, folder: Path) -> None:
    """Run them through Spark Connect."""
    told = json.loads((folder / "told.json").read_text())
    with spark_session(SparkOptions(remote=remote), folder) as spark:
        outcome = Jobs(spark, folder, server=told["server"], log=told["log"]).all()
    (folder / "outcome.json").write_text(json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
