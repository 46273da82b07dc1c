"""A private authority and what it signs: names, ends, renewal, and what is not its own."""

import datetime
import ssl
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from headrace.posix import certificates
from headrace.posix.certificates import Authority

NOW = datetime.datetime(2030, 5, 6, 7, 8, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
NAMES = ["broker.example", "localhost", "127.0.0.1", "::1"]


@pytest.fixture(scope="module")
def key() -> bytes:
    return certificates.new_key()


@pytest.fixture(scope="module")
def authority(key: bytes) -> Authority:
    return certificates.new_authority(key, NOW)


@pytest.fixture(scope="module")
def server(authority: Authority) -> bytes:
    return certificates.server_certificate(authority, NAMES, NOW)


def test_a_servers_certificate_has_all_names_and_openssl_takes_it(
    authority: Authority, server: bytes
) -> None:
    made = x509.load_pem_x509_certificate(server)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["broker.example", "localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ip_address("127.0.0.1"),
        ip_address("::1"),
    ]
    made.verify_directly_issued_by(authority.certificate)
    ssl.create_default_context().load_verify_locations(cadata=authority.pem.decode())


def test_an_authority_signs_certificates_of_servers_and_no_authorities(
    authority: Authority, server: bytes
) -> None:
    def basic(certificate: x509.Certificate) -> x509.BasicConstraints:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value

    assert basic(authority.certificate) == x509.BasicConstraints(ca=True, path_length=0)
    assert basic(x509.load_pem_x509_certificate(server)).ca is False


def test_a_clients_certificate_is_for_clients_and_a_servers_for_servers(
    authority: Authority, server: bytes
) -> None:
    def purposes(pem: bytes) -> list[x509.ObjectIdentifier]:
        made = x509.load_pem_x509_certificate(pem)
        return list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)

    client = certificates.client_certificate(authority, "carol", NOW)
    assert purposes(client) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert purposes(server) == [ExtendedKeyUsageOID.SERVER_AUTH]
    made = x509.load_pem_x509_certificate(client)
    assert made.subject.rfc4514_string() == "CN=carol"
    made.verify_directly_issued_by(authority.certificate)


def test_a_certificate_is_renewed_thirty_days_before_its_end_and_not_earlier(
    authority: Authority, server: bytes
) -> None:
    end = certificates.until(server)
    assert end == NOW + certificates.SERVER_DAYS * DAY

    def why(now: datetime.datetime) -> str | None:
        return certificates.why_renewed(server, authority, NAMES, now)

    assert why(end - 30 * DAY) is None
    assert why(end - 30 * DAY + datetime.timedelta(seconds=1)) == f"it expires on {end:%Y-%m-%d}"
    assert why(end + DAY) is not None


def test_a_name_that_is_missing_is_a_reason_and_one_too_many_is_none(
    authority: Authority, server: bytes
) -> None:
    def why(*names: str) -> str | None:
        return certificates.why_renewed(server, authority, names, NOW)

    assert why("localhost") is None
    assert why("0:0:0:0:0:0:0:1") is None
    assert why("other.example", "10.1.2.3", "localhost") == (
        "it lacks the names 10.1.2.3, other.example"
    )


def test_anothers_certificate_another_key_and_half_a_file_are_reasons(
    authority: Authority, server: bytes
) -> None:
    stranger = certificates.new_authority(certificates.new_key(), NOW)
    others = certificates.server_certificate(stranger, NAMES, NOW)
    swapped = others.partition(b"-----BEGIN CERT")[0] + b"".join(
        server.partition(b"-----BEGIN CERT")[1:]
    )
    for wrong in (others, swapped, server[:200], b"", b"nothing"):
        assert certificates.why_renewed(wrong, authority, NAMES, NOW) is not None


def test_a_renewed_authority_is_believed_by_who_trusts_the_former_one(
    key: bytes, authority: Authority, server: bytes
) -> None:
    later = NOW + 3640 * DAY
    assert certificates.runs_out(authority.certificate, later)
    renewed = certificates.new_authority(key, later, authority)
    assert renewed.certificate.subject == authority.certificate.subject
    assert not certificates.runs_out(renewed.certificate, later)
    anew = x509.load_pem_x509_certificate(certificates.server_certificate(renewed, NAMES, later))
    anew.verify_directly_issued_by(authority.certificate)
    x509.load_pem_x509_certificate(server).verify_directly_issued_by(renewed.certificate)


def test_no_certificate_outlives_its_authority(key: bytes, authority: Authority) -> None:
    later = NOW + 3600 * DAY
    made = certificates.server_certificate(authority, NAMES, later)
    assert certificates.until(made) == authority.certificate.not_valid_after_utc


def test_a_key_that_is_none_or_another_is_refused(key: bytes, authority: Authority) -> None:
    other = certificates.new_key()
    with pytest.raises(ValueError, match="belongs to another key"):
        certificates.authority_of(other, authority.pem)
    with pytest.raises(ValueError, match="not a private key"):
        certificates.authority_of(b"x", authority.pem)
    with pytest.raises(ValueError, match="not a certificate in PEM"):
        certificates.authority_of(key, b"x")
    assert "***" in repr(authority)
