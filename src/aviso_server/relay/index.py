"""Which groups of subscribers a notification is for, without asking each of them.

Groups whose filters fix the same fields share a *shape*. For each shape the fixed texts of a
notification are looked up in one hash table, so the cost of matching grows with the number of
shapes and of matching groups, not with the number of subscribers. Constraints and spatial tests
are then decided on the groups found.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeAlias, TypeVar

from aviso_server.core.filter import Filter
from aviso_server.core.notification import Notification

Member = TypeVar("Member")
_Shape: TypeAlias = tuple[str, ...]
_Texts: TypeAlias = tuple[str | None, ...]


class Group(Generic[Member]):
    """Subscribers that ask for exactly the same."""

    __slots__ = ("exact_only", "filter", "members")

    def __init__(self, request: Filter) -> None:
        self.filter = request
        self.exact_only = not request.constraints and request.spatial is None
        """The hash table alone decides."""
        self.members: set[Member] = set()


class Index(Generic[Member]):
    """Groups by filter, found by notification."""

    def __init__(self) -> None:
        self._groups: dict[Filter, Group[Member]] = {}
        self._shapes: dict[_Shape, dict[_Texts, list[Group[Member]]]] = {}

    def __bool__(self) -> bool:
        """True while anyone is in it."""
        return bool(self._groups)

    def add(self, request: Filter, member: Member) -> None:
        """Put a member into the group of its filter."""
        group = self._groups.get(request)
        if group is None:
            group = self._groups[request] = Group(request)
            shape, texts = _key(request)
            self._shapes.setdefault(shape, {}).setdefault(texts, []).append(group)
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
        shape, texts = _key(request)
        bucket = self._shapes[shape][texts]
        bucket.remove(group)
        if not bucket:
            del self._shapes[shape][texts]
        if not self._shapes[shape]:
            del self._shapes[shape]

    def groups(self) -> Iterable[Group[Member]]:
        """All groups."""
        return tuple(self._groups.values())

    def matching(self, notification: Notification) -> Iterator[Group[Member]]:
        """The groups whose filter the notification matches."""
        get = notification.identifier.get
        for shape, table in self._shapes.items():
            for group in table.get(tuple(map(get, shape)), ()):
                if group.exact_only or group.filter.matches(notification):
                    yield group


def _key(request: Filter) -> tuple[_Shape, _Texts]:
    return tuple(name for name, _ in request.exact), tuple(text for _, text in request.exact)
