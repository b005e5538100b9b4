"""The hub's index finds exactly the groups whose filter matches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.draws import filters, notifications

from aviso_server.core.constraint import Kind, NumberRange
from aviso_server.core.filter import Filter
from aviso_server.core.notification import Notification
from aviso_server.relay import candidates
from aviso_server.relay.index import Index


@given(st.lists(filters(), max_size=12), st.lists(notifications(), max_size=12))
def test_index_agrees_with_the_filter(asked: list[Filter], stored: list[Notification]) -> None:
    """The index and the scalar filter give the same answer."""
    assert_agreement(asked, stored)


def assert_agreement(asked: list[Filter], stored: list[Notification]) -> None:
    """Index and filters name the same subscribers for every notification."""
    index: Index[int] = Index()
    for number, request in enumerate(asked):
        index.add(request, number)
    for notification in stored:
        found = {member for group in index.matching(notification) for member in group.members}
        assert found == {n for n, request in enumerate(asked) if request.matches(notification)}


@given(st.lists(filters(), max_size=12), st.lists(notifications(), max_size=12))
def test_vectors_agree_too(asked: list[Filter], stored: list[Notification]) -> None:
    """Tables compare by vectors when they are large; made to do so at any size, they agree."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(candidates, "_FEW", 0)
        assert_agreement(asked, stored)


def test_spans_of_integers_beyond_doubles() -> None:
    """Integers that no double can hold are compared exactly: the table may only be generous."""
    index: Index[int] = Index()
    for number in range(50):
        index.add(Filter((), (NumberRange("n", Kind.INT, low=2**60 + number),)), number)
    stored = Notification("ev", ("ev",), {"n": str(2**60 + 7)}, None, b"null")
    found = {m for group in index.matching(stored) for m in group.members}
    assert found == set(range(8))


@given(st.lists(filters(), min_size=1, max_size=12), st.data())
def test_leaving_restores_the_index(asked: list[Filter], data: st.DataObject) -> None:
    """Members that leave are found no more, and the last one out leaves nothing behind."""
    index: Index[int] = Index()
    for number, request in enumerate(asked):
        index.add(request, number)
    for number in data.draw(st.permutations(range(len(asked)))):
        assert index
        index.remove(asked[number], number)
        index.remove(asked[number], number)
        assert number not in {m for group in index.groups() for m in group.members}
    assert not index
    assert not index._shapes


def test_equal_filters_share_a_group() -> None:
    """Match once: subscribers who ask the same thing are one group."""
    index: Index[int] = Index()
    index.add(Filter((("region", "n"),)), 1)
    index.add(Filter((("region", "n"),)), 2)
    assert [group.members for group in index.groups()] == [{1, 2}]
