"""Passwords as RabbitMQ keeps them."""

import hashlib
from base64 import b64decode, b64encode

import pytest

from headrace.model.secret import Secret
from headrace.vhosts.users.rabbit_hash import is_password, stored_hash

SHA256, SHA512 = "rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512"
DOCUMENTED = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
"""Of `test12` with the salt 908DC60A: the example of RabbitMQ's documentation."""


def test_the_hash_of_rabbitmqs_documentation_is_that_of_its_password() -> None:
    stored = stored_hash(SHA256, DOCUMENTED)
    assert is_password(stored, Secret("test12"))
    assert not is_password(stored, Secret("test1"))
    assert not is_password(stored, Secret(""))


def test_recorded_md5_hash_is_read_and_an_unknown_algorithm_refused() -> None:
    recorded = "2lmoth8l4H0DViLaK9Fxi6l9ds8="
    digest = b64decode(recorded)[4:]
    stored = stored_hash("rabbit_password_hashing_md5", recorded)
    salted = b64decode(recorded)[:4] + b"x"
    assert is_password(stored, Secret("x")) is (hashlib.md5(salted).digest() == digest)
    with pytest.raises(ValueError, match="is unknown"):
        is_password("rabbit_password_hashing_later:AAAA", Secret("x"))


def test_sha512_is_salted_alike() -> None:
    salt = b"\0\xff\1\2"
    digest = hashlib.sha512(salt + "pässword".encode()).digest()
    stored = stored_hash(SHA512, b64encode(salt + digest).decode())
    assert is_password(stored, Secret("pässword"))
    assert not is_password(stored, Secret("password"))


@pytest.mark.parametrize(
    ("algorithm", "encoded", "why"),
    [
        ("rabbit_password_hashing_none", DOCUMENTED, "the algorithm must be one of"),
        ("rabbit_password_hashing_md5", DOCUMENTED, "the length"),
        (SHA512, DOCUMENTED, "the length"),
        (SHA256, DOCUMENTED[:-4], "the length"),
        (SHA256, "not base64!", "not base64"),
        (SHA256, "", "the length"),
    ],
)
def test_what_is_no_hash_is_refused_when_it_is_brought(
    algorithm: str, encoded: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        stored_hash(algorithm, encoded)
