"""The ``Authorization`` header, read as each mode wants it; no I/O."""

import re
import secrets
from hashlib import blake2b

from aviso_server.auth.refusal import MalformedHeader

_READABLE = re.compile(r"[\x20-\x7e\t]*")
_SCHEMES = frozenset({"bearer", "basic"})


def forwardable(header: str) -> str:
    """The header as auth-o-tron gets it: trimmed, with a scheme and something after it."""
    if not _READABLE.fullmatch(header):
        raise MalformedHeader("Authorization header is not valid UTF-8")
    if not header.strip():
        raise MalformedHeader("Authorization header cannot be empty")
    scheme, blank, rest = header.lstrip().partition(" ")
    if not blank or scheme.lower() not in _SCHEMES:
        raise MalformedHeader("Authorization header must use Bearer or Basic scheme")
    if not rest.strip():
        raise MalformedHeader("Authorization header credentials cannot be empty")
    return header.strip()


class Fingerprints:
    """Credentials as memories know them, so that none holds a password or a token.

    A keyed digest: the key is of this process alone.
    """

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(32)

    def of(self, credential: str) -> bytes:
        """What stands for a credential; any text at all, as a client may send it."""
        text = credential.encode(errors="surrogatepass")
        return blake2b(text, key=self._salt, digest_size=32).digest()


def bearer_token(header: str) -> str:
    """The token of a header that is ``Bearer`` and one more word."""
    parts = header.split()
    if len(parts) != 2 or parts[0].lower() != "bearer":
        raise MalformedHeader("Authorization header must use Bearer token")
    return parts[1]
