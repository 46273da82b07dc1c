"""A private certificate authority and certificates signed by it, as PEM. Needs `cryptography`.

Keys use the curve P-256. A renewed authority keeps its key and name, so clients that trust its
former certificate accept what is signed under the later one.
"""

import datetime
import secrets
from collections.abc import Iterable
from ipaddress import ip_address
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3650
SERVER_DAYS = 825
"""Longest lifetime in days that clients of all vendors accept."""
RENEWED_DAYS_BEFORE = 30
_EARLIER = datetime.timedelta(hours=1)
"""Tolerance for clients whose clocks are behind."""
_COMMON_NAME_CHARS_MAX = 64


class Authority(NamedTuple):
    """A private certificate authority: key (secret) and certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def __repr__(self) -> str:
        return "Authority(***)"


def new_key() -> bytes:
    """Return a new private key as PEM."""
    return _pem_of(ec.generate_private_key(ec.SECP256R1()))


def authority_of(key: bytes, certificate: bytes) -> Authority:
    """Return the authority of a key and certificate in PEM; ValueError if they are invalid."""
    private = _key_of(key)
    found = _certificate_of(certificate)
    if found.public_key() != private.public_key():
        raise ValueError("the certificate belongs to another key")
    return Authority(private, found)


def new_authority(key: bytes, now: datetime.datetime, former: Authority | None = None) -> Authority:
    """Return an authority whose certificate begins now; it takes its name from `former`, if any.

    ValueError if `key` is not a private key.
    """
    private = _key_of(key)
    if former is None:
        common = f"Headrace private authority {secrets.token_hex(4)}"
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    else:
        name = former.certificate.subject
    identifier = x509.SubjectKeyIdentifier.from_public_key(private.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(private, hashes.SHA256())
    )
    return Authority(private, certificate)


def server_certificate(authority: Authority, names: Iterable[str], now: datetime.datetime) -> bytes:
    """Return a new key and certificate, as PEM, for a server with these names."""
    wanted = list(dict.fromkeys(names))
    alternatives = x509.SubjectAlternativeName(map(_general_name, wanted))
    return _signed(authority, wanted[0], ExtendedKeyUsageOID.SERVER_AUTH, now, alternatives)


def client_certificate(authority: Authority, common_name: str, now: datetime.datetime) -> bytes:
    """Return a new key and certificate, as PEM, for a client with this common name."""
    return _signed(authority, common_name, ExtendedKeyUsageOID.CLIENT_AUTH, now)


def _signed(
    authority: Authority,
    common_name: str,
    purpose: x509.ObjectIdentifier,
    now: datetime.datetime,
    alternatives: x509.SubjectAlternativeName | None = None,
) -> bytes:
    private = ec.generate_private_key(ec.SECP256R1())
    common = common_name[:_COMMON_NAME_CHARS_MAX]
    issuer = authority.certificate
    until = min(now + datetime.timedelta(days=SERVER_DAYS), issuer.not_valid_after_utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)]))
        .issuer_name(issuer.subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
    )
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    return _pem_of(private) + certificate.public_bytes(serialization.Encoding.PEM)


def until(certificate: bytes) -> datetime.datetime:
    """Return the expiry time (UTC) of a certificate; ValueError if it is malformed."""
    return _certificate_of(certificate).not_valid_after_utc


def runs_out(certificate: x509.Certificate, now: datetime.datetime) -> bool:
    """Return whether a certificate expires so soon that it must be renewed."""
    return certificate.not_valid_after_utc - now < datetime.timedelta(days=RENEWED_DAYS_BEFORE)


def why_renewed(
    server: bytes, authority: Authority, names: Iterable[str], now: datetime.datetime
) -> str | None:
    """Return why a server's key and certificate must be replaced, or None if they need not be."""
    try:
        private, certificate = _key_of(server), _certificate_of(server)
        certificate.verify_directly_issued_by(authority.certificate)
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return "it is damaged or from another authority"
    if certificate.public_key() != private.public_key():
        return "its certificate belongs to another key"
    if runs_out(certificate, now):
        return f"it expires on {certificate.not_valid_after_utc:%Y-%m-%d}"
    there = {str(name.value) for name in alternatives.value}
    missing = sorted({str(_general_name(name).value) for name in names} - there)
    return f"it lacks the names {', '.join(missing)}" if missing else None


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode() if not name.isascii() else name)


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _key_of(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, None)
    except TypeError:
        raise ValueError("the key is encrypted") from None
    except ValueError:
        raise ValueError("not a private key in PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an elliptic curve key")
    return key


def _certificate_of(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise ValueError("not a certificate in PEM") from None
