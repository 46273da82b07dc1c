"""Keys of TLS: the certificates of listeners, and the certificates they trust.

Each can be set for one listener: `listener.name.<name in lower case>.<key>`.
"""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind, Mode

STORE_TYPES = ("PEM", "PKCS12", "JKS")
"""JKS is known only so that it can be refused with the command that converts it."""
CLIENT_AUTH = ("none", "requested", "required")
VERSIONS = ("TLSv1.2", "TLSv1.3")


class TlsKeys(Keys):
    """The certificates that SSL and SASL_SSL listeners present and require."""

    ssl_keystore_type: str | None = key(
        Kind.STRING,
        None,
        "The format of ssl.keystore.location: PEM or PKCS12; unset: detected from"
        " its first bytes. JKS, Kafka's default, is not supported: convert it with keytool.",
        words=STORE_TYPES,
    )
    ssl_keystore_location: str | None = key(
        Kind.STRING,
        None,
        "The file with a listener's private key and certificate chain, its own certificate"
        " first. Read again when it changes.",
    )
    ssl_keystore_password: str | None = key(
        Kind.PASSWORD, None, "The password of a PKCS12 keystore; PEM has no password."
    )
    ssl_key_password: str | None = key(
        Kind.PASSWORD, None, "The password of the encrypted private key."
    )
    ssl_keystore_key: str | None = key(
        Kind.PASSWORD, None, "The private key as PEM, instead of a file."
    )
    ssl_keystore_certificate_chain: str | None = key(
        Kind.PASSWORD,
        None,
        "The certificate chain of ssl.keystore.key as PEM, the broker's certificate first.",
    )
    ssl_truststore_type: str | None = key(
        Kind.STRING,
        None,
        "The format of ssl.truststore.location, as ssl.keystore.type.",
        words=STORE_TYPES,
    )
    ssl_truststore_location: str | None = key(
        Kind.STRING,
        None,
        "The file with the certificates of the trusted authorities. Read again when it changes.",
    )
    ssl_truststore_password: str | None = key(
        Kind.PASSWORD, None, "The password of a PKCS12 truststore; PEM has no password."
    )
    ssl_truststore_certificates: str | None = key(
        Kind.PASSWORD,
        None,
        "The certificates of the trusted authorities as PEM, instead of a file.",
    )
    ssl_client_auth = key(
        Kind.STRING,
        "none",
        "Client certificates: required; or requested, which makes a client without one"
        " ANONYMOUS. On SASL_SSL it has an effect only if it is set for that listener by name,"
        " as in Kafka.",
        words=CLIENT_AUTH,
        mode=Mode.PER_BROKER,
    )
    ssl_enabled_protocols: tuple[str, ...] = key(
        Kind.LIST,
        ("TLSv1.2", "TLSv1.3"),
        "TLS versions of the listeners.",
        words=VERSIONS,
        mode=Mode.PER_BROKER,
    )
    ssl_cipher_suites: tuple[str, ...] = key(
        Kind.LIST,
        (),
        "The ciphers of TLS 1.2, by OpenSSL's or the standard's names; empty: OpenSSL's"
        " default. All TLS 1.3 ciphers are always enabled.",
        mode=Mode.PER_BROKER,
    )
    ssl_principal_mapping_rules = key(
        Kind.STRING,
        "DEFAULT",
        "How a certificate's distinguished name maps to a user name:"
        " RULE:pattern/replacement/[LU], or DEFAULT for the name unchanged. The first matching"
        " rule applies; a certificate that matches no rule is refused.",
    )
    ssl_endpoint_identification_algorithm = key(
        Kind.STRING,
        "https",
        "How a broker verifies that another broker's certificate matches its host: https, or"
        " empty for no verification, which lets every holder of a certificate of the same"
        " authority impersonate a broker.",
        form=(r"(?i:https)?", "https, or empty"),
        mode=Mode.PER_BROKER,
    )
    ssl_reload_interval_ms = key(
        Kind.INT,
        10_000,
        "How often the files of keystores and truststores are checked for changes.",
        at_least=100,
        ours=True,
    )


UNDER_A_LISTENER = frozenset(TlsKeys.KEYS) - {"ssl.reload.interval.ms"}
"""Keys that can be set for one listener."""
