"""Subjects of certificates as Java writes them."""

import ssl
from pathlib import Path

import pytest

from headrace.model.errors import Malformed
from headrace.security.distinguished_name import SUBJECT_CHARS_MAX, subject_of
from tests.support.security.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs."""
    return Authority(tmp_path_factory.mktemp("names"))


def der_of(pem: Path) -> bytes:
    """Return a certificate's bytes."""
    return ssl.PEM_cert_to_DER_cert(pem.read_text())


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("/CN=localhost", "CN=localhost"),
        (
            "/C=CH/ST=Bern/L=Thun/O=Mill/OU=Weir/CN=spark",
            "CN=spark,OU=Weir,O=Mill,L=Thun,ST=Bern,C=CH",
        ),
        ('/O=Mill, Weir + Sons/CN=a"b<c>;d#e=f', r"CN=a\"b\<c\>\;d\#e\=f,O=Mill\, Weir \+ Sons"),
        ("/CN= between blanks ", r"CN=\ between blanks\ "),
        ("/CN=Zoë Müller", "CN=Zoë Müller"),
        ("/DC=org/DC=mill/UID=17/CN=x", "CN=x,UID=17,DC=mill,DC=org"),
        ("/CN=x/emailAddress=a@b", "1.2.840.113549.1.9.1=#1603614062,CN=x"),
        ("/CN=x+UID=3/O=Mill", "O=Mill,CN=x+UID=3"),
    ],
)
def test_a_name_is_written_as_java_writes_it(authority: Authority, subject: str, name: str) -> None:
    given = subject.replace(" + ", r" \+ ") if " + " in subject else subject
    assert subject_of(der_of(authority.sign("name", given).chain)) == name


def test_a_long_name_is_refused(authority: Authority) -> None:
    parts = "".join(f"/OU={'x' * 60}" for _ in range(SUBJECT_CHARS_MAX // 60 + 1))
    with pytest.raises(Malformed, match="at most 1024"):
        subject_of(der_of(authority.sign("long", parts + "/CN=x").chain))


def test_what_is_no_certificate_is_refused_and_nothing_else_happens(authority: Authority) -> None:
    whole = der_of(authority.sign("cut", "/O=Mill/CN=x").chain)
    names = set()
    for at in range(min(len(whole), 400)):
        for broken in (whole[:at], whole[:at] + b"\xff" + whole[at + 1 :]):
            try:
                names.add(subject_of(broken)[:2])
            except Malformed:
                names.add("")
    assert "" in names
