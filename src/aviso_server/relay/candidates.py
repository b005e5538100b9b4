"""Candidate tables of the index: which groups a notification may be for.

A table compares one thing only, a choice, a number or a place, and may name too many groups but
never too few. The index then asks each group's filter.
"""

from collections.abc import Callable, Iterable
from math import inf, nextafter
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from aviso_server.core.constraint import Choice, Kind, NumberRange, Operand
from aviso_server.core.filter import Filter
from aviso_server.core.geometry import Box
from aviso_server.core.notification import Notification

if TYPE_CHECKING:
    import numpy as np

Member = TypeVar("Member")
Hull: TypeAlias = tuple[tuple[float, float], ...]
"""Low and high of each dimension, both included."""

_FEW = 12
"""Up to this many groups, each is asked. Measured: vectors pay from about 9 spans of numbers and
from about 40 places, and between the two neither costs more than some 15 us."""


class Group(Generic[Member]):
    """Subscribers that ask for exactly the same: matched once, rendered once, served together."""

    __slots__ = ("filter", "members")

    def __init__(self, request: Filter) -> None:
        self.filter = request
        self.members: set[Member] = set()


class Table(Protocol[Member]):
    """Groups, and which of them are worth asking."""

    def add(self, group: Group[Member]) -> None:
        """Add a group."""
        ...

    def discard(self, group: Group[Member]) -> None:
        """Remove a group that was added."""
        ...

    def candidates(self, notification: Notification) -> Iterable[Group[Member]]:
        """Every group that may match, and perhaps some that do not."""
        ...

    def __bool__(self) -> bool:
        """True while it holds groups."""
        ...


class Everyone(Generic[Member]):
    """Groups that are worth asking every time."""

    def __init__(self) -> None:
        self._groups: dict[Group[Member], None] = {}

    def add(self, group: Group[Member]) -> None:
        self._groups[group] = None

    def discard(self, group: Group[Member]) -> None:
        del self._groups[group]

    def candidates(self, notification: Notification) -> Iterable[Group[Member]]:  # noqa: ARG002 - all
        return self._groups

    def __bool__(self) -> bool:
        return bool(self._groups)


class Choices(Generic[Member]):
    """Groups that ask for some values of one field, found by the value."""

    def __init__(self, field: str, kind: Kind) -> None:
        self._field = field
        self._kind = kind
        # Most values are asked for by one group, and a table for each would be most of the memory.
        self._groups: dict[Operand, Group[Member] | dict[Group[Member], None]] = {}

    def add(self, group: Group[Member]) -> None:
        """Add a group under each of its values."""
        for value in self._values(group):
            held = self._groups.setdefault(value, group)
            if isinstance(held, dict):
                held[group] = None
            elif held is not group:
                self._groups[value] = {held: None, group: None}

    def discard(self, group: Group[Member]) -> None:
        for value in self._values(group):
            held = self._groups[value]
            if isinstance(held, dict):
                del held[group]
            if not held or held is group:
                del self._groups[value]

    def candidates(self, notification: Notification) -> Iterable[Group[Member]]:
        """Those that ask for the notification's value."""
        text = notification.identifier.get(self._field)
        value = None if text is None else self._kind.read(text)
        held = () if value is None else self._groups.get(value, ())
        return (held,) if isinstance(held, Group) else held

    def __bool__(self) -> bool:
        return bool(self._groups)

    def _values(self, group: Group[Member]) -> frozenset[Operand]:
        for constraint in group.filter.constraints:
            if isinstance(constraint, Choice) and constraint.field == self._field:
                return constraint.choices
        raise LookupError(self._field)


class Spans(Generic[Member]):
    """Groups that ask for a span, of numbers or of the map, compared all at once."""

    def __init__(
        self,
        hull: Callable[[Group[Member]], Hull],
        measure: Callable[[Notification], Hull | None],
    ) -> None:
        self._hull = hull
        self._measure = measure
        self._groups: dict[Group[Member], Hull] = {}
        self._columns: tuple[list[Group[Member]], np.ndarray, np.ndarray] | None = None
        """Groups, lows and highs as arrays; made when asked for after a change."""

    def add(self, group: Group[Member]) -> None:
        self._groups[group] = self._hull(group)
        self._columns = None

    def discard(self, group: Group[Member]) -> None:
        del self._groups[group]
        self._columns = None

    def candidates(self, notification: Notification) -> Iterable[Group[Member]]:
        """Those whose span the notification touches."""
        if len(self._groups) <= _FEW:
            return self._groups
        measured = self._measure(notification)
        if measured is None:
            return ()
        import numpy as np  # noqa: PLC0415 - loaded where many ask for spans, ``turns.load_arrays``

        groups, lows, highs = self._columns or self._arrange()
        low, high = np.array(measured).T
        touched = ((lows <= high) & (highs >= low)).all(axis=1)
        return [groups[i] for i in np.flatnonzero(touched)]

    def __bool__(self) -> bool:
        return bool(self._groups)

    def _arrange(self) -> "tuple[list[Group[Member]], np.ndarray, np.ndarray]":
        import numpy as np  # noqa: PLC0415 - as above

        table = np.array(list(self._groups.values()))
        self._columns = list(self._groups), table[:, :, 0].copy(), table[:, :, 1].copy()
        return self._columns


def number_table(constraint: NumberRange) -> Spans[Member]:
    """A table of groups that ask for a span of this constraint's field."""
    name, kind = constraint.field, constraint.kind

    def hull(group: Group[Member]) -> Hull:
        for found in group.filter.constraints:
            if isinstance(found, NumberRange) and found.field == name:
                low = -inf if found.low is None else _below(found.low)
                high = inf if found.high is None else _above(found.high)
                return ((low, high),)
        raise LookupError(name)

    def measure(notification: Notification) -> Hull | None:
        text = notification.identifier.get(name)
        value = None if text is None else kind.read(text)
        if value is None or isinstance(value, str):
            return None
        return ((_below(value), _above(value)),)

    return Spans(hull, measure)


def place_table() -> Spans[Member]:
    """A table of groups that ask for a place."""

    def hull(group: Group[Member]) -> Hull:
        if group.filter.spatial is None:
            raise LookupError("place")
        return _sides(group.filter.spatial.box)

    def measure(notification: Notification) -> Hull | None:
        return None if notification.geometry is None else _sides(notification.geometry.box)

    return Spans(hull, measure)


def _sides(box: Box) -> Hull:
    return ((box.min_lat, box.max_lat), (box.min_lon, box.max_lon))


def _below(number: float) -> float:
    """A double that is not above the number: large integers are not doubles themselves."""
    return nextafter(float(number), -inf)


def _above(number: float) -> float:
    return nextafter(float(number), inf)
