"""TLS settings of a listener: its own `listener.name.<name>.ssl.*` keys, else the general ones."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from headrace.config.listener_keys import ListenerValues
from headrace.config.listeners import (
    METRICS_LISTENER,
    METRICS_PREFIX_NAME,
    Listener,
)
from headrace.config.value_types import Value
from headrace.model.protocols import row_of

PERMISSIVE, ENFORCING = "permissive", "enforcing"
"""Values of a protocol's `tls_mode`: TLS and plain text on one port, or TLS alone."""
_WHOLE_NAME = "DEFAULT"
"""Kafka's mapping rule for the whole distinguished name."""
_CERTIFICATES = ("ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain")
"""Keys of which one must be set for the HTTP listener to speak TLS."""
NAME_RULES = {
    "distinguished_name": _WHOLE_NAME,
    "common_name": r"RULE:^(?:.*?[^\\][,+])??CN=([^,+]+)(?:[,+].*)?$/$1/",
}
"""Kafka mapping rules by the values of RabbitMQ's ssl_cert_login_from."""


class Store(NamedTuple):
    """A keystore or truststore, from a file or as PEM text. Holds secrets: its repr hides them."""

    kind: str | None
    """PEM, PKCS12 or JKS; None: determined from the file's first bytes."""
    location: str | None
    """The file's path; None with PEM text."""
    password: str | None
    key: str | None = None
    """PEM text of the private key; None with a file."""
    certificates: str | None = None
    """PEM text of the certificates; None with a file."""
    key_password: str | None = None

    @property
    def given(self) -> bool:
        """Whether a file or certificates are configured."""
        return self.location is not None or self.certificates is not None

    def __repr__(self) -> str:
        return f"Store({self.location or 'text'})"


class TlsSettings(NamedTuple):
    """Certificates, client authentication, versions and ciphers of one TLS listener."""

    name: str
    keystore: Store
    truststore: Store
    client_auth: str
    """`ssl.client.auth`: none, requested or required."""
    versions: tuple[str, ...]
    ciphers: tuple[str, ...]
    mapping_rules: str
    """`ssl.principal.mapping.rules`: from a certificate's subject to a user."""
    checks_hosts: bool = True
    """Whether another broker's certificate must match the host this broker connects to."""
    plain_too: bool = False
    """Whether clients without TLS are served on the same port."""


def tls_settings(values: Mapping[str, Value], listener: Listener) -> TlsSettings:
    """Return the TLS settings of `listener` from all values by key."""
    own = ListenerValues(values)
    text, words = partial(own.text, listener.name), partial(own.words, listener.name)
    mode_key = listener.spoken.tls_mode
    client_auth = text("ssl.client.auth") or "none"
    if listener.spoken.certificate_by_listener:
        # As in Kafka: a SASL_SSL listener requests certificates only by its own key.
        client_auth = str(own.own(listener.name, "ssl.client.auth") or "none")
    return TlsSettings(
        listener.name,
        Store(
            text("ssl.keystore.type"),
            text("ssl.keystore.location"),
            text("ssl.keystore.password"),
            text("ssl.keystore.key"),
            text("ssl.keystore.certificate.chain"),
            text("ssl.key.password"),
        ),
        Store(
            text("ssl.truststore.type"),
            text("ssl.truststore.location"),
            text("ssl.truststore.password"),
            certificates=text("ssl.truststore.certificates"),
        ),
        client_auth,
        words("ssl.enabled.protocols"),
        words("ssl.cipher.suites"),
        _mapping_rules(listener, text("ssl.principal.mapping.rules"), values),
        bool(text("ssl.endpoint.identification.algorithm")),
        bool(mode_key) and values[mode_key] == PERMISSIVE,
    )


def uses_tls(values: Mapping[str, Value], listener: Listener) -> bool:
    """Return whether `listener` serves clients that begin with TLS."""
    spoken = listener.spoken
    if not spoken.tls_mode:
        return spoken.tls
    mode = values[spoken.tls_mode]
    if mode == PERMISSIVE:
        return tls_settings(values, listener).keystore.given
    return mode == ENFORCING


def requires_certificate(values: Mapping[str, Value], listener: Listener) -> bool:
    """Return whether `listener` serves only clients that have a trusted certificate."""
    settings = tls_settings(values, listener)
    required = settings.client_auth == "required" and not settings.plain_too
    return required and uses_tls(values, listener)


def metrics_tls(values: Mapping[str, Value], listeners: Iterable[Listener]) -> TlsSettings | None:
    """Return the TLS settings of the HTTP listener, or None for plain text.

    It speaks TLS if certificates are configured under `listener.name.metrics.`; the general ssl.*
    certificates do not enable it. If `listeners` has one named METRICS, those keys belong to that
    one.
    """
    own = ListenerValues(values)
    if all(own.own(METRICS_PREFIX_NAME, key) is None for key in _CERTIFICATES):
        return None
    if not values["metrics.listener"] or METRICS_PREFIX_NAME in {
        listener.name for listener in listeners
    }:
        return None
    settings = tls_settings(values, Listener(METRICS_PREFIX_NAME, "", 0, "SSL"))
    return settings._replace(name=METRICS_LISTENER)


def settings_by_listener(
    values: Mapping[str, Value], listeners: Iterable[Listener]
) -> dict[str, TlsSettings]:
    """Return the settings of every TLS listener by name, the HTTP listener included."""
    listeners = tuple(listeners)
    found = {
        listener.name: tls_settings(values, listener)
        for listener in listeners
        if uses_tls(values, listener)
    }
    metrics = metrics_tls(values, listeners)
    return found if metrics is None else found | {metrics.name: metrics}


def _mapping_rules(listener: Listener, rules: str | None, values: Mapping[str, Value]) -> str:
    """Return the rules from certificates to users: Kafka's key if set, else the protocol's key."""
    key = row_of(listener.protocol).certificate_users
    if key and rules in {None, _WHOLE_NAME}:
        return NAME_RULES[str(values[key])]
    return rules or _WHOLE_NAME


def problems_of(settings: TlsSettings) -> list[tuple[str, str, str]]:
    """Return what is wrong with a listener's TLS settings: the key, the value to show, the reason.

    Files are not read here.
    """
    wrong: list[tuple[str, str, str]] = []
    keystore, truststore = settings.keystore, settings.truststore
    where = f"listener {settings.name}"
    if not keystore.given:
        reason = f"{where} speaks TLS and needs its key and certificate: name a PEM or PKCS12 file"
        wrong.append(("ssl.keystore.location", "", reason))
    if (keystore.key is None) != (keystore.certificates is None):
        reason = "go together with ssl.keystore.key: give both, or a file"
        wrong.append(("ssl.keystore.certificate.chain", "…", reason))
    for store, key in ((keystore, "ssl.keystore"), (truststore, "ssl.truststore")):
        if store.certificates is not None and store.location is not None:
            reason = f"{where} has its certificates in the settings as well: give one of the two"
            wrong.append((f"{key}.location", store.location, reason))
        if store.kind == "PEM" and store.password is not None:
            reason = "a PEM store has no password of its own (a key may have: ssl.key.password)"
            wrong.append((f"{key}.password", "…", reason))
        if store.kind in {"PKCS12", "JKS"} and store.certificates is not None:
            reason = "certificates in the settings are PEM: leave the type out"
            wrong.append((f"{key}.type", store.kind, reason))
        if store.kind == "JKS":
            wrong.append((f"{key}.type", "JKS", jks_refusal(store.location or "keystore.jks")))
    if settings.client_auth != "none" and not truststore.given:
        reason = f"{where} needs ssl.truststore.location: else no client's certificate is believed"
        wrong.append(("ssl.client.auth", settings.client_auth, reason))
    if not any(settings.versions):
        wrong.append(("ssl.enabled.protocols", "", f"{where} speaks no version of TLS at all"))
    return wrong


def jks_refusal(location: str) -> str:
    """Return the error text for a JKS keystore, with the command that converts it."""
    converted = location.removesuffix(".jks") + ".p12"
    return (
        "Java's own format is not read; convert it: keytool -importkeystore"
        f" -srckeystore {location} -destkeystore {converted} -deststoretype PKCS12"
    )
