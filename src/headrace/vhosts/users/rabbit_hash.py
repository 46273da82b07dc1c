"""RabbitMQ's password hashes: base64 of a salt of 4 bytes and a digest of salt and password.

Stored as `ALGORITHM:BASE64`, with RabbitMQ's names of the algorithms. MD5 is that of definitions
from before RabbitMQ 3.6; like the others it is replaced by SCRAM credentials at the first login.
"""

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode

from headrace.model.secret import Secret

ALGORITHMS = {
    "rabbit_password_hashing_sha256": "sha256",
    "rabbit_password_hashing_sha512": "sha512",
    "rabbit_password_hashing_md5": "md5",
}
SALT_BYTES = 4


def stored_hash(algorithm: str, encoded: str) -> str:
    """Return a hash as it is stored; raise ValueError if it is malformed."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"the algorithm must be one of {', '.join(ALGORITHMS)}")
    stored = f"{algorithm}:{encoded}"
    _parts(stored)
    return stored


def salted_hash(salt: bytes, password: Secret) -> str:
    """Return the base64 text of a password's hash with SHA-256 and a salt of 4 bytes."""
    return b64encode(salt + hashlib.sha256(salt + password.reveal().encode()).digest()).decode()


def is_password(stored: str, password: Secret) -> bool:
    """Tell whether a password matches a stored hash; raise ValueError if it is malformed."""
    name, salt, expected = _parts(stored)
    digest = hashlib.new(name, salt + password.reveal().encode()).digest()
    return hmac.compare_digest(digest, expected)


def _parts(stored: str) -> tuple[str, bytes, bytes]:
    algorithm, _, encoded = stored.partition(":")
    name = ALGORITHMS.get(algorithm)
    if name is None:
        raise ValueError(f"the algorithm {algorithm!r} is unknown to this version")
    try:
        decoded = b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the hash is not base64") from None
    if len(decoded) != SALT_BYTES + hashlib.new(name).digest_size:
        raise ValueError(f"the hash has not the length of {algorithm}: was it made by another?")
    return name, decoded[:SALT_BYTES], decoded[SALT_BYTES:]
