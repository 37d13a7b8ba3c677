"""Self-signed certificates for localhost."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class MadeCertificate:
    """A certificate and its key, in two files."""

    def __init__(self, folder: Path, name: str = "tls") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate, self.private_key = folder / f"{name}.pem", folder / f"{name}.key"
        self.serial = self.renew()

    @property
    def options(self) -> dict[str, Any]:
        """For `server`."""
        return {"certificate": str(self.certificate), "private_key": str(self.private_key)}

    def renew(self) -> int:
        """Another certificate and key in the same files; its serial number."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        serial, now = x509.random_serial_number(), datetime.now(UTC)
        names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(serial)
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(names, critical=False)
            .sign(key, hashes.SHA256())
        )
        self.private_key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return serial

    def trusted(self) -> ssl.SSLContext:
        """A client's context that trusts the certificate."""
        return ssl.create_default_context(cafile=str(self.certificate))


def serial_of(port: int) -> int:
    """The serial number of the certificate that a server on loopback presents."""
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port)).encode()).serial_number
