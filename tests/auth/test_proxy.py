"""Trusted-proxy mode."""

import time

import pytest
from support.access import SECRET, WRITER, token

from aviso_server.auth.keyring import FixedKeys
from aviso_server.auth.keys import shared_secret
from aviso_server.auth.proxy import TrustedProxy
from aviso_server.auth.refusal import MalformedHeader, Unauthorized
from aviso_server.auth.token import TokenCheck

PROXY = TrustedProxy(TokenCheck([FixedKeys(shared_secret(SECRET))], now_ns=time.time_ns))


async def test_the_token_alone_decides() -> None:
    """A bearer token is checked here; anything else is malformed."""
    assert (await PROXY.identify(f"Bearer {token(WRITER)}")).username == "writer"
    with pytest.raises(Unauthorized, match="Invalid or expired token"):
        await PROXY.identify("Bearer a.b.c")
    with pytest.raises(MalformedHeader):
        await PROXY.identify("Basic dTpw")
    await PROXY.close()
