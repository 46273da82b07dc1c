"""Client settings that concern security, and those among them that are secret.

By the names of Kafka's clients and of librdkafka.
"""

from headrace.config.listeners import CLIENT_PROTOCOL

_STARTS = ("ssl.", "sasl.")
_OTHERS = frozenset({CLIENT_PROTOCOL, "enable.ssl.certificate.verification"})
_SECRETS = frozenset({"sasl.jaas.config", "ssl.keystore.key", "ssl.key.pem", "pass", "sasl.pass"})
_SECRET_WORDS = ("password", "secret", "token")
HIDDEN = "***"
"""Shown in place of a secret."""


def is_security(name: str) -> bool:
    """Return whether a client setting concerns TLS, authentication or the security protocol."""
    return name.startswith(_STARTS) or name in _OTHERS


def is_secret(name: str) -> bool:
    """Return whether a client setting's value must not be shown."""
    return name in _SECRETS or any(word in name for word in _SECRET_WORDS)
