"""How far an event type is archived, and whether the log continues from there. Pure.

Log and lake are two copies of one history, and an operator may restore either of them. A *mark*
says up to which sequence the lake has considered the log, and proves it: by the storage time of the
last notification among them, which no other history has at that sequence.

Rules (docs/decisions/0013-log-and-lake-agree.md)
- A log that ends before the mark has lost something, or is another one: nothing is stored in it.
- A log that has another notification at that place is another one, however far it reaches.
- A notification that the log no longer has proves nothing; its nearest older neighbour may still
  disprove it, for times never decrease with the sequence.
- An empty log contradicts nothing. It must continue above the mark.
"""

from dataclasses import dataclass

from aviso_server.core.moment import rfc3339


@dataclass(frozen=True, slots=True)
class Mark:
    """How far an event type is archived."""

    through: int = 0
    """Every sequence up to here has been considered; 0 before anything was archived."""
    record: int = 0
    """The last notification among them; 0 where none is known."""
    time_ns: int = 0
    """Its storage time."""


UNMARKED = Mark()


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The notification that the log has at the mark's last one, or the nearest below it."""

    sequence: int
    time_ns: int


def disagreement(
    mark: Mark, *, last: int, empty: bool, neighbour: Neighbour | None = None
) -> str | None:
    """Why a log that ends at ``last`` cannot be the one that was archived; None if it can."""
    if empty:
        return None
    if last < mark.through:
        return f"the log ends at sequence {last}, and the lake has it up to {mark.through}"
    if neighbour is None or not mark.record:
        return None
    same = neighbour.sequence == mark.record
    if neighbour.time_ns == mark.time_ns if same else neighbour.time_ns <= mark.time_ns:
        return None
    return (
        f"the log, which ends at sequence {last}, stored sequence {neighbour.sequence} at "
        f"{rfc3339(neighbour.time_ns)}, and the lake, which has it up to {mark.through}, stored "
        f"sequence {mark.record} at {rfc3339(mark.time_ns)}"
    )


def remedy(event_type: str) -> str:
    """What to do about it, for the reader of the error."""
    return (
        "one of them was restored from another copy or recreated. Nothing is stored until they "
        f"agree: see what is different with 'aviso-server pipeline recover {event_type}'"
    )
