"""Subscribers that ask for exactly the same: matched once, rendered once, served together."""

from typing import Generic, TypeVar

from aviso_server.core.filter import Filter

Member = TypeVar("Member")


class Group(Generic[Member]):
    """The members behind one filter."""

    __slots__ = ("filter", "members")

    def __init__(self, request: Filter) -> None:
        self.filter = request
        self.members: set[Member] = set()
