"""A replay to another server: Spark reads in order, and this process alone delivers (delivery.py).

The range is pinned in the ledger when a replay begins: what is stored at the source later does not
become part of it.
"""

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import SparkSession

from aviso_server.core.json import compact
from aviso_server.pipeline.delivery.client import NotSent
from aviso_server.pipeline.delivery.delivery import Delivery, TooManyRejected
from aviso_server.pipeline.delivery.ledger import LEDGER, DeliveryLedger, LedgerHead, LedgerLine
from aviso_server.pipeline.history.frame import answer
from aviso_server.pipeline.history.plan import HistoryPlan
from aviso_server.pipeline.replay.failure import spark_failures
from aviso_server.pipeline.replay.options import (
    Progress,
    ReplayFailed,
    ReplayOutcome,
    ReplayServer,
    chunks,
)
from aviso_server.pipeline.replay.requests import items
from aviso_server.pipeline.source.options import read_options


def publish(
    spark: SparkSession,
    plan: HistoryPlan,
    server: ReplayServer,
    *,
    chunk: int,
    report: Callable[[Progress], None],
) -> ReplayOutcome:
    """Publish the answer of a plan, or what is left of it; AvisoError if it cannot continue."""
    ledger = open_ledger(plan, server, chunk)
    before = ledger.line.published
    most_rejected = None if server.skip_rejected else 0

    def show(line: LedgerLine) -> None:
        done, total = line.through - head.first + 1, head.last - head.first + 1
        report(Progress(max(done, 0), max(total, 0), line.published, before))

    head, event_type = ledger.head, plan.question.event_type
    try:
        with (
            Delivery(
                server.target, event_type, ledger, most_rejected=most_rejected, show=show
            ) as delivery,
            spark_failures(),
        ):
            _check_end(ledger, plan)
            show(ledger.line)
            for first, last in chunks(ledger.line.through + 1, head.last, head.chunk):
                piece = replace(plan, first=first, last=last)
                if piece.files or piece.source is not None:
                    rows = answer(spark, piece)
                    origin = head.job["source"]
                    delivery.send(items(rows, event_type, origin, first=first, last=last))
                delivery.reach(last)
            if not ledger.line.complete:
                delivery.finish()
    except NotSent as error:
        raise ReplayFailed(f"{error}. Repeat the command to resume from here") from error
    except TooManyRejected as error:
        raise ReplayFailed(
            f"{error}. With --skip-rejected the replay continues without such notifications"
        ) from error
    return _outcome(ledger, before)


def server_outcome(plan: HistoryPlan, server: ReplayServer, *, chunk: int) -> ReplayOutcome | None:
    """That of a replay that is complete; LedgerFailed if the ledger is that of another."""
    if not (server.state / LEDGER).exists():
        return None
    ledger = open_ledger(plan, server, chunk)
    ledger.close()
    return _outcome(ledger, ledger.line.published) if ledger.line.complete else None


def open_ledger(plan: HistoryPlan, server: ReplayServer, chunk: int) -> DeliveryLedger:
    """The ledger of a replay; LedgerFailed."""
    batch = server.target.batch_size
    return DeliveryLedger(
        server.state, LedgerHead(_job(plan, server), plan.first, plan.last, batch, chunk)
    )


def _outcome(ledger: DeliveryLedger, resumed: int) -> ReplayOutcome:
    head, line = ledger.head, ledger.line
    return ReplayOutcome(
        line.published, head.first, head.last, resumed=resumed, rejected=line.rejected
    )


def _check_end(ledger: DeliveryLedger, plan: HistoryPlan) -> None:
    if ledger.head.last > plan.newest and not ledger.line.complete:
        raise ReplayFailed(
            f"lake and log end at {plan.newest}, and this replay was to end at "
            f"{ledger.head.last}: they are not the ones that it began with"
        )


def _job(plan: HistoryPlan, server: ReplayServer) -> dict[str, str]:
    """What makes two runs the same replay; addresses come without credentials."""
    asked = plan.question
    options = read_options(asked.source(first=1, last=1))
    addresses = ",".join(options.access.addresses) or options.access.address_file
    return {
        "event_type": asked.event_type,
        "source": asked.place.path if asked.place else str(addresses),
        "filter": compact(dict(options.identifier or {})).decode(),
        "start": str(asked.start),
        "end": str(asked.end),
        "target": server.target.url,
    }
