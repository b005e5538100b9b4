"""A first journey through real sockets: notify, replay, watch."""

from support.config import settings
from support.server import connected
from support.sse import sequences


async def test_history_then_live() -> None:
    """A watch with a start delivers history, replay_completed, then live, each exactly once."""
    async with connected(settings()) as client:
        for value in range(3):
            await client.notify("ev", {"region": "n"}, payload=value)
        async with client.watch("ev", {"region": "n"}, from_id=2) as stream:
            history = await stream.until("replay_completed")
            assert [e.kind for e in history] == [
                "replay_started",
                "heartbeat",
                "replay",
                "replay",
                "replay_completed",
            ]
            await client.notify("ev", {"region": "s"})
            await client.notify("ev", {"region": "n"})
            live = await stream.until("live-notification")
            assert sequences(history + live) == [2, 3, 5]
