"""Keys that tokens are checked with, each pinned to the one algorithm it is for.

A key never meets a token of another algorithm: a public key is no HMAC secret and a secret signs
no RS256 token, whatever a token's header says. Private and symmetric keys in a key set, short
RSA keys and other curves are left out.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWTError
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.utils import is_pem_format, is_ssh_key

from aviso_server.core.json import UNREADABLE

Algorithm: TypeAlias = Literal["HS256", "RS256", "ES256"]
ALGORITHMS: tuple[Algorithm, ...] = ("HS256", "RS256", "ES256")

MIN_RSA_BITS = 2048
"""Shorter ones can be broken and RFC 7518 forbids them."""
MAX_KEYS = 64
"""Taken from one set or file: a token without ``kid`` is tried on each."""

_PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.DOTALL)


class BadKey(Exception):
    """A configured key cannot be used; the message says why, without the key."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key and the algorithm it is for."""

    algorithm: Algorithm
    material: bytes | RSAPublicKey | EllipticCurvePublicKey
    kid: str | None = None
    """The id by which tokens name it, where it has one."""


class _Jwk(msgspec.Struct, frozen=True):
    """What decides whether a key of a set is used; its numbers are read later."""

    kty: str
    alg: str | None = None
    use: str | None = None
    kid: str | None = None
    crv: str | None = None
    d: msgspec.Raw | None = None
    """Only a private key has it."""


class _Set(msgspec.Struct, frozen=True):
    keys: list[msgspec.Raw]


def shared_secret(text: str) -> Key:
    """The key of HS256 tokens; BadKey for what is plainly a public key."""
    secret = text.encode()
    if is_pem_format(secret) or is_ssh_key(secret):
        raise BadKey("auth.jwt_secret is a PEM or SSH key; set auth.public_key_file instead")
    # HMAC itself fills short secrets with zeros, so this changes no signature. It keeps PyJWT from
    # warning on every token about a secret that the operator was warned about at the start.
    return Key("HS256", secret.ljust(32, b"\0"))


def public_keys(pem: bytes) -> tuple[Key, ...]:
    """Every public key in a PEM file, in order; BadKey if there is none or one is unfit."""
    blocks = _PEM.findall(pem)
    if not blocks:
        raise BadKey("no '-----BEGIN PUBLIC KEY-----' block")
    try:
        loaded = [load_pem_public_key(block) for block in blocks[:MAX_KEYS]]
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadKey("a public key cannot be read") from error
    return tuple(_pinned(key, None) for key in loaded)


def key_set(body: bytes) -> tuple[Key, ...]:
    """The usable keys of a JWKS document; BadKey when it is none."""
    try:
        listed = msgspec.json.decode(body, type=_Set).keys
    except UNREADABLE as error:
        raise BadKey("the answer is not a JSON Web Key Set") from error
    return tuple(_usable(listed[:MAX_KEYS]))


def fitting(keys: Iterable[Key], algorithm: str, kid: str | None) -> tuple[Key, ...]:
    """The keys a token may have been signed with; those it does not name are left out."""
    return tuple(
        key
        for key in keys
        if key.algorithm == algorithm and (kid is None or key.kid is None or key.kid == kid)
    )


def _usable(listed: Iterable[msgspec.Raw]) -> Iterator[Key]:
    """One key that cannot be used must not spoil the others."""
    for raw in listed:
        try:
            jwk = msgspec.json.decode(raw, type=_Jwk)
            if (key := _from_jwk(jwk, bytes(raw).decode())) is not None:
                yield key
        except (*UNREADABLE, PyJWTError, BadKey, ValueError, TypeError):
            continue


def _from_jwk(jwk: _Jwk, text: str) -> Key | None:
    if jwk.d is not None or jwk.use not in (None, "sig"):
        return None
    match jwk.kty, jwk.crv, jwk.alg:
        case "RSA", _, None | "RS256":
            return _pinned(RSAAlgorithm.from_jwk(text), jwk.kid)
        case "EC", "P-256", None | "ES256":
            return _pinned(ECAlgorithm.from_jwk(text), jwk.kid)
    return None


def _pinned(key: object, kid: str | None) -> Key:
    match key:
        case RSAPublicKey():
            if key.key_size < MIN_RSA_BITS:
                raise BadKey(f"an RSA key has {key.key_size} bits; {MIN_RSA_BITS} are needed")
            return Key("RS256", key, kid)
        case EllipticCurvePublicKey():
            if not isinstance(key.curve, SECP256R1):
                raise BadKey(f"curve {key.curve.name} is not supported; use P-256")
            return Key("ES256", key, kid)
        case _:
            raise BadKey("only RSA and P-256 public keys are supported")
