"""A broker's listeners: bound early, opened when it is ready, TLS under those that speak it."""

from typing import TYPE_CHECKING

from headrace.config.broker import BrokerConfig
from headrace.config.tls_settings import TLS_PROTOCOLS
from headrace.model.errors import ConfigError
from headrace.net.listener import Address, Listener
from headrace.net.table import ConnectionTable
from headrace.ports.network import ListenOptions

if TYPE_CHECKING:
    from headrace.ports.world import World
    from headrace.server.tls_listeners import TlsListeners


class Doors:
    """All listeners of one broker. Used on the loop."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.tls: TlsListeners | None = None
        """None where no listener speaks TLS."""

    def bind(self, config: BrokerConfig, table: ConnectionTable, world: "World") -> None:
        """Take the addresses and read the certificates; ConfigError. Nothing is accepted yet."""
        if any(listener.protocol in TLS_PROTOCOLS for listener in config.listeners):
            from headrace.server.tls_listeners import TlsListeners

            self.tls = TlsListeners(config, world.clock, table)
        options = ListenOptions(
            config.socket_listen_backlog_size,
            config.socket_send_buffer_bytes,
            config.socket_receive_buffer_bytes,
        )
        for listener in config.listeners:
            address = Address(listener.name, listener.host, listener.port)
            try:
                self.listeners.append(Listener.bind(address, table, world.network, options))
            except OSError as problem:
                reason = problem.strerror or str(problem)
                raise ConfigError(f"listeners={listener}: {reason.lower()}") from problem

    def reconfigure(self, config: BrokerConfig) -> None:
        """Follow altered settings."""
        if self.tls is not None:
            self.tls.reconfigure(config)

    async def open(self) -> None:
        """Begin to accept."""
        for listener in self.listeners:
            await listener.accept(None if self.tls is None else self.tls.factory)

    def close(self) -> None:
        """Accept no more, and end the handshakes under way. Connections there are stay."""
        for listener in self.listeners:
            listener.close()
        if self.tls is not None:
            self.tls.close()
