"""TLS listeners: certificates, their reload when files or settings change, peers' principals."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.config.broker import BrokerConfig
from headrace.config.tls_settings import TlsSettings, settings_by_listener
from headrace.model.errors import ConfigError
from headrace.net.tls.handshakes import Gate, Handshakes
from headrace.net.tls.tls import TlsConnection
from headrace.posix import tls
from headrace.posix.threads import Crew
from headrace.security.distinguished_name import subject_of
from headrace.security.identity import ANONYMOUS, USER, Principal
from headrace.security.principal_mapping import PrincipalMapping

if TYPE_CHECKING:
    from headrace.ports.clock import Clock, Timer

log = logging.getLogger(__name__)

_THREADS = 2
"""Threads that compute TLS handshakes and read certificates."""


class _Contexts(NamedTuple):
    """The SSL contexts of a listener, for accepted and for outgoing connections."""

    accepting: ssl.SSLContext
    connecting: ssl.SSLContext | None
    """For connections to other brokers' listener of the same name.

    None if brokers do not use it.
    """


class TlsListener:
    """A TLS listener: its SSL contexts, and users by certificate (`net.tls.tls.Door`)."""

    def __init__(self, settings: TlsSettings, *, between_brokers: bool) -> None:
        """Read the certificate files; blocks. Raises ConfigError."""
        self.name = settings.name
        self.between_brokers = between_brokers
        self.settings = settings
        self.stamps = _stamps(settings)
        """The files' stamps when they were last read, successfully or not."""
        self.contexts = _contexts(settings, between_brokers=between_brokers)
        self._mapping = PrincipalMapping(settings.mapping_rules)

    @property
    def plain_too(self) -> bool:
        """Whether clients that begin without TLS are served as well."""
        return self.settings.plain_too

    @property
    def context(self) -> ssl.SSLContext:
        """The SSL context for accepted connections."""
        return self.contexts.accepting

    def identify(self, certificate: bytes | None) -> Principal:
        """Return the principal of a client's verified certificate; ANONYMOUS without one.

        HeadraceError: the subject matches no mapping rule.
        """
        if certificate is None:
            return ANONYMOUS
        return Principal(USER, self._mapping.user(subject_of(certificate)))


class TlsListeners:
    """All TLS listeners of one broker. Used on the event loop."""

    def __init__(self, config: BrokerConfig, clock: "Clock", gate: Gate) -> None:
        """Read the certificates. Raises ConfigError.

        `gate` admits or refuses connections before a handshake.
        """
        self._clock = clock
        self._config = config
        self._crew = Crew("tls", asyncio.get_running_loop(), _THREADS)
        self._closed = False
        self._loading = False
        self._listeners = {
            name: TlsListener(settings, between_brokers=name in config.listeners_between_brokers)
            for name, settings in settings_by_listener(config.values, config.listeners).items()
        }
        self.handshakes = Handshakes(clock, partial(self._crew.submit, flush=False), gate)
        self._timer: Timer = self._look_later()

    def factory(self, name: str, made: Callable[[], Any]) -> Callable[[], Any]:
        """Return the factory of a listener's connections: over TLS if configured, else `made`."""
        listener = self._listeners.get(name)
        return made if listener is None else partial(TlsConnection, listener, self.handshakes, made)

    def connecting(self, name: str) -> ssl.SSLContext | None:
        """Return the SSL context for connections to that listener of other brokers.

        None: plain text.
        """
        listener = self._listeners.get(name)
        return None if listener is None else listener.contexts.connecting

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply altered settings: certificates whose settings changed are read again."""
        self._config = config
        self._load(by_hand=True)

    def close(self) -> None:
        """Stop the checks for changed files and end the threads.

        Blocks for one step of a handshake.
        """
        self._closed = True
        self._timer.cancel()
        self.handshakes.close()
        self._crew.stop()

    # changed files

    def _look_later(self) -> "Timer":
        seconds = self._config.ssl_reload_interval_ms / 1000
        return self._clock.call_later(seconds, self._look)

    def _look(self) -> None:
        if not self._closed:
            self._timer = self._look_later()
            self._load(by_hand=False)

    def _load(self, *, by_hand: bool) -> None:
        """Have a thread read certificates whose files or settings have changed.

        `by_hand`: also while another read is running.
        """
        if self._closed or (self._loading and not by_hand):
            return
        self._loading = True
        wanted = [
            (self._listeners[name], settings)
            for name, settings in settings_by_listener(
                self._config.values, self._config.listeners
            ).items()
            if name in self._listeners
        ]
        self._crew.submit(partial(_read_changed, wanted), self._loaded, flush=False)

    def _loaded(self, outcome: "Sequence[_Read] | BaseException") -> None:
        self._loading = False
        if isinstance(outcome, BaseException):
            log.error(
                "unexpected error while reading changed certificates; the current ones stay in use."
                " Report it with this traceback", exc_info=outcome,
            )  # fmt: skip
            return
        for listener, settings, stamps, read in outcome:
            listener.stamps, listener.settings = stamps, settings
            if isinstance(read, ConfigError):
                log.error(
                    "listener %s: changed certificates cannot be loaded, the current ones stay in"
                    " use: %s", listener.name, read,
                )  # fmt: skip
            else:
                listener.contexts = read
                log.info(
                    "listener %s: changed certificates loaded; new connections use them",
                    listener.name,
                )


_Stamps = tuple[tuple[int, ...] | None, ...]
_Read = tuple[TlsListener, TlsSettings, _Stamps, _Contexts | ConfigError]


def _contexts(settings: TlsSettings, *, between_brokers: bool) -> _Contexts:
    connecting = tls.peer_context(settings) if between_brokers else None
    return _Contexts(tls.server_context(settings), connecting)


def _stamps(settings: TlsSettings) -> _Stamps:
    return (tls.stamp(settings.keystore), tls.stamp(settings.truststore))


def _read_changed(wanted: Sequence[tuple[TlsListener, TlsSettings]]) -> list[_Read]:
    """Read the certificates of listeners whose files or settings have changed; on a thread."""
    found: list[_Read] = []
    for listener, settings in wanted:
        stamps = _stamps(settings)
        if stamps == listener.stamps and settings == listener.settings:
            continue
        try:
            read: _Contexts | ConfigError = _contexts(
                settings, between_brokers=listener.between_brokers
            )
        except ConfigError as problem:
            read = problem
        found.append((listener, settings, stamps, read))
    return found
