"""Work in a thread that goes on whatever happens, and does not repeat itself."""

import threading

from aviso_server.lake.beside import Troubles, beside


class Panic(BaseException):
    """As delta-rs raises it."""


def test_a_thread_outlives_what_fails_in_it_and_says_so_once() -> None:
    """Errors and panics; their end is told, too."""
    told: list[str] = []
    over = threading.Event()
    passes = iter([OSError("no disk\nat all"), Panic(), OSError("still none"), None, Panic(), None])

    def work(stop: threading.Event) -> bool:
        failure = next(passes, None)
        if failure is not None:
            raise failure
        if len(told) == 3:
            over.set()
            stop.wait()
        return True

    troubles = Troubles(told.append)
    with beside("upkeep", work, troubles=troubles, pause_s=0.0):
        assert over.wait(60)
    assert told == [
        "upkeep: no disk; it is tried again later",
        "upkeep: it works again",
        "upkeep: Panic; it is tried again later",
        "upkeep: it works again",
    ]
    assert troubles.count == 4
