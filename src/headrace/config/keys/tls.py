"""Keys of TLS: the certificates of listeners, and whom they trust.

Each may be set for one listener by itself: `listener.name.<name in lower case>.<key>`.
"""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind, Mode

STORE_TYPES = ("PEM", "PKCS12", "JKS")
"""JKS is known so that it can be refused with the command that converts it."""
CLIENT_AUTH = ("none", "requested", "required")
VERSIONS = ("TLSv1.2", "TLSv1.3")


class TlsKeys(Keys):
    """What listeners of SSL and SASL_SSL show, and what they ask to see."""

    ssl_keystore_type: str | None = key(
        Kind.STRING,
        None,
        "What ssl.keystore.location is: PEM, or PKCS12 (which needs headrace[tls]); unset: found"
        " out by its first bytes. JKS, Kafka's default, is not read: keytool converts it.",
        words=STORE_TYPES,
    )
    ssl_keystore_location: str | None = key(
        Kind.STRING,
        None,
        "The file with a listener's private key and its chain of certificates, its own first. Read"
        " again when it changes.",
    )
    ssl_keystore_password: str | None = key(
        Kind.PASSWORD, None, "What a PKCS12 keystore is encrypted with; PEM has none."
    )
    ssl_key_password: str | None = key(
        Kind.PASSWORD, None, "What the private key itself is encrypted with, if it is."
    )
    ssl_keystore_key: str | None = key(
        Kind.PASSWORD, None, "The private key itself, as PEM, instead of a file."
    )
    ssl_keystore_certificate_chain: str | None = key(
        Kind.PASSWORD, None, "The certificates for ssl.keystore.key, as PEM, its own first."
    )
    ssl_truststore_type: str | None = key(
        Kind.STRING,
        None,
        "What ssl.truststore.location is, as ssl.keystore.type says it.",
        words=STORE_TYPES,
    )
    ssl_truststore_location: str | None = key(
        Kind.STRING,
        None,
        "The file with the certificates of the authorities whose clients are believed. Read again"
        " when it changes.",
    )
    ssl_truststore_password: str | None = key(
        Kind.PASSWORD, None, "What a PKCS12 truststore is encrypted with; PEM has none."
    )
    ssl_truststore_certificates: str | None = key(
        Kind.PASSWORD, None, "The authorities' certificates themselves, as PEM, instead of a file."
    )
    ssl_client_auth = key(
        Kind.STRING,
        "none",
        "Whether clients must show a certificate: required; or may: requested, then who shows none"
        " is ANONYMOUS. Not on SASL_SSL unless it is set for that listener by name, as in Kafka.",
        words=CLIENT_AUTH,
        mode=Mode.PER_BROKER,
    )
    ssl_enabled_protocols: tuple[str, ...] = key(
        Kind.LIST,
        ("TLSv1.2", "TLSv1.3"),
        "Versions of TLS that listeners speak.",
        words=VERSIONS,
        mode=Mode.PER_BROKER,
    )
    ssl_cipher_suites: tuple[str, ...] = key(
        Kind.LIST,
        (),
        "The ciphers of TLS 1.2, by OpenSSL's names or by the standard's; none: what OpenSSL holds"
        " for safe. Those of TLS 1.3 are always all of them.",
        mode=Mode.PER_BROKER,
    )
    ssl_principal_mapping_rules = key(
        Kind.STRING,
        "DEFAULT",
        "How a certificate's distinguished name becomes a user's: RULE:pattern/replacement/[LU], or"
        " DEFAULT for the name as it is; the first that fits. Who fits none is refused.",
    )
    ssl_endpoint_identification_algorithm = key(
        Kind.STRING,
        "https",
        "How a broker checks that another one's certificate is of the host that it connected to:"
        " https, or empty for no check: then any holder of a certificate of the same authority can"
        " pass for a broker.",
        form=(r"(?i:https)?", "https, or empty"),
        mode=Mode.PER_BROKER,
    )
    ssl_reload_interval_ms = key(
        Kind.INT,
        10_000,
        "How often the files of keystores and truststores are looked at for changes.",
        at_least=100,
        ours=True,
    )


UNDER_A_LISTENER = frozenset(TlsKeys.KEYS) - {"ssl.reload.interval.ms"}
"""Keys that a listener may have of its own."""
