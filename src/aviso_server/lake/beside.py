"""Work beside the archive, in a thread that goes on whatever happens.

Rules
- What fails ends a pass, never the thread: the next pass tries it again. A panic inside delta-rs,
  which is no ordinary exception, is no exception here.
- A trouble is told once, and so is its end: one that lasts for days must not fill a log.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Tell: TypeAlias = Callable[[str], None]


class Troubles:
    """What is wrong at the moment, by what it concerns."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._lasting: set[str] = set()
        self.count = 0
        """How often something was wrong."""

    def has(self, what: str, problem: str) -> None:
        """Something is wrong."""
        self.count += 1
        if what not in self._lasting:
            self._lasting.add(what)
            line = next(iter(problem.splitlines()), "")
            self._tell(f"{what}: {line}; it is tried again later")

    def over(self, what: str) -> None:
        """It went well."""
        if what in self._lasting:
            self._lasting.discard(what)
            self._tell(f"{what}: it works again")


Work: TypeAlias = Callable[[threading.Event], bool]
"""A pass, to be ended early by the event; whether there is more to do at once."""


@contextmanager
def beside(what: str, work: Work, *, troubles: Troubles, pause_s: float) -> Iterator[None]:
    """Repeat a pass while the block runs."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            more = False
            try:
                more = work(stop)
                troubles.over(what)
            except BaseException as error:  # noqa: BLE001 - delta-rs panics with one
                troubles.has(what, str(error) or type(error).__name__)
            if not more:
                stop.wait(pause_s)

    thread = threading.Thread(target=run, name=what, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
