"""Long work without holding the event loop: in turns, or aside in a thread.

One loop serves all clients. What is done on it must be short, so work of many small pieces is done
in turns between which others run, and one large piece is done in a thread. Both depend on the size
of the work, which bounds the time: tests can count turns, and no clock is read.

There is one thread. It shares the interpreter with the loop, which waits some milliseconds for its
share; with several threads it would wait for each.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TypeVar

TURN_BYTES = 16 * 1024
"""Worked on in one turn on the loop: dense coordinates take some 5 ms, other texts far less."""
PIECE_BYTES = 128
"""What a piece costs besides its size, however small it is: some 20 us if it is refused."""

_Piece = TypeVar("_Piece")
_Result = TypeVar("_Result")
_thread = ThreadPoolExecutor(1, thread_name_prefix="aviso-aside")
_arrays = False


class Turns:
    """Counts work on the loop, and lets others run when a turn is over."""

    def __init__(self) -> None:
        self._left = TURN_BYTES

    async def spend(self, size: int) -> None:
        """Note that a piece of this many bytes was worked on."""
        self._left -= size + PIECE_BYTES
        if self._left <= 0:
            self._left = TURN_BYTES
            await asyncio.sleep(0)


def turns_of(pieces: Iterable[_Piece], size: Callable[[_Piece], int]) -> Iterator[list[_Piece]]:
    """The pieces in runs, each of which is worked on in one turn, or is large."""
    run: list[_Piece] = []
    left = TURN_BYTES
    for piece in pieces:
        run.append(piece)
        left -= size(piece) + PIECE_BYTES
        if left <= 0:
            yield run
            run, left = [], TURN_BYTES
    if run:
        yield run


async def load_arrays() -> None:
    """Load numpy in the thread: before it is first used on the loop, which would wait for it."""
    global _arrays  # noqa: PLW0603 - a module is loaded once in a process
    if not _arrays:
        await asyncio.get_running_loop().run_in_executor(_thread, import_module, "numpy")
        _arrays = True


async def aside(size: int, work: Callable[[], _Result]) -> _Result:
    """Do a piece of work: here if it is small, else in the thread."""
    if size <= TURN_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_thread, work)
