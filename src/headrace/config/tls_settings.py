"""The TLS settings of one listener: its own keys over those of all."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from headrace.config.listener_keys import ListenerValues
from headrace.config.listeners import (
    METRICS_LISTENER,
    METRICS_PREFIX_NAME,
    TLS_PROTOCOLS,
    Listener,
)
from headrace.config.value_types import Value
from headrace.model.protocols import row_of

_WHOLE_NAME = "DEFAULT"
_CERTIFICATES = ("ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain")
NAME_RULES = {
    "distinguished_name": _WHOLE_NAME,
    "common_name": r"RULE:^(?:.*?[^\\][,+])??CN=([^,+]+)(?:[,+].*)?$/$1/",
}
"""Rules that make users of certificates, by what RabbitMQ calls them (ssl_cert_login_from)."""


class Store(NamedTuple):
    """Where certificates come from, and the key where there is one. Secrets: not to be shown."""

    kind: str | None
    """PEM, PKCS12 or JKS; None: as its first bytes say."""
    location: str | None
    password: str | None
    key: str | None = None
    """PEM text, instead of a file."""
    certificates: str | None = None
    """PEM text, instead of a file."""
    key_password: str | None = None

    @property
    def given(self) -> bool:
        """Whether there is anything at all."""
        return self.location is not None or self.certificates is not None

    def __repr__(self) -> str:
        return f"Store({self.location or 'text'})"


class TlsSettings(NamedTuple):
    """What a listener shows, and what it asks to see."""

    name: str
    keystore: Store
    truststore: Store
    client_auth: str
    versions: tuple[str, ...]
    ciphers: tuple[str, ...]
    mapping_rules: str
    checks_hosts: bool = True
    """Whether another broker's certificate must be of the host that it is reached at."""


def tls_settings(values: Mapping[str, Value], listener: Listener) -> TlsSettings:
    """Return the settings of `listener` out of those by key."""
    own = ListenerValues(values)
    text, words = partial(own.text, listener.name), partial(own.words, listener.name)
    client_auth = text("ssl.client.auth") or "none"
    if listener.spoken.certificate_by_listener:
        # As in Kafka: a certificate is asked for beside a password only where a listener says so.
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
    )


def metrics_tls(values: Mapping[str, Value], listeners: Iterable[Listener]) -> TlsSettings | None:
    """Return the TLS settings of the HTTP listener, None where it is plain text.

    It speaks TLS where it has certificates of its own, named as a listener METRICS would name
    them; those of all listeners do not make it do so. Where `listeners` has one of that name, the
    keys are that one's.
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
    """Return the settings of every listener that speaks TLS, the HTTP one's included, by name."""
    listeners = tuple(listeners)
    found = {
        listener.name: tls_settings(values, listener)
        for listener in listeners
        if listener.protocol in TLS_PROTOCOLS
    }
    metrics = metrics_tls(values, listeners)
    return found if metrics is None else found | {metrics.name: metrics}


def _mapping_rules(listener: Listener, rules: str | None, values: Mapping[str, Value]) -> str:
    """Return how a certificate's name becomes a user's; Kafka's rules, if any, go first."""
    key = row_of(listener.protocol).certificate_users
    if key and rules in {None, _WHOLE_NAME}:
        return NAME_RULES[str(values[key])]
    return rules or _WHOLE_NAME


def problems_of(settings: TlsSettings) -> list[tuple[str, str, str]]:
    """Tell what is wrong with the settings themselves: the key, what to show of it, why."""
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
    """Tell how a Java keystore becomes one that can be read."""
    converted = location.removesuffix(".jks") + ".p12"
    return (
        "Java's own format is not read; convert it: keytool -importkeystore"
        f" -srckeystore {location} -destkeystore {converted} -deststoretype PKCS12"
    )
