"""Certificates for tests: an authority, and what it signs."""

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates for 127.0.0.1."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        certificate = (
            _begun(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, *, password: bytes | None = None) -> Pair:
        """A certificate of that name; files of the same name are replaced."""
        key = ec.generate_private_key(ec.SECP256R1())
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = (
            _begun(_named(name), self._name, key)
            .add_extension(here, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password)
                if password
                else serialization.NoEncryption(),
            )
        )
        return pair

    def trusting(self, client: Pair | None = None) -> ssl.SSLContext:
        """What a client uses that trusts this authority, and shows a certificate if it has one."""
        context = ssl.create_default_context(cafile=self.file)
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        return context


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )
