"""Ending tasks of the event loop, surely.

A cancellation can get lost in a library: ``asyncio.wait_for`` before Python 3.12 drops one that
meets its result, and nats-py asks every question through it. A task that missed it would hold a
shutdown up for ever, so it is cancelled until it has ended.
"""

import asyncio
from typing import Any

AGAIN_S = 5.0
"""Until a task that did not end is cancelled again: longer than any has to clean up."""


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until all have ended, however they do."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=AGAIN_S)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieved: an unretrieved failure would be logged
