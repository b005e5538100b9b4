"""The typed tables of a lake brought up to date, one event type after the other.

Nothing else waits for it: the archive has committed already, and whatever fails here is reported
and tried again in the next pass.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from time import monotonic

import pyarrow as pa
from deltalake.exceptions import DeltaError

from aviso_server.core.errors import AvisoError
from aviso_server.core.schema import Schema
from aviso_server.lake.beside import Tell, Troubles, beside
from aviso_server.lake.layout import Place
from aviso_server.lake.snapshot import EventTypeSnapshot, Snapshots, no_lake
from aviso_server.lake.typed.update import Updated, update_steps
from aviso_server.lake.typed.upkeep import Tidied, tidy_table

PAUSE_S = 60.0
"""Between two passes beside the archive: a table is about so far behind the lake."""


@dataclass(slots=True)
class Followed:
    """What a pass did to the table of an event type."""

    updated: Updated
    tidied: Tidied = field(default_factory=Tidied)
    problem: str | None = None
    """Why it could not be done, or not all of it."""

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.updated.rows or self.tidied != Tidied() or self.problem)


class TypedTables:
    """The tables, and what is known of those that need nothing."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._snapshots = Snapshots(place, 0.0, monotonic)
        self._doubtful = False
        """Whether the last pass was not whole: then tables are opened again."""
        self._settled: dict[str, tuple[Schema, int, int, int]] = {}
        """Event types whose table was found complete and clean, with what was seen of the lake:
        opening hundreds of tables in every pass would cost more than all the rest."""

    def follow(
        self, schemas: Iterable[Schema], *, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[Followed]:
        """One pass over event types that have a schema and are archived; LakeFailed if there is no
        lake. ``stop`` ends it between two steps."""
        snapshot = self._snapshots.since(monotonic(), anew=self._doubtful)
        if snapshot.index.version < 0:
            raise no_lake(self._place)
        self._doubtful, problems = True, False
        for schema in schemas:
            archived = snapshot.of(schema.event_type)
            seen = _seen(schema, archived)
            known = self._settled.get(schema.event_type)
            if schema.generic or not archived.through or known == seen:
                continue
            done = Followed(Updated(schema.event_type))
            try:
                for step in update_steps(self._place, schema, archived):
                    done.updated.add(step)
                    if stop():
                        return
                done.tidied = tidy_table(self._place, schema, archived)
            except (AvisoError, DeltaError, OSError, pa.ArrowException) as error:
                done.problem = next(iter(str(error).splitlines()), type(error).__name__)
            if not done.changed:
                self._settled[schema.event_type] = seen
            problems = problems or done.problem is not None
            yield done
        self._doubtful = problems


def _seen(schema: Schema, archived: EventTypeSnapshot) -> tuple[Schema, int, int, int]:
    days = 0 if archived.files is None else len(archived.files.days.unique())
    return schema, archived.through, archived.hidden.digest(), days


def following(
    place: Place, schemas: Sequence[Schema], *, tell: Tell, pause_s: float = PAUSE_S
) -> AbstractContextManager[None]:
    """Keep the tables up to the lake while the block runs."""
    tables, troubles = TypedTables(place), Troubles(tell)

    def work(stop: threading.Event) -> bool:
        if stop.wait(pause_s):  # before the archive has committed there is nothing to do
            return False
        for done in tables.follow(schemas, stop=stop.is_set):
            what = f"typed table of {done.updated.event_type}"
            if done.problem is None:
                troubles.over(what)
            else:
                troubles.has(what, done.problem)
        return True

    return beside("typed tables", work, troubles=troubles, pause_s=pause_s)
