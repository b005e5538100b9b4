"""Filters that match nearly everything are not left to the server."""

from aviso_server.backends.jetstream.density import MAX_REMEMBERED, PAUSE, Densities


def test_a_dense_page_is_followed_by_reads_of_everything() -> None:
    """After it some pages are read whole; then the server is asked again, for logs change."""
    densities = Densities()
    assert densities.pays(("ev.n", "ev.n.>"))
    densities.note(("ev.n", "ev.n.>"), found=125, span=250)
    assert [densities.pays(("ev.n", "ev.n.>")) for _ in range(PAUSE + 2)] == [
        *[False] * PAUSE,
        True,
        True,
    ]
    assert densities.pays(("ev.s", "ev.s.>")), "others are not concerned"


def test_a_sparse_page_changes_nothing() -> None:
    """As long as most is left out, the server does it."""
    densities = Densities()
    densities.note(("ev.n", "ev.n.>"), found=124, span=250)
    assert densities.pays(("ev.n", "ev.n.>"))


def test_only_so_many_are_remembered() -> None:
    """The oldest are forgotten."""
    densities = Densities()
    for number in range(2 * MAX_REMEMBERED):
        densities.note((f"ev.{number}",), found=1, span=1)
    assert len(densities._pauses) == MAX_REMEMBERED
    assert densities.pays(("ev.0",))
    assert not densities.pays((f"ev.{2 * MAX_REMEMBERED - 1}",))
