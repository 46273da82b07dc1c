"""Stores of keys and certificates, and what is said of those that cannot be used."""

from pathlib import Path

import pytest

from headrace.config.tls_settings import Store, TlsSettings
from headrace.model.errors import ConfigError
from headrace.posix.tls import openssl_name, server_context, stamp
from tests.support.security.certificates import Authority

NOTHING = Store(None, None, None)


def settings(keystore: Store, **changes: object) -> TlsSettings:
    """A listener's."""
    plain = TlsSettings("SSL", keystore, NOTHING, "none", ("TLSv1.2", "TLSv1.3"), (), "DEFAULT")
    return plain._replace(**changes)  # type: ignore[arg-type]


def problem(keystore: Store, **changes: object) -> str:
    """Return why it cannot be used."""
    with pytest.raises(ConfigError) as refused:
        server_context(settings(keystore, **changes))
    return str(refused.value)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs."""
    return Authority(tmp_path_factory.mktemp("stores"))


def test_a_pem_file_has_key_and_chain(authority: Authority) -> None:
    server_context(settings(Store("PEM", str(authority.sign().both), None)))


def test_pem_may_stand_in_the_settings_without_its_line_breaks(authority: Authority) -> None:
    signed = authority.sign()
    key = " ".join(signed.key.read_text().split("\n"))
    chain = " ".join(signed.chain.read_text().split("\n"))
    server_context(settings(Store(None, None, None, key, chain)))


def test_an_encrypted_key_needs_its_password_and_nobody_is_asked_for_it(
    authority: Authority, tmp_path: Path
) -> None:
    signed = authority.sign()
    both = tmp_path / "encrypted.pem"
    both.write_text(signed.encrypted_key("secret").read_text() + signed.chain.read_text())
    store = Store("PEM", str(both), None)
    server_context(settings(store._replace(key_password="secret")))
    assert "set ssl.key.password" in problem(store)
    wrong = problem(store._replace(key_password="planted"))
    assert "ssl.key.password is not" in wrong
    assert "planted" not in wrong


def test_pkcs12_is_found_out_by_its_first_bytes(authority: Authority) -> None:
    pytest.importorskip("cryptography")
    store = Store(None, str(authority.sign().pkcs12("secret", authority.certificate)), "secret")
    server_context(settings(store, truststore=store, client_auth="required"))
    wrong = problem(store._replace(password="planted"))
    assert "ssl.keystore.password is not its password" in wrong
    assert "planted" not in wrong


def test_javas_own_format_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    store = tmp_path / "kafka.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    said = problem(Store(None, str(store), "x"))
    assert f"keytool -importkeystore -srckeystore {store}" in said
    assert f"-destkeystore {tmp_path / 'kafka.p12'} -deststoretype PKCS12" in said


def test_what_is_missing_or_does_not_fit_is_named(authority: Authority, tmp_path: Path) -> None:
    one, other = authority.sign("one"), authority.sign("other")
    mixed = tmp_path / "mixed.pem"
    mixed.write_text(one.key.read_text() + other.chain.read_text())
    cut = tmp_path / "cut.pem"
    cut.write_text(one.both.read_text()[:400])
    assert "no private key" in problem(Store("PEM", str(one.chain), None))
    assert "no certificate" in problem(Store("PEM", str(one.key), None))
    assert "does not match its key" in problem(Store("PEM", str(mixed), None))
    assert "no certificate" in problem(Store("PEM", str(cut), None))
    assert "no such file" in problem(Store("PEM", str(tmp_path / "none.pem"), None))
    no_trust = Store("PEM", str(one.key), None)
    said = problem(Store("PEM", str(one.both), None), truststore=no_trust, client_auth="required")
    assert said.startswith("ssl.truststore.location=")


def test_ciphers_go_by_both_names(authority: Authority) -> None:
    store = Store("PEM", str(authority.sign().both), None)
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-CHACHA20-POLY1305")
    context = server_context(settings(store, ciphers=suites))
    older = {cipher["name"] for cipher in context.get_ciphers() if "TLSv1.2" in cipher["protocol"]}
    assert older == {"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305"}
    assert openssl_name("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256") == suites[1]
    assert "supports none" in problem(store, ciphers=("TLS_NONE_WITH_NOTHING",))


def test_a_changed_file_has_another_stamp(tmp_path: Path) -> None:
    file = tmp_path / "store.pem"
    store = Store("PEM", str(file), None)
    assert stamp(store) == ()
    file.write_text("a")
    first = stamp(store)
    file.write_text("ab")
    assert stamp(store) not in {first, ()}
    assert stamp(NOTHING) is None


def test_no_secret_is_shown(authority: Authority) -> None:
    store = Store("PEM", None, "planted", "planted", "planted", "planted")
    assert "planted" not in repr(settings(store))
