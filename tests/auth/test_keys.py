"""Keys: which are usable, and what each is for."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from jwt.algorithms import RSAAlgorithm
from support.keys import EC_KEY, RSA_KEY, jwk, pem

from aviso_server.auth.keys import BadKey, fitting, key_set, public_keys, shared_secret


def ids(body: list[Any]) -> list[str | None]:
    return [key.kid for key in key_set(json.dumps({"keys": body}).encode())]


def test_only_usable_keys_of_a_set_are_taken() -> None:
    """Public signing keys for RS256 and ES256; one bad key does not spoil the others."""
    private = json.loads(RSAAlgorithm.to_jwk(RSA_KEY))
    small = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - to be refused
    wide = ec.generate_private_key(ec.SECP384R1())
    body: list[Any] = [
        jwk(RSA_KEY, kid="rsa", use="sig", alg="RS256", key_ops=None),
        jwk(EC_KEY, kid="ec"),
        {**private, "kid": "private"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
        jwk(RSA_KEY, kid="encryption", use="enc"),
        jwk(RSA_KEY, kid="other-algorithm", alg="RS512"),
        jwk(RSA_KEY, kid="confused", alg="HS256"),
        jwk(small, kid="small"),
        jwk(wide, kid="wide"),
        {"kty": "RSA", "kid": "empty"},
        {"kty": 5},
        "nonsense",
        None,
    ]
    assert ids(body) == ["rsa", "ec"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"keys":{}}', b"\xff", b"[" * 100_000])
def test_what_is_no_key_set(body: bytes) -> None:
    """Refused as a whole."""
    with pytest.raises(BadKey):
        key_set(body)


def test_keys_are_pinned_to_their_algorithm() -> None:
    """A key fits tokens of its own algorithm, and of its own id where both have one."""
    keys = key_set(json.dumps({"keys": [jwk(RSA_KEY, kid="a"), jwk(EC_KEY)]}).encode())
    assert [key.algorithm for key in keys] == ["RS256", "ES256"]
    assert [key.kid for key in fitting(keys, "RS256", "a")] == ["a"]
    assert [key.kid for key in fitting(keys, "RS256", None)] == ["a"]
    assert fitting(keys, "RS256", "b") == ()
    assert len(fitting(keys, "ES256", "b")) == 1
    assert fitting(keys, "HS256", None) == ()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nonsense",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        RSA_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        pem(ed25519.Ed25519PrivateKey.generate()),
        pem(ec.generate_private_key(ec.SECP384R1())),
        pem(rsa.generate_private_key(public_exponent=65537, key_size=1024)),  # noqa: S505 - to be refused
    ],
    ids=["empty", "text", "damaged", "private", "another algorithm", "another curve", "short"],
)
def test_files_that_are_refused(text: bytes) -> None:
    """No key, a private key, or a key that is not supported."""
    with pytest.raises(BadKey):
        public_keys(text)


def test_a_public_key_is_no_shared_secret() -> None:
    """A mistake that would make the public key a password."""
    with pytest.raises(BadKey):
        shared_secret(pem(RSA_KEY).decode())
