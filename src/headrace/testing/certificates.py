"""A certificate authority that lives as long as a test's broker. Needs `cryptography`
(headrace[tls])."""

import datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAYS = 7
_BEFORE = datetime.timedelta(hours=1)
"""Clocks of containers may be behind."""


class ThrowawayAuthority:
    """Signs keys of P-256 in a directory that is removed with the broker."""

    def __init__(self, directory: Path) -> None:
        """`directory`: for PEM files; nobody else may read it."""
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Headrace test authority")
        usage = x509.BasicConstraints(ca=True, path_length=0)
        signed = self._signed(self._name, self._key.public_key(), usage)
        self.certificate = directory / "ca.pem"
        """What who trusts it has."""
        self.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def sign(self, common_name: str, names: tuple[str, ...] = ()) -> Path:
        """Return a PEM file with a new key and its certificate; `names`: of hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.BasicConstraints(ca=False, path_length=None)
        signed = self._signed(_name(common_name), key.public_key(), usage, names)
        path = self._directory / f"{common_name}.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + signed.public_bytes(serialization.Encoding.PEM)
        )
        return path

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        usage: x509.BasicConstraints,
        names: tuple[str, ...] = (),
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BEFORE)
            .not_valid_after(now + datetime.timedelta(days=_DAYS))
            .add_extension(usage, critical=True)
        )
        if names:
            alternatives = x509.SubjectAlternativeName(map(_general_name, names))
            made = made.add_extension(alternatives, critical=False)
        return made.sign(self._key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
