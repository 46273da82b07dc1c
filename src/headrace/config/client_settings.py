"""Which of a client's settings are of security, and which of those nobody may see.

By Kafka's names and by librdkafka's.
"""

from headrace.config.listeners import CLIENT_PROTOCOL

_STARTS = ("ssl.", "sasl.")
_OTHERS = frozenset({CLIENT_PROTOCOL, "enable.ssl.certificate.verification"})
_SECRETS = frozenset({"sasl.jaas.config", "ssl.keystore.key", "ssl.key.pem", "pass", "sasl.pass"})
_SECRET_WORDS = ("password", "secret", "token")
HIDDEN = "***"
"""What is shown in place of a secret."""


def is_security(name: str) -> bool:
    """Tell whether a setting says how brokers are come to: TLS, and who the client is."""
    return name.startswith(_STARTS) or name in _OTHERS


def is_secret(name: str) -> bool:
    """Tell whether a setting's value must be shown to nobody."""
    return name in _SECRETS or any(word in name for word in _SECRET_WORDS)
