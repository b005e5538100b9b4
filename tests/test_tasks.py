"""Tasks end when they are told to, even if a library loses the first cancellation."""

import asyncio

import pytest

from aviso_server import tasks


async def test_a_lost_cancellation_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that meets the result which its task waits for is dropped by Python 3.11."""
    monkeypatch.setattr(tasks, "AGAIN_S", 0.01)
    loop = asyncio.get_running_loop()
    answers = [loop.create_future(), loop.create_future()]

    async def ask() -> None:
        for answer in answers:
            await asyncio.wait_for(answer, 60)

    asking = asyncio.create_task(ask())
    await asyncio.sleep(0)
    answers[0].set_result("an answer")
    async with asyncio.timeout(20):
        await tasks.end(asking)
    assert asking.cancelled()


async def test_those_that_ended_or_fail_are_taken_as_they_are() -> None:
    """Nothing is raised for them, and nothing is logged about them."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about))

    async def fail_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("late")

    done, failing = asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(fail_at_the_end())
    await done
    await tasks.end(done, failing)
    assert isinstance(failing.exception(), OSError)
    del failing
    assert not complaints
