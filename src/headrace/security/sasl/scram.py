"""SCRAM credentials and messages: RFC 5802 with SHA-256 (RFC 7677) or SHA-512.

The broker stores salt, iterations, StoredKey and ServerKey of a password, with which nobody can log
in. Names and passwords are UTF-8 without SASLprep, as in Kafka and its clients.
"""

import base64
import binascii
import hashlib
import hmac
import re
from typing import NamedTuple

from headrace.model.secret import Secret
from headrace.security.sasl.sasl import TOKEN_BYTES_MAX, Mechanism, SaslRefused

HASHES = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16_384
"""Bounds of the iteration count, as in Kafka."""
NUMBERS = {1: Mechanism.SCRAM_SHA_256, 2: Mechanism.SCRAM_SHA_512}
"""The mechanisms by their numbers in APIs 50 and 51."""
_TOKEN_AUTH = "tokenauth"  # noqa: S105 - an extension's name
DELEGATED = f",{_TOKEN_AUTH}=true"
"""Extension after the client's nonce that marks a delegation token as the credentials."""

_NAME = r"(?:[^\x00=,]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^\x00,]+)*"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_BASE64 = r"[A-Za-z0-9+/]+={0,2}"
_SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<rounds>[1-9][0-9]{{0,8}}){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<bare>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
    rf",p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(rf"(?:v=(?P<signature>{_BASE64})|e=(?P<error>[^\x00,]+)){_EXTENSIONS}")


class Credential(NamedTuple):
    """The stored form of a user's password for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"Credential(***, iterations={self.iterations})"


class ClientFirst(NamedTuple):
    """A client's first SCRAM message."""

    gs2_header: str
    authzid: str
    user: str
    nonce: str
    bare: str
    """The message without its GS2 header, which is part of the signed text."""
    delegated: bool = False
    """Whether the user name is a delegation token's id (KIP-48)."""


class ClientFinal(NamedTuple):
    """A client's final SCRAM message."""

    binding: bytes
    nonce: str
    proof: bytes
    bare: str
    """The message without its proof, which is part of the signed text."""


class ServerFirst(NamedTuple):
    """A server's first SCRAM message."""

    nonce: str
    salt: bytes
    iterations: int


def make_credential(
    mechanism: Mechanism, password: Secret, salt: bytes, iterations: int
) -> Credential:
    """Compute the credential to store for `password`; takes 1 to 20 ms."""
    return credential_of(mechanism, salted(mechanism, password, salt, iterations), salt, iterations)


def salted(mechanism: Mechanism, password: Secret, salt: bytes, iterations: int) -> bytes:
    """Compute SaltedPassword with PBKDF2."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.reveal().encode(), salt, iterations)


def credential_of(
    mechanism: Mechanism, salted_password: bytes, salt: bytes, iterations: int
) -> Credential:
    """Compute the credential to store from a SaltedPassword."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    server_key = hmac.digest(salted_password, b"Server Key", name)
    return Credential(salt, hashlib.new(name, client_key).digest(), server_key, iterations)


def encode_credential(credential: Credential) -> str:
    """Encode a credential as Kafka stores it: `salt=…,stored_key=…,server_key=…,iterations=N`."""
    return (
        f"salt={encode64(credential.salt)},stored_key={encode64(credential.stored_key)},"
        f"server_key={encode64(credential.server_key)},iterations={credential.iterations}"
    )


def decode_credential(mechanism: Mechanism, text: str) -> Credential:
    """Decode a stored credential; ValueError, whose text contains none of it."""
    fields = dict(word.partition("=")[::2] for word in text.split(","))
    if fields.keys() != {"salt", "stored_key", "server_key", "iterations"}:
        raise ValueError("is no credential: needs salt, stored_key, server_key and iterations")
    if not re.fullmatch("[1-9][0-9]{0,8}", fields["iterations"], re.ASCII):
        raise ValueError("its iterations are no number")
    try:
        salt, stored_key, server_key = (
            decode64(fields[name]) for name in ("salt", "stored_key", "server_key")
        )
    except ValueError:
        raise ValueError("is no credential: not base64") from None
    size = hashlib.new(HASHES[mechanism]).digest_size
    if not salt or len(stored_key) != size or len(server_key) != size:
        raise ValueError(f"its keys are not {size} bytes, or it has no salt")
    return Credential(salt, stored_key, server_key, int(fields["iterations"]))


def parse_client_first(token: bytes) -> ClientFirst:
    """Parse a client's first message; SaslRefused, also for channel binding and unknown
    extensions."""
    found = _match(_CLIENT_FIRST, token, "first SCRAM message")
    authzid = found["authzid"]
    return ClientFirst(
        found["gs2"],
        "" if authzid is None else unescape(authzid),
        unescape(found["user"]),
        found["nonce"],
        found["bare"],
        _delegated(found["extensions"]),
    )


def parse_client_final(token: bytes) -> ClientFinal:
    """Parse a client's final message. Raises SaslRefused."""
    found = _match(_CLIENT_FINAL, token, "last SCRAM message")
    if _delegated(found["extensions"]):
        raise SaslRefused(f"{_TOKEN_AUTH} in the last SCRAM message: it belongs in the first")
    try:
        binding, proof = decode64(found["binding"]), decode64(found["proof"])
    except ValueError:
        raise SaslRefused("a SCRAM message whose base64 is none") from None
    return ClientFinal(binding, found["nonce"], proof, found["bare"])


def parse_server_first(token: bytes) -> ServerFirst:
    """Parse a server's first message. Raises SaslRefused."""
    found = _match(_SERVER_FIRST, token, "answer to the first SCRAM message")
    try:
        return ServerFirst(found["nonce"], decode64(found["salt"]), int(found["rounds"]))
    except ValueError:
        raise SaslRefused("a SCRAM message whose base64 is none") from None


def parse_server_final(token: bytes) -> bytes:
    """Parse a server's final message and return its signature; SaslRefused, also for a server's
    error."""
    found = _match(_SERVER_FINAL, token, "answer to the last SCRAM message")
    if found["error"] is not None:
        raise SaslRefused(f"the server refuses: {found['error']}")
    try:
        return decode64(found["signature"])
    except ValueError:
        raise SaslRefused("a SCRAM message whose base64 is none") from None


def _match(form: re.Pattern[str], token: bytes, what: str) -> re.Match[str]:
    if len(token) > TOKEN_BYTES_MAX:
        raise SaslRefused(f"a {what} of {len(token)} bytes")
    try:
        found = form.fullmatch(token.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise SaslRefused(f"a {what} that is none")
    return found


def _delegated(text: str) -> bool:
    """Return whether the extensions mark a delegation token; SaslRefused for any other
    extension."""
    delegated = False
    for extension in filter(None, text.split(",")):
        name, _, value = extension.partition("=")
        if name != _TOKEN_AUTH:
            raise SaslRefused(f"the SCRAM extension {name[:40]} is not served")
        if value.lower() not in {"true", "false"}:
            raise SaslRefused(f"{_TOKEN_AUTH} is neither true nor false")
        delegated = value.lower() == "true"
    return delegated


def unescape(name: str) -> str:
    """Return a name with its escaped commas and equals signs restored."""
    return name.replace("=2C", ",").replace("=3D", "=")


def escape(name: str) -> str:
    """Escape commas and equals signs of a name."""
    return name.replace("=", "=3D").replace(",", "=2C")


def encode64(data: bytes) -> str:
    """Encode as base64 text."""
    return base64.b64encode(data).decode()


def decode64(text: str) -> bytes:
    """Decode base64; ValueError if it is invalid."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def xored(left: bytes, right: bytes) -> bytes:
    """Return the XOR of two byte strings of equal length."""
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
