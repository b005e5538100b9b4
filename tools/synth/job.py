"""A synthetic history into a lake, a file of requests, or a server."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from aviso_server.core.errors import AvisoError
from aviso_server.lake.commit import archived_through, commit
from aviso_server.lake.files import Written
from aviso_server.lake.layout import NOTIFICATIONS, Place
from aviso_server.lake.outcome import discard
from aviso_server.lake.storage import LakeFailed
from aviso_server.lake.table import find
from aviso_server.pipeline.delivery.batches import SendingPace, batches
from aviso_server.pipeline.delivery.client import Client, Rejected
from aviso_server.pipeline.delivery.target import Target
from tools.synth.eventtypes import EVENT_TYPES
from tools.synth.generate import requests
from tools.synth.parallel import Task, side_by_side, write
from tools.synth.plan import Part, Plan, parts, tasks

Report: TypeAlias = Callable[[int], None]
"""Called with how many more notifications are done."""


@dataclass(frozen=True, slots=True)
class _Request:
    body: bytes


class SynthFailed(AvisoError):
    """The history could not be delivered; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to make and where it goes: exactly one of the three places."""

    plan: Plan
    lake: Place | None = None
    ndjson: Path | None = None
    server: Target | None = None
    processes: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was made."""

    counts: Mapping[str, int]
    """Notifications by event type."""
    seconds: float

    @property
    def count(self) -> int:
        """Of all notifications."""
        return sum(self.counts.values())


def run(options: Options, *, report: Report = lambda _: None) -> Outcome:
    """Make the history; SynthFailed, LakeFailed or BadPlan, and then nothing of it is visible.

    What a server has taken it keeps.
    """
    began = time.monotonic()
    made = parts(options.plan)
    if options.lake is not None:
        _to_lake(options, options.lake, made, report)
    elif options.ndjson is not None:
        _to_file(options, options.ndjson, made, report)
    elif options.server is not None:
        _to_server(options, options.server, made, report)
    counts: Counter[str] = Counter()
    for part in made:
        counts[part.event_type] += part.count
    return Outcome(counts, time.monotonic() - began)


def _to_lake(options: Options, place: Place, made: list[Part], report: Report) -> None:
    _refuse_full(place)
    plan, todo = options.plan, list(tasks(made))
    # The big ones first: the last to end then is a small one.
    todo.sort(key=lambda task: -sum(part.count for part in task))
    written: list[Written] = []
    try:
        work = partial(write, place, plan)
        for files in side_by_side(work, todo, processes=options.processes):
            written += files
            report(sum(item.rows for item in files))
    except BaseException as error:
        discard(place, [item.path for item in written])
        if isinstance(error, OSError):
            raise LakeFailed(f"cannot write to {place.path}: {error}") from error
        raise
    _commit(place, written, made)


def _refuse_full(place: Place) -> None:
    """Sequences begin at 1, so there must be none yet."""
    table = find(place, NOTIFICATIONS)
    if table is None:
        return
    for name in EVENT_TYPES:
        if through := archived_through(table, name):
            raise LakeFailed(
                f"the lake {place.path} has '{name}' up to sequence {through} already; "
                "a synthetic history needs a lake of its own"
            )


def _commit(place: Place, written: list[Written], made: list[Part]) -> None:
    marks = {part.event_type: part.first + part.count - 1 for part in made}
    added = commit(place, written, marks)
    if added.rows != sum(item.rows for item in written):
        raise LakeFailed(f"somebody else wrote to the lake {place.path} meanwhile")


def _to_file(options: Options, path: Path, made: list[Part], report: Report) -> None:
    """Requests of all event types in the order of time; the name appears with the whole file."""
    draft = path.with_name(f".{path.name}.part")
    try:
        with draft.open("wb") as file:
            work = partial(lines, options.plan)
            for text, count in side_by_side(work, _hours(made), processes=options.processes):
                file.write(text)
                report(count)
        draft.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise SynthFailed(f"cannot write {path}: {error.strerror or error}") from error
        raise


def lines(plan: Plan, task: Task, *, key: str | None = None) -> tuple[bytes, int]:
    """The requests of parts that happen together, one a line, and how many they are."""
    found = [piece for part in task for piece in requests(plan, part, key=key)]
    order = np.argsort(np.concatenate([ns for ns, _ in found]), kind="stable")
    texts = pa.concat_arrays([text for _, text in found]).take(pa.array(order))
    return "".join(f"{text}\n" for text in texts.to_pylist()).encode(), len(order)


def _hours(made: list[Part]) -> Iterator[Task]:
    """Parts of the same hour, ascending."""
    ordered = sorted(made, key=lambda part: part.hour)
    for _, together in groupby(ordered, key=lambda part: part.hour):
        yield list(together)


def _to_server(options: Options, server: Target, made: list[Part], report: Report) -> None:
    plan = options.plan
    key = f"synth-{plan.seed}-{plan.start:%Y%m%d}-{plan.days}-{plan.count}"
    client = Client(server)
    work = partial(lines, plan, key=key)
    pace = SendingPace(server.rate)
    try:
        for text, _ in side_by_side(work, _hours(made), processes=options.processes):
            for batch in batches(map(_Request, text.splitlines()), server.batch_size):
                pace.wait(len(batch))
                results = client.post([request.body for request in batch])
                refused = next((item for item in results if isinstance(item, Rejected)), None)
                if refused is not None:
                    raise SynthFailed(
                        f"{server.url} refuses a synthetic notification: {refused.message}; "
                        "does it serve examples/config.yaml?"
                    )
                report(len(batch))
    finally:
        client.close()
