"""The replay job: plan once, then write files or publish."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from aviso_server.pipeline.history.plan import HistoryPlan, make_plan
from aviso_server.pipeline.replay.files import check_new, write_files
from aviso_server.pipeline.replay.options import Progress, ReplayFiles, ReplayOptions, ReplayOutcome
from aviso_server.pipeline.replay.server import publish, server_outcome


def earlier_outcome(options: ReplayOptions, plan: HistoryPlan) -> ReplayOutcome | None:
    """What came of a replay to a server that is complete; AvisoError for what would fail at once.

    Asked before Spark is started, which may then not be needed.
    """
    if isinstance(options.target, ReplayFiles):
        check_new(options.target)
        return None
    return server_outcome(plan, options.target, chunk=options.chunk)


def run(
    spark: SparkSession,
    options: ReplayOptions,
    *,
    report: Callable[[Progress], None] = lambda _: None,
    plan: HistoryPlan | None = None,
) -> ReplayOutcome:
    """Do a replay; AvisoError if it cannot be done or continued.

    A caller that starts Spark for it may plan first, to find a wrong question sooner.
    """
    plan = make_plan(options.question) if plan is None else plan
    if isinstance(options.target, ReplayFiles):
        return write_files(spark, plan, options.target, chunk=options.chunk, report=report)
    return publish(spark, plan, options.target, chunk=options.chunk, report=report)
