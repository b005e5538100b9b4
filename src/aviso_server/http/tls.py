"""TLS of the listener: certificate, key, and optionally the authority that clients must be from."""

import ssl
from dataclasses import dataclass
from pathlib import Path

HANDSHAKE_S = 5.0
"""How long a handshake may take, as long as a request head."""


class BadTls(Exception):
    """A file cannot be used; the message names the setting and says why."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the parts are, in PEM."""

    certificate: Path
    """With the chain up to, but not including, the root."""
    key: Path
    """Not encrypted: there is no one to type a password."""
    client_ca: Path | None = None
    """Only clients with a certificate of this authority are admitted."""


def tls_context(files: TlsFiles) -> ssl.SSLContext:
    """A context made of what is in the files now, or BadTls."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for setting, path in (("certificate", files.certificate), ("key", files.key)):
        _readable(setting, path)
    try:
        # Without a password given, OpenSSL asks for one on the terminal.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (ssl.SSLError, OSError) as error:
        raise BadTls(
            f"application.tls: certificate '{files.certificate}' and key '{files.key}' "
            f"cannot be used: {_why(error)}"
        ) from error
    if files.client_ca is not None:
        _readable("client_ca", files.client_ca)
        try:
            context.load_verify_locations(files.client_ca)
        except (ssl.SSLError, OSError) as error:
            raise BadTls(
                f"application.tls.client_ca: '{files.client_ca}' cannot be used: {_why(error)}"
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED
        # A resumed session skips the client's certificate, also after the authority changed.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


def _readable(setting: str, path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise BadTls(
            f"application.tls.{setting}: '{path}' cannot be read: {error.strerror}"
        ) from error


def _why(error: ssl.SSLError | OSError) -> str:
    """OpenSSL's reason as text."""
    reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return str(reason).lower().replace("_", " ")
