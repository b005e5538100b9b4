"""Which groups of subscribers a notification is for, without asking each of them.

Groups whose filters fix the same fields share a *shape*. For each shape the fixed texts of a
notification are looked up in one hash table. What is found there is a bucket: groups that ask
for nothing more match at once; the others sit in candidate tables by the first further thing
they ask for, a choice, a span of numbers or a place. So the cost of matching grows with the
number of shapes and of candidates, hardly with the number of subscribers.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeAlias, TypeVar

from aviso_server.core.constraint import Choice, NumberRange
from aviso_server.core.filter import Filter
from aviso_server.core.notification import Notification
from aviso_server.relay.candidates import Choices, Everyone, Group, Table, number_table, place_table

Member = TypeVar("Member")
_Shape: TypeAlias = tuple[str, ...]
_Texts: TypeAlias = tuple[str | None, ...]

_PLAIN = "plain"
_PLACE = "place"


class Index(Generic[Member]):
    """Groups by filter, found by notification."""

    def __init__(self) -> None:
        self._groups: dict[Filter, Group[Member]] = {}
        self._shapes: dict[_Shape, dict[_Texts, dict[Hashable, Table[Member]]]] = {}

    def __bool__(self) -> bool:
        """True while anyone is in it."""
        return bool(self._groups)

    def add(self, request: Filter, member: Member) -> None:
        """Put a member into the group of its filter."""
        group = self._groups.get(request)
        if group is None:
            group = self._groups[request] = Group(request)
            shape, texts = _fixed(request)
            bucket = self._shapes.setdefault(shape, {}).setdefault(texts, {})
            key = _kind(request)
            table = bucket.get(key)
            if table is None:
                table = bucket[key] = _table(request)
            table.add(group)
        group.members.add(member)

    def remove(self, request: Filter, member: Member) -> None:
        """Take a member out; harmless when it is not in."""
        group = self._groups.get(request)
        if group is None:
            return
        group.members.discard(member)
        if group.members:
            return
        del self._groups[request]
        shape, texts = _fixed(request)
        bucket = self._shapes[shape][texts]
        key = _kind(request)
        bucket[key].discard(group)
        if not bucket[key]:
            del bucket[key]
        if not bucket:
            del self._shapes[shape][texts]
        if not self._shapes[shape]:
            del self._shapes[shape]

    def groups(self) -> Iterable[Group[Member]]:
        """All groups."""
        return tuple(self._groups.values())

    def matching(self, notification: Notification) -> Iterator[Group[Member]]:
        """The groups whose filter the notification matches."""
        for group in self.matching_texts(notification):
            if group.filter.matches_place(notification):
                yield group

    def matching_texts(self, notification: Notification) -> Iterator[Group[Member]]:
        """The same but for spatial tests, which are left to be made."""
        get = notification.identifier.get
        for shape, buckets in self._shapes.items():
            bucket = buckets.get(tuple(map(get, shape)))
            if bucket is None:
                continue
            for key, table in bucket.items():
                candidates = table.candidates(notification)
                if key is _PLAIN:
                    yield from candidates
                    continue
                for group in candidates:
                    if group.filter.matches_texts(notification):
                        yield group


def _fixed(request: Filter) -> tuple[_Shape, _Texts]:
    return tuple(name for name, _ in request.exact), tuple(text for _, text in request.exact)


def _kind(request: Filter) -> Hashable:
    """Which table a filter belongs to, beyond its fixed texts."""
    match request.constraints:
        case (Choice(field, kind, _), *_):
            return "choice", field, kind
        case (NumberRange(field, kind), *_):
            return "range", field, kind
    return _PLAIN if request.spatial is None else _PLACE


def _table(request: Filter) -> Table[Member]:
    match request.constraints:
        case (Choice(field, kind, _), *_):
            return Choices(field, kind)
        case (NumberRange() as first, *_):
            return number_table(first)
    return Everyone() if request.spatial is None else place_table()
