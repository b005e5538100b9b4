"""Key pairs of this test run, and their public halves as files and key sets have them."""

import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_EC_KEY = ec.generate_private_key(ec.SECP256R1())


def pem(key: Any) -> bytes:
    """The public half as a PEM block."""
    shown: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return shown


def jwk(key: Any, **more: Any) -> dict[str, Any]:
    """The public half as a member of a key set; None takes a member out."""
    kind: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    made: dict[str, Any] = json.loads(kind.to_jwk(key.public_key()))
    return {name: value for name, value in {**made, **more}.items() if value is not None}
