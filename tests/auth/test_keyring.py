"""Where keys come from; rotated ones are noticed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.clock import Clock
from support.keys import EC_KEY, OTHER_EC_KEY, RSA_KEY, jwk, pem

from aviso_server.auth.keyring import FRESH_S, LOOK_S, PAUSE_S, STALE_S, KeySet, PemFile
from aviso_server.auth.keys import Key
from aviso_server.auth.outbound import Failed
from aviso_server.auth.refusal import AUTH_AWAY, Unavailable


class KeyService:
    """Serves a key set, counts the fetches, fails when told to."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.keys = list(keys)
        self.fetched = 0
        self.away = False

    async def __call__(self) -> bytes:
        self.fetched += 1
        if self.away:
            raise Failed("away")
        return json.dumps({"keys": self.keys}).encode()


async def test_a_replaced_file_is_noticed(tmp_path: Path) -> None:
    """After a few seconds the new keys count and the old ones do not."""
    clock, file = Clock(), tmp_path / "keys.pem"
    file.write_bytes(pem(RSA_KEY))
    keys = PemFile(file, clock=clock)
    assert len(await keys.find("RS256", None)) == 1
    file.write_bytes(pem(EC_KEY))
    assert await keys.find("ES256", None) == ()
    clock.now += LOOK_S
    assert len(await keys.find("ES256", "any")) == 1
    assert await keys.find("RS256", None) == ()


async def test_a_broken_file_leaves_the_keys(tmp_path: Path) -> None:
    """A file that is being written, or is gone, locks nobody out."""
    clock, file = Clock(), tmp_path / "keys.pem"
    file.write_bytes(pem(RSA_KEY))
    keys = PemFile(file, clock=clock)
    for spoil in (lambda: file.write_bytes(b"half"), file.unlink):
        spoil()
        clock.now += LOOK_S
        assert len(await keys.find("RS256", None)) == 1


async def test_an_old_key_set_vouches_for_no_key() -> None:
    """What it holds is said without fetching, so only while it need not be fetched."""
    clock = Clock()
    keys = KeySet(KeyService(jwk(EC_KEY, kid="1")), clock=clock)
    (key,) = await keys.find("ES256", None)
    assert keys.holds(key)
    assert not keys.holds(Key("HS256", b"secret"))
    clock.now += FRESH_S
    assert not keys.holds(key)


async def test_a_key_set_is_fetched_once() -> None:
    """Many tokens, one fetch; tokens of another algorithm need none."""
    service = KeyService(jwk(EC_KEY, kid="1"))
    keys = KeySet(service, clock=Clock())
    assert await keys.find("HS256", None) == ()
    assert service.fetched == 0
    for _ in range(10):
        assert len(await keys.find("ES256", "1")) == 1
    assert service.fetched == 1


async def test_a_rotated_key_is_picked_up() -> None:
    """A token that names an unknown key makes the set be fetched again, at once."""
    clock, service = Clock(), KeyService(jwk(EC_KEY, kid="1"))
    keys = KeySet(service, clock=clock)
    await keys.find("ES256", "1")
    clock.now += PAUSE_S
    service.keys = [jwk(OTHER_EC_KEY, kid="2")]
    assert [key.kid for key in await keys.find("ES256", "2")] == ["2"]
    assert await keys.find("ES256", "1") == ()


async def test_made_up_key_ids_are_no_flood() -> None:
    """Unknown ids fetch the set once in a few seconds, however many come."""
    clock, service = Clock(), KeyService(jwk(EC_KEY, kid="1"))
    keys = KeySet(service, clock=clock)
    for number in range(100):
        assert await keys.find("ES256", f"made-up-{number}") == ()
    assert service.fetched == 1
    clock.now += PAUSE_S
    await keys.find("ES256", "made-up")
    assert service.fetched == 2


async def test_old_sets_are_fetched_again() -> None:
    """A revoked key is no longer accepted, although every token names it."""
    clock, service = Clock(), KeyService(jwk(EC_KEY, kid="1"))
    keys = KeySet(service, clock=clock)
    await keys.find("ES256", "1")
    service.keys = []
    clock.now += FRESH_S
    assert await keys.find("ES256", "1") == ()


async def test_an_outage_is_bridged_for_a_while() -> None:
    """Known keys serve on while the set cannot be fetched, but not for ever."""
    clock, service = Clock(), KeyService(jwk(EC_KEY, kid="1"))
    keys = KeySet(service, clock=clock)
    await keys.find("ES256", "1")
    service.away = True
    clock.now += STALE_S - 1
    assert len(await keys.find("ES256", "1")) == 1
    clock.now += 1
    with pytest.raises(Unavailable) as caught:
        await keys.find("ES256", "1")
    assert caught.value.message == AUTH_AWAY
    service.away = False
    clock.now += PAUSE_S
    assert len(await keys.find("ES256", "1")) == 1


async def test_without_any_key_nobody_can_be_identified() -> None:
    """A key service that was never reached is a 503, not a wrong password."""
    service = KeyService()
    service.away = True
    keys = KeySet(service, clock=Clock())
    for _ in range(3):
        with pytest.raises(Unavailable):
            await keys.find("RS256", None)
    assert service.fetched == 1


async def test_a_key_service_that_hangs_holds_up_one_request_only() -> None:
    """While one request waits for the new set, others go by the keys known so far."""
    clock, service = Clock(), KeyService(jwk(EC_KEY, kid="1"))
    asked, go = asyncio.Event(), asyncio.Event()

    async def fetch() -> bytes:
        if service.fetched:
            asked.set()
            await go.wait()
        return await service()

    keys = KeySet(fetch, clock=clock)
    await keys.find("ES256", "1")
    clock.now += FRESH_S
    waiting = asyncio.create_task(keys.find("ES256", "1"))
    await asked.wait()
    assert len(await keys.find("ES256", "1")) == 1
    go.set()
    assert len(await waiting) == 1
