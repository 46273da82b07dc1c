"""TLS keys and certificates from files and settings, and SSL contexts made of them. Blocking.

Python's `ssl` reads a key only from a file. A key from a setting or a PKCS12 store is passed
through a nameless file in memory (memfd_create), so that it never reaches a disk.
"""

import os
import re
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from headrace.config.installing import install_command
from headrace.config.tls_settings import Store, TlsSettings, jks_refusal
from headrace.model.errors import ConfigError

_JKS_BEGINS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER_SEQUENCE = 0x30
_STORE_BYTES_MAX = 16 << 20
_BLOCK = re.compile(
    r"-----BEGIN (?P<what>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=what)-----", re.DOTALL
)
_LINE_CHARS = 64
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class Material(NamedTuple):
    """The content of a keystore or truststore as PEM. Secret."""

    key: str | None
    certificates: str
    password: str | None
    """The password of the key, or None."""

    def __repr__(self) -> str:
        return "Material(***)"


class Named(NamedTuple):
    """Names of the settings that a store comes from, for error texts."""

    location: str
    password: str
    key_password: str


_KEYSTORE = Named("ssl.keystore.location", "ssl.keystore.password", "ssl.key.password")
_TRUSTSTORE = Named("ssl.truststore.location", "ssl.truststore.password", "")


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Make the SSL context for a listener's connections; raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    restrict(context, settings.versions, settings.ciphers)
    show(context, settings.keystore)
    if settings.client_auth != "none":
        trust(context, settings.truststore)
        context.verify_mode = _VERIFY[settings.client_auth]
    return context


def peer_context(settings: TlsSettings) -> ssl.SSLContext:
    """Make the SSL context for connections to other brokers' listener; raises ConfigError.

    It presents the listener's own certificate, and trusts the authorities of the listener's
    truststore, or the system's if there is no truststore.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    restrict(context, settings.versions, settings.ciphers)
    show(context, settings.keystore)
    if settings.truststore.given:
        trust(context, settings.truststore)
    else:
        context.load_default_certs()
    context.check_hostname = settings.checks_hosts
    return context


def show(context: ssl.SSLContext, store: Store, named: Named = _KEYSTORE) -> None:
    """Let `context` present the certificate of a keystore; raises ConfigError."""
    material = material_of(store, named)
    where = _where(store, named)
    if material.key is None:
        raise ConfigError(f"{where}: it contains no private key")
    if not material.certificates:
        raise ConfigError(f"{where}: it contains no certificate")

    def password() -> str:
        # Called for encrypted keys only; without an answer OpenSSL would ask on the terminal.
        if material.password is None:
            raise ConfigError(f"{where}: its key is encrypted: set {named.key_password}")
        return material.password

    with _in_memory(material.key + material.certificates) as path:
        try:
            context.load_cert_chain(path, password=password)
        except (ssl.SSLError, OSError) as error:
            if "ENCRYPTED" in material.key:  # OpenSSL gives no reason
                reason = f"{named.key_password} is not the password of its key"
            else:
                reason = _loading_problem(error)
            raise ConfigError(f"{where}: {reason}") from None


def trust(context: ssl.SSLContext, store: Store, named: Named = _TRUSTSTORE) -> None:
    """Let `context` trust the authorities in a truststore; raises ConfigError."""
    certificates = material_of(store, named).certificates
    if not certificates:
        raise ConfigError(f"{_where(store, named)}: it contains no certificate")
    try:
        context.load_verify_locations(cadata=certificates)
    except ssl.SSLError as error:
        raise ConfigError(f"{_where(store, named)}: {_loading_problem(error)}") from None


def restrict(context: ssl.SSLContext, versions: Sequence[str], ciphers: Sequence[str]) -> None:
    """Restrict `context` to these TLS versions and ciphers; raises ConfigError."""
    found = sorted(_VERSIONS[version] for version in versions)
    context.minimum_version, context.maximum_version = found[0], found[-1]
    wanted = [openssl_name(name) for name in ciphers]
    older = [name for name in wanted if not name.startswith("TLS_")]
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise ConfigError(
                f"ssl.cipher.suites={','.join(ciphers)}: OpenSSL supports none of them"
            ) from None


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a TLS 1.2 cipher; a TLS 1.3 cipher has only its standard name."""
    exchange, joint, cipher = name.removeprefix("TLS_").partition("_WITH_")
    if not joint:
        return name
    cipher = re.sub(r"AES_(\d+)_(?:CBC_)?", r"AES\1-", cipher)
    cipher = cipher.removesuffix("_SHA256") if "POLY1305" in cipher else cipher
    exchange = "" if exchange == "RSA" else f"{exchange}-"
    return (exchange + cipher).replace("_", "-")


def stamp(store: Store) -> tuple[int, ...] | None:
    """Return a value that changes with a store's file; None if the store is not a file."""
    if store.location is None:
        return None
    try:
        status = os.stat(store.location)
    except OSError:
        return ()
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def material_of(store: Store, named: Named) -> Material:
    """Read a keystore or truststore; raises ConfigError."""
    if store.location is None:
        certificates = _blocks(store.certificates or "", "CERTIFICATE")
        return Material(_key_in(store.key or ""), certificates, store.key_password)
    try:
        with open(store.location, "rb") as file:
            data = file.read(_STORE_BYTES_MAX + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{named.location}={store.location}: {reason}") from None
    if data.startswith(_JKS_BEGINS):
        raise ConfigError(f"{named.location}={store.location}: {jks_refusal(store.location)}")
    if len(data) > _STORE_BYTES_MAX:
        raise ConfigError(f"{named.location}={store.location}: too large for a store")
    if store.kind == "PKCS12" or (store.kind is None and data[:1] == bytes([_DER_SEQUENCE])):
        return _from_pkcs12(data, store, named)
    text = data.decode("utf-8", "replace")
    return Material(_key_in(text), _blocks(text, "CERTIFICATE"), store.key_password)


def _from_pkcs12(data: bytes, store: Store, named: Named) -> Material:
    where = f"{named.location}={store.location}"
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ModuleNotFoundError:
        raise ConfigError(
            f"{where}: a PKCS12 store needs a library, or give PEM:"
            f" {install_command('cryptography')}"
        ) from None
    password = None if store.password is None else store.password.encode()
    try:
        content = pkcs12.load_pkcs12(data, password)
    except ValueError:
        raise ConfigError(
            f"{where}: not a PKCS12 store, or {named.password} is not its password"
        ) from None
    pem = serialization.Encoding.PEM
    found = [] if content.cert is None else [content.cert]
    certificates = "".join(
        entry.certificate.public_bytes(pem).decode()
        for entry in [*found, *content.additional_certs]
    )
    key = content.key
    if key is None:
        return Material(None, certificates, None)
    text = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return Material(text, certificates, None)


def _key_in(text: str) -> str | None:
    for form in _BLOCK.finditer(text):
        if form["what"].endswith("PRIVATE KEY"):
            return _folded(form)
    return None


def _blocks(text: str, what: str) -> str:
    return "".join(_folded(form) for form in _BLOCK.finditer(text) if form["what"] == what)


def _folded(form: re.Match[str]) -> str:
    """Return a PEM block with proper line breaks, which a property value may have lost."""
    what, body = form["what"], form["body"]
    if ":" not in body:  # else it has headers, whose lines matter
        chars = "".join(body.split())
        lines = [chars[at : at + _LINE_CHARS] for at in range(0, len(chars), _LINE_CHARS)]
        body = "\n" + "\n".join(lines) + "\n"
    return f"-----BEGIN {what}-----{body}-----END {what}-----\n"


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """Provide a path with content `text`, readable by this process only."""
    descriptor = os.memfd_create("headrace-tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _where(store: Store, named: Named) -> str:
    if store.location is not None:
        return f"{named.location}={store.location}"
    return named.location.replace("location", "key" if store.key else "certificates")


def _loading_problem(error: OSError) -> str:
    reason = str(getattr(error, "reason", None) or error)
    if "KEY_VALUES_MISMATCH" in reason:
        return "its first certificate does not match its key"
    return f"OpenSSL cannot read it: {reason.replace('_', ' ').lower()}"
