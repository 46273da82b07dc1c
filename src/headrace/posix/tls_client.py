"""TLS for clients by the names of Kafka's and librdkafka's settings. Blocking: files are read.

Certificate chain and host name are always verified. Kafka's setting to skip the host name,
`ssl.endpoint.identification.algorithm=`, is accepted with a warning; the chain cannot be skipped.
"""

import logging
import ssl
from collections.abc import Mapping
from pathlib import Path

from headrace.config.keys.tls import VERSIONS
from headrace.config.listeners import TLS_PROTOCOLS, client_protocol
from headrace.config.tls_settings import Store
from headrace.model.errors import ConfigError
from headrace.posix.tls import Named, restrict, show, trust

log = logging.getLogger(__name__)

_CA_LOCATION, _CA_PEM = "ssl.ca.location", "ssl.ca.pem"
_IDENTIFICATION = "ssl.endpoint.identification.algorithm"
_VERIFICATION = "enable.ssl.certificate.verification"
_CERTIFICATE = ("ssl.certificate.location", "ssl.certificate.pem")
_KEY = ("ssl.key.location", "ssl.key.pem")
_KNOWN = frozenset({
    _CA_LOCATION, _CA_PEM, _IDENTIFICATION, _VERIFICATION, *_CERTIFICATE, *_KEY,
    "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password",
    "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.type",
    "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.certificates",
    "ssl.enabled.protocols", "ssl.cipher.suites", "ssl.protocol",
})  # fmt: skip
_OF_CLIENT = Named("ssl.keystore.location", "ssl.keystore.password", "ssl.key.password")


def client_context(settings: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the SSL context for connections, or None for plain text; raises ConfigError.

    Only security settings of `settings` are used; an unknown one is refused.
    """
    if client_protocol(settings) not in TLS_PROTOCOLS:
        return None
    for name in settings:
        if name.startswith("ssl.") and name not in _KNOWN:
            raise ConfigError(f"{name}: unknown setting")
    if settings.get(_VERIFICATION, "true").strip().lower() != "true":
        raise ConfigError(
            f"{_VERIFICATION}: brokers' certificates are always verified: name their authority in"
            f" {_CA_LOCATION}"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    restrict(
        context,
        _versions(settings),
        _words(settings.get("ssl.cipher.suites", "")),
    )
    _trust(context, settings)
    _show(context, settings)
    _identify(context, settings)
    return context


def _versions(settings: Mapping[str, str]) -> list[str]:
    found = _words(settings.get("ssl.enabled.protocols", "")) or list(VERSIONS)
    for version in found:
        if version not in VERSIONS:
            raise ConfigError(
                f"ssl.enabled.protocols: {version} is not one of {', '.join(VERSIONS)}"
            )
    return found


def _trust(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    location = settings.get("ssl.truststore.location")
    given = settings.get("ssl.truststore.certificates", settings.get(_CA_PEM))
    if location is not None or given is not None:
        store = Store(
            settings.get("ssl.truststore.type"),
            location,
            settings.get("ssl.truststore.password"),
            certificates=None if location is not None else given,
        )
        trust(context, store)
    elif _CA_LOCATION in settings:
        path = settings[_CA_LOCATION]
        if Path(path).is_dir():  # as made by `openssl rehash`
            context.load_verify_locations(capath=path)
        else:
            trust(context, Store("PEM", path, None), Named(_CA_LOCATION, "", ""))
    else:
        context.load_default_certs()


def _show(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    password = settings.get("ssl.key.password")
    if any(name in settings for name in (*_CERTIFICATE, *_KEY)):
        key, chain = _text(settings, *_KEY), _text(settings, *_CERTIFICATE)
        if key is None or chain is None:
            missing = _KEY[0] if key is None else _CERTIFICATE[0]
            raise ConfigError(f"{missing}: a client's certificate and key must be set together")
        show(context, Store("PEM", None, None, key, chain, password), _OF_CLIENT)
        return
    store = Store(
        settings.get("ssl.keystore.type"),
        settings.get("ssl.keystore.location"),
        settings.get("ssl.keystore.password"),
        settings.get("ssl.keystore.key"),
        settings.get("ssl.keystore.certificate.chain"),
        password,
    )
    if store.given:
        show(context, store, _OF_CLIENT)


def _text(settings: Mapping[str, str], location: str, pem: str) -> str | None:
    if location not in settings:
        return settings.get(pem)
    try:
        with open(settings[location], encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{location}={settings[location]}: {error}") from None


def _identify(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    wanted = settings.get(_IDENTIFICATION, "https").strip().lower()
    if wanted in {"", "none"}:
        context.check_hostname = False
        log.warning(
            "%s is empty: any holder of a certificate of the same authority can pose as a broker",
            _IDENTIFICATION,
        )
    elif wanted != "https":
        raise ConfigError(f"{_IDENTIFICATION}={wanted}: must be https, or empty for no check")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
