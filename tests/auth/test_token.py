"""Tokens: what is accepted, and that nothing else is."""

import json
from base64 import urlsafe_b64encode
from hashlib import sha256
from hmac import digest
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.access import SECRET
from support.clock import Clock
from support.keys import EC_KEY, RSA_KEY, pem

from aviso_server.auth.identity import Identity
from aviso_server.auth.keyring import LOOK_S, FixedKeys, PemFile
from aviso_server.auth.keys import Key, public_keys, shared_secret
from aviso_server.auth.refusal import INVALID_TOKEN, Unauthorized
from aviso_server.auth.token import (
    LEEWAY_S,
    MAX_LENGTH,
    MAX_REMEMBERED,
    TokenCheck,
    looks_like_token,
)

NOW_S = 1_772_618_400
MISSING = "Token is missing required user claims"


PUBLIC = public_keys(pem(RSA_KEY) + pem(EC_KEY))


def check(*keys: Key) -> TokenCheck:
    return TokenCheck([FixedKeys(*keys)], now_ns=lambda: NOW_S * 1_000_000_000)


SHARED = check(shared_secret(SECRET))
ASYMMETRIC = check(*PUBLIC)


def signed(claims: object, key: Any = SECRET, algorithm: str = "HS256", **header: Any) -> str:
    """A token with any claims at all."""
    body = json.dumps(claims).encode()
    return jwt.api_jws.encode(body, key, algorithm=algorithm, headers=header or None)


async def refusal(checks: TokenCheck, token: str) -> tuple[str, str]:
    with pytest.raises(Unauthorized) as caught:
        await checks.identify(token)
    return caught.value.message, caught.value.details


async def test_claims_become_an_identity() -> None:
    """Name, realm, roles and end; auth-o-tron's other claims are ignored."""
    token = signed(
        {
            "sub": "ecmwf-alice",
            "username": "alice",
            "realm": "ecmwf",
            "roles": ["a", "b"],
            "exp": NOW_S + 60,
            "iat": "yesterday",
            "nbf": NOW_S + 1000,
            "aud": "somebody",
            "iss": 5,
            "scopes": None,
            "attributes": ["x"],
        }
    )
    expected = Identity("alice", "ecmwf", ("a", "b"), (NOW_S + 60) * 1_000_000_000)
    assert await SHARED.identify(token) == expected


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"sub": "s"}, "s"),
        ({"username": "u", "sub": "s"}, "u"),
        ({"username": None, "sub": "s"}, "s"),
        ({"username": "", "sub": "s"}, "s"),
        ({"username": "a b/ü"}, "a b/ü"),
    ],
)
async def test_who_it_is(claims: dict[str, Any], name: str) -> None:
    """``username``, else ``sub``."""
    assert (await SHARED.identify(signed({**claims, "exp": NOW_S}))).username == name


@pytest.mark.parametrize("roles", [None, []])
async def test_no_roles(roles: object) -> None:
    """Null and nothing are the same."""
    token = signed({"sub": "s", "exp": NOW_S, "roles": roles, "realm": None})
    assert await SHARED.identify(token) == Identity("s", None, (), NOW_S * 1_000_000_000)


@pytest.mark.parametrize("claims", [{}, {"username": ""}, {"sub": None, "username": None}])
async def test_nobody(claims: dict[str, Any]) -> None:
    """A token must name a user."""
    assert (await refusal(SHARED, signed({**claims, "exp": NOW_S})))[0] == MISSING


@pytest.mark.parametrize(
    ("exp", "accepted"), [(NOW_S + 1, True), (NOW_S - 60, True), (NOW_S - 61, False), (0, False)]
)
async def test_expiry_has_a_minute_of_leeway(exp: int, accepted: bool) -> None:
    """Valid while exp >= now - 60 s."""
    token = signed({"sub": "s", "exp": exp})
    if accepted:
        assert (await SHARED.identify(token)).username == "s"
    else:
        assert await refusal(SHARED, token) == (INVALID_TOKEN, "expired")


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "s"},
        {"sub": "s", "exp": None},
        {"sub": "s", "exp": "1772618400"},
        {"sub": "s", "exp": 1772618400.5},
        {"sub": "s", "exp": True},
        {"sub": "s", "exp": -1},
        {"sub": "s", "exp": 10**30},
        {"sub": 5, "exp": NOW_S},
        {"username": ["s"], "exp": NOW_S},
        {"sub": "s", "exp": NOW_S, "realm": 5},
        {"sub": "s", "exp": NOW_S, "roles": "admin"},
        {"sub": "s", "exp": NOW_S, "roles": ["a", 5]},
        {"sub": "s", "exp": NOW_S, "roles": {"a": 1}},
        {"sub": "\ud800", "exp": NOW_S},
        ["sub"],
        "sub",
        None,
    ],
)
async def test_claims_of_another_shape_are_refused(claims: object) -> None:
    """Well signed, but no claims one can go by."""
    assert await refusal(SHARED, signed(claims)) == (INVALID_TOKEN, "malformed")


@pytest.mark.parametrize("token", ["", "a", "a.b", "a.b.c.d", "a..c", "a.b.c=", "é.b.c", "a.b.c"])
async def test_what_is_no_token(token: str) -> None:
    """The parts of a token are checked before anything is decoded."""
    assert await refusal(SHARED, token) == (INVALID_TOKEN, "malformed")


@pytest.mark.parametrize(
    "token",
    [
        signed({"sub": "s", "exp": NOW_S}, "another secret of more than 32 bytes!!"),
        signed({"sub": "s", "exp": NOW_S})[:-4] + "AAAA",
    ],
)
async def test_a_wrong_signature(token: str) -> None:
    """Another secret or other bytes."""
    assert await refusal(SHARED, token) == (INVALID_TOKEN, "signature")


async def test_a_short_secret_means_what_it_says() -> None:
    """Secrets of any length work as with the reference server; filling up changes nothing."""
    good = signed({"sub": "s", "exp": NOW_S}, b"short".ljust(32, b"\0"))
    assert (await check(shared_secret("short")).identify(good)).username == "s"
    assert (await refusal(check(shared_secret("shor")), good))[1] == "signature"


@pytest.mark.parametrize(("key", "algorithm"), [(RSA_KEY, "RS256"), (EC_KEY, "ES256")])
async def test_public_keys(key: Any, algorithm: str) -> None:
    """RS256 and ES256, each with its own kind of key."""
    token = signed({"sub": "s", "exp": NOW_S}, key, algorithm)
    assert (await ASYMMETRIC.identify(token)).username == "s"
    assert (await refusal(SHARED, token))[1] == "signature"


def forged(header: dict[str, Any], key: bytes) -> str:
    """A token made by hand: an HMAC over a header that says anything."""
    parts = [header, {"sub": "root", "exp": NOW_S + 60}]
    text = b".".join(urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=") for p in parts)
    signature = urlsafe_b64encode(digest(key, text, sha256)).rstrip(b"=")
    return (text + b"." + signature).decode()


@pytest.mark.parametrize("algorithm", ["HS256", "RS256", "ES256"])
@pytest.mark.parametrize(
    "key",
    [pem(RSA_KEY), pem(EC_KEY), b"", b"\0" * 32],
    ids=["rsa", "ec", "empty", "zeros"],
)
async def test_a_public_key_is_no_secret(algorithm: str, key: bytes) -> None:
    """The known attack: HMAC with the public key as its secret, under any name."""
    token = forged({"alg": algorithm, "typ": "JWT"}, key)
    assert (await refusal(ASYMMETRIC, token))[1] == "signature"
    assert (await refusal(check(*PUBLIC, shared_secret(SECRET)), token))[1] == "signature"


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "NONE", "nOnE", "HS384", "HS512", "PS256", "EdDSA", "", None, 5]
)
async def test_other_algorithms_do_not_exist(algorithm: object) -> None:
    """Unsigned tokens above all."""
    for key in (b"", SECRET.encode()):
        token = forged({"alg": algorithm}, key)
        assert (await refusal(SHARED, token))[0] == INVALID_TOKEN
        unsigned = token.rsplit(".", 1)[0] + "."
        assert (await refusal(SHARED, unsigned))[0] == INVALID_TOKEN


async def test_unknown_demands_are_refused() -> None:
    """A header may say that it must be understood; then it must."""
    token = signed({"sub": "s", "exp": NOW_S}, crit=["x"], x=1)
    assert (await refusal(SHARED, token))[0] == INVALID_TOKEN


@given(st.text(), st.binary(max_size=40))
async def test_no_text_is_accepted_or_breaks_the_check(text: str, noise: bytes) -> None:
    """Whatever comes, the answer is Unauthorized."""
    part = urlsafe_b64encode(noise).decode().rstrip("=")
    for token in (text, f"{part}.{part}.{part}"):
        assert (await refusal(SHARED, token))[0] == INVALID_TOKEN


@given(st.binary(max_size=60))
async def test_signed_noise_is_refused(noise: bytes) -> None:
    """A good signature over anything but claims."""
    token = jwt.api_jws.encode(noise, SECRET, algorithm="HS256")
    assert (await refusal(SHARED, token))[0] in (INVALID_TOKEN, MISSING)


async def test_deep_claims_do_not_break_the_check() -> None:
    """Nesting is refused, not followed to the end of the stack."""
    token = jwt.api_jws.encode(b"[" * 100_000, SECRET, algorithm="HS256")
    assert (await refusal(SHARED, token))[0] == INVALID_TOKEN
    assert looks_like_token(token)


async def test_a_good_signature_is_remembered_while_its_key_is_one(tmp_path: Path) -> None:
    """Not beyond its end, nor when the key was withdrawn; and never the bad ones."""
    clock, file, now_s = Clock(), tmp_path / "keys.pem", [NOW_S]
    file.write_bytes(pem(RSA_KEY) + pem(EC_KEY))
    checks = TokenCheck([PemFile(file, clock=clock)], now_ns=lambda: now_s[0] * 1_000_000_000)
    token = signed({"sub": "s", "exp": NOW_S}, RSA_KEY, "RS256")
    late = signed({"sub": "s", "exp": NOW_S - LEEWAY_S - 1}, RSA_KEY, "RS256")
    long = signed({"sub": "s" * MAX_LENGTH, "exp": NOW_S}, RSA_KEY, "RS256")
    assert checks.remembered(token) is None
    known = await checks.identify(token)
    assert checks.remembered(token) == known
    for unknown in (token[:-4] + "AAAA", late, "\udce9.x.y", "\ud800", ""):
        assert (await refusal(checks, unknown))[0] == INVALID_TOKEN
        assert checks.remembered(unknown) is None
    assert (await checks.identify(long)).username == "s" * MAX_LENGTH
    assert checks.remembered(long) is None
    now_s[0] += LEEWAY_S + 1
    assert checks.remembered(token) is None
    assert (await refusal(checks, token))[1] == "expired"
    now_s[0] = NOW_S
    assert checks.remembered(token) == known
    file.write_bytes(pem(EC_KEY))
    clock.now += LOOK_S
    assert checks.remembered(token) is None
    assert (await refusal(checks, token))[1] == "signature"


async def test_remembered_tokens_are_bounded() -> None:
    """When there are too many all are forgotten, and asked about again."""
    checks = check(shared_secret(SECRET))
    first = signed({"sub": "s", "exp": NOW_S})
    await checks.identify(first)
    for number in range(MAX_REMEMBERED):
        await checks.identify(signed({"sub": f"s{number}", "exp": NOW_S}))
    assert checks.remembered(first) is None
    assert len(checks._accepted) <= MAX_REMEMBERED
    assert (await checks.identify(first)).username == "s"
