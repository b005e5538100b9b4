"""``GET /health`` and ``GET /ready``."""

from support.config import settings
from support.edge import Parts, edge
from support.faults import FaultyBackend
from support.raw import Wire, wired

from aviso_server.backends.backend import Fault


async def test_health_and_readiness_byte_for_byte(wire: Wire) -> None:
    """In memory there is nothing to wait for."""
    answer = await wire.ask("GET", "/health")
    assert (answer.status, answer.body) == (200, b'{"status":"ok"}')
    answer = await wire.ask("GET", "/ready")
    assert (answer.status, answer.body) == (200, b'{"status":"ready","backend_connected":true}')
    assert answer.header("content-type") == "application/json"
    assert (await wire.ask("HEAD", "/ready")).status == 200


class _Away(FaultyBackend):
    """A backend whose connection is down."""

    connected = False


async def test_readiness_follows_the_backend() -> None:
    """A backend that is away takes the server out of traffic and nothing more."""
    parts = Parts(_Away({}))
    async with edge(settings(), parts) as client, wired(client.running) as wire:
        answer = await wire.ask("GET", "/ready")
        assert answer.status == 503
        assert answer.body == b'{"status":"not_ready","backend_connected":false}'
        assert (await wire.ask("GET", "/health")).status == 200


async def test_shutdown_turns_readiness_off() -> None:
    """The backend is still there; the server is about to go."""
    async with edge(settings()) as client:
        client.running.stop.request()
        async with wired(client.running) as wire:
            answer = await wire.ask("GET", "/ready")
            assert answer.status == 503
            assert answer.body == b'{"status":"not_ready","backend_connected":true}'
        async with wired(client.running) as wire:
            answer = await wire.ask("GET", "/health")
            assert (answer.status, answer.header("connection")) == (200, "close")


class _Full(FaultyBackend):
    """A backend that is reached and takes nothing."""

    fault = Fault("store_full", "the store is full")


async def test_readiness_means_able_to_store() -> None:
    """Connected is not enough; the reason is given to those who ask for details."""
    async with edge(settings(), Parts(_Full({}))) as client, wired(client.running) as wire:
        answer = await wire.ask("GET", "/ready")
        assert (answer.status, answer.body) == (
            503,
            b'{"status":"not_ready","backend_connected":true}',
        )
        answer = await wire.ask("GET", "/ready?details")
        assert answer.status == 503
        assert answer.data["fault"] == {"reason": "store_full", "message": "the store is full"}
        assert (await wire.ask("GET", "/health")).status == 200
        overview = await wire.ask("GET", "/api/v1/overview")
        assert overview.data["ready"] is False
        assert overview.data["backend"]["fault"]["reason"] == "store_full"


async def test_details_of_a_ready_server(wire: Wire) -> None:
    """There is nothing to tell."""
    answer = await wire.ask("GET", "/ready?details")
    assert answer.body == b'{"status":"ready","backend_connected":true,"fault":null}'
