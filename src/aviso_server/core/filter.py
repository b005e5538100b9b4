"""The filter: which notifications a watch or replay asked for (docs/schema.md#filters).

Rules
- A filter is compiled once per request and means the same on history and on live notifications.
- It has exact texts, constraints and at most one spatial test, and all of them must hold.
- Exact texts compare with the stored canonical text of the field, whether or not the field is a
  topic token. A field that a notification does not have never matches.
- Spatial fields are never compared as text.

Theory of operation
``matches`` decides one notification. ``select`` decides a batch: the cheap scalar tests one by one,
then the spatial test once, vectorised, on those that are left. Both give the same answer (a
property test draws filters and records). The two parts can be asked separately, because the spatial
test of large places is too long for an event loop. Filters are hashable values, so that subscribers
with equal filters share one entry in the hub.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, TypeAlias

from aviso_server.core.constraint import Constraint
from aviso_server.core.notification import Entry, Notification, Record

if TYPE_CHECKING:
    from aviso_server.core.spatial import Spatial

_Test: TypeAlias = Callable[[Notification], bool]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Filter:
    """The compiled identifier of a watch or replay request; equal requests are equal filters."""

    exact: tuple[tuple[str, str], ...] = ()
    """Field and canonical text, in name order."""
    constraints: tuple[Constraint, ...] = ()
    """In field name order."""
    spatial: "Spatial | None" = None
    _scalar: _Test | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_scalar", _scalar_test(self.exact, self.constraints))

    @property
    def any_texts(self) -> bool:
        """Whether texts and numbers do not matter."""
        return self._scalar is None

    def matches(self, notification: Notification) -> bool:
        """True when the notification is asked for."""
        return self.matches_texts(notification) and self.matches_place(notification)

    def matches_texts(self, notification: Notification) -> bool:
        """True when its texts and numbers are asked for: all but the spatial test."""
        return self._scalar is None or self._scalar(notification)

    def matches_place(self, notification: Notification) -> bool:
        """True when its place is asked for: the spatial test, which may take long."""
        return self.spatial is None or self.spatial.matches(notification.geometry)

    def select(self, entries: Iterable[Entry]) -> list[Entry]:
        """The entries asked for, in order; unreadable ones are kept, to be reported in place."""
        return self.select_places(self.select_texts(entries))

    def select_texts(self, entries: Iterable[Entry]) -> list[Entry]:
        """The first part of ``select``: all but the spatial test."""
        kept = list(entries)
        if (test := self._scalar) is not None:
            kept = [e for e in kept if not isinstance(e, Record) or test(e.notification)]
        return kept

    def select_places(self, entries: list[Entry]) -> list[Entry]:
        """The second part of ``select``: the spatial test, which may take long (``work``)."""
        if self.spatial is None or not entries:
            return entries
        return list(compress(entries, _spatial_mask(self.spatial, entries)))

    def work(self, entry: Entry) -> int:
        """What the spatial test of an entry may cost, in comparisons of edges."""
        return self.work_on(entry.notification) if isinstance(entry, Record) else 0

    def work_on(self, notification: Notification) -> int:
        """What the spatial test of a notification may cost, in comparisons of edges."""
        return 0 if self.spatial is None else self.spatial.work(notification.geometry)


def _spatial_mask(spatial: "Spatial", entries: Sequence[Entry]) -> list[bool]:
    readable = [e.notification.geometry for e in entries if isinstance(e, Record)]
    decided = iter(spatial.select(readable).tolist())
    return [next(decided) if isinstance(e, Record) else True for e in entries]


def _scalar_test(
    exact: tuple[tuple[str, str], ...], constraints: tuple[Constraint, ...]
) -> _Test | None:
    """One closure for all scalar tests; None when there is nothing to test."""
    wanted = dict(exact).items()
    tests = tuple((c.field, c.test) for c in constraints)

    def exactly(notification: Notification) -> bool:
        return wanted <= notification.identifier.items()

    def constrained(notification: Notification) -> bool:
        get = notification.identifier.get
        for name, test in tests:
            text = get(name)
            if text is None or not test(text):
                return False
        return True

    if not tests:
        return exactly if exact else None
    if not exact:
        return constrained
    return lambda notification: exactly(notification) and constrained(notification)
