"""A NATS operator, its accounts and a user with a credentials file, made for one test.

NATS tokens are JWTs signed with ed25519 keys; the format is small enough to be written here.
"""

import base64
import json
import os
import time
from pathlib import Path

import nkeys

from aviso_server.core.json import Json


class Key:
    """A key pair of one kind."""

    def __init__(self, prefix: int) -> None:
        self.seed = nkeys.encode_seed(os.urandom(32), prefix)
        self._pair = nkeys.from_seed(bytearray(self.seed))
        self.public = self._pair.public_key.decode()

    def token(self, subject: "Key", name: str, claims: dict[str, Json]) -> str:
        """A JWT about the subject, signed with this key."""
        body = {
            "jti": base64.b32encode(os.urandom(16)).decode().rstrip("="),
            "iat": int(time.time()),
            "iss": self.public,
            "name": name,
            "sub": subject.public,
            "nats": {"version": 2, **claims},
        }
        text = f"{_part({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_part(body)}"
        return f"{text}.{_encoded(self._pair.sign(text.encode()))}"


def operator_mode(folder: Path) -> tuple[dict[str, Json], Path]:
    """Server settings that admit only the user of a credentials file, and that file."""
    operator = Key(nkeys.PREFIX_BYTE_OPERATOR)
    account, system = Key(nkeys.PREFIX_BYTE_ACCOUNT), Key(nkeys.PREFIX_BYTE_ACCOUNT)
    user = Key(nkeys.PREFIX_BYTE_USER)
    free = ("subs", "data", "payload", "imports", "exports", "conn", "leaf")
    stored = ("mem_storage", "disk_storage", "streams", "consumer")
    limits: Json = {**dict.fromkeys((*free, *stored), -1), "wildcards": True}
    plain: Json = {**dict.fromkeys(free, -1), "wildcards": True}
    preload: dict[str, Json] = {
        account.public: operator.token(account, "A", {"type": "account", "limits": limits}),
        system.public: operator.token(system, "SYS", {"type": "account", "limits": plain}),
    }
    settings: dict[str, Json] = {
        "operator": operator.token(operator, "O", {"type": "operator"}),
        "system_account": system.public,
        "resolver": "MEMORY",
        "resolver_preload": preload,
    }
    token = account.token(user, "U", {"type": "user", "subs": -1, "data": -1, "payload": -1})
    file = folder / "user.creds"
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )
    return settings, file


def _part(value: dict[str, Json]) -> str:
    return _encoded(json.dumps(value, separators=(",", ":")).encode())


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
