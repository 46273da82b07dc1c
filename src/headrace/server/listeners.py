"""A broker's listeners: bound before the logs load, accepting after; with TLS where configured.

The Unix socket for local administration (`admin.socket`, ADR 46) is opened here too.
"""

import asyncio
import logging
import os
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.metadata_image import Endpoint
from headrace.config.broker import BrokerConfig
from headrace.config.listeners import METRICS_LISTENER
from headrace.config.tls_settings import metrics_tls, settings_by_listener, uses_tls
from headrace.log import file_names
from headrace.model.errors import ConfigError
from headrace.model.nouns import BrokerId
from headrace.model.protocols import loaded, row_of
from headrace.net.foreign_clients import ForeignClients, Spoken
from headrace.net.listener import Address, Listener
from headrace.net.local import LocalConnection
from headrace.net.table import ConnectionTable
from headrace.ports.network import Listening, ListenOptions
from headrace.security.identity import LOCAL_LISTENER
from headrace.wire.first_bytes import HTTP

if TYPE_CHECKING:
    from headrace.ports.world import World
    from headrace.security.sasl.token_verifier import TokenVerifier
    from headrace.server.tls_listeners import TlsListeners
    from headrace.server.token_keys import TokenKeys

log = logging.getLogger(__name__)


class Doors:
    """All listeners of one broker, with their TLS contexts and token keys.

    Used on the event loop.
    """

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.tls: TlsListeners | None = None
        """None if no listener speaks TLS."""
        self.token_keys: TokenKeys | None = None
        """None if no listener accepts OAUTHBEARER tokens."""
        self.local_path: str | None = None
        """Absolute path of the Unix socket for administration; None without one."""
        self._local: Listening | None = None
        self._table: ConnectionTable
        self._bound_to_one: frozenset[str] = frozenset()
        """Listeners that a drained broker closes, by name."""
        self._is_open = self._is_drained = False
        self._resuming: asyncio.Task[None] | None = None

    def bind(
        self,
        config: BrokerConfig,
        table: ConnectionTable,
        world: "World",
        verifiers: "dict[str, TokenVerifier]",
    ) -> None:
        """Bind all addresses and read the certificates; nothing is accepted yet.

        Raises ConfigError. `verifiers` receives the token verifier of each OAUTHBEARER listener, by
        the listener's name.
        """
        if any(listener.oauthbearer is not None for listener in config.sasl.values()):
            from headrace.server.token_keys import TokenKeys

            self.token_keys = TokenKeys(config, world.clock, verifiers)
        if settings_by_listener(config.values, config.listeners):
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
        self._table = table
        self._bound_to_one = frozenset(
            listener.name for listener in config.listeners if row_of(listener.protocol).feature
        )
        table.foreign = ForeignClients(self._spoken(config))
        self._bind_local(config, world)

    def _spoken(self, config: BrokerConfig) -> dict[str, Spoken]:
        """Return the protocol of each listener by its name, metrics.listener included.

        It is named to clients that connect with another protocol.
        """
        spoken = {}
        for listener, bound in zip(config.listeners, self.listeners, strict=True):
            row, protocol = row_of(listener.protocol), listener.spoken
            if not row.first_bytes:
                continue
            where = str(listener._replace(port=bound.port)).partition("://")[2]
            spoken[listener.name] = Spoken(
                loaded(row.first_bytes),
                protocol.name,
                f"{protocol.scheme}://{where}" if protocol.scheme else where,
                uses_tls(config.values, listener),
                protocol.tls_advice or f"set security.protocol={protocol.name} there",
            )
        if config.metrics_address is not None:
            host, port = config.metrics_address
            tls = metrics_tls(config.values, config.listeners) is not None
            name, scheme = ("HTTPS", "https") if tls else ("HTTP", "http")
            where = f"{scheme}://{host}:{port}/metrics"
            spoken[METRICS_LISTENER] = Spoken(HTTP, name, where, tls, "use https:// there")
        return spoken

    def _bind_local(self, config: BrokerConfig, world: "World") -> None:
        """Bind the Unix socket for administration.

        ConfigError if `admin.socket` names a path that cannot be bound; a default path that cannot
        is logged, and the broker goes on without.
        """
        wanted = config.admin_socket
        path = f"{config.log_dirs[0]}/{file_names.ADMIN_SOCKET}" if wanted is None else wanted
        if not path:
            return
        try:
            self._local = world.network.listen_local(path)
        except OSError as problem:
            reason = f"admin.socket={path}: {(problem.strerror or str(problem)).lower()}"
            if wanted is not None:
                raise ConfigError(reason) from problem
            # Some file systems have no sockets; a broker can run without this one.
            log.warning(
                "%s; the Unix socket for administration is not available. Set admin.socket to"
                " another path", reason,
            )  # fmt: skip
        else:
            self.local_path = None if self._local is None else os.path.abspath(path)

    def local_of(self, broker_id: BrokerId) -> tuple[BrokerId, Endpoint] | None:
        """Return (`broker_id`, endpoint of the Unix socket for clients); None without a socket."""
        if self.local_path is None:
            return None
        return broker_id, Endpoint(LOCAL_LISTENER, f"unix:{self.local_path}", 0)

    def of_kafka(self, config: BrokerConfig) -> list[Listener]:
        """Return the listeners advertised to Kafka clients and brokers, in configured order."""
        names = {listener.name for listener in config.listeners if listener.kafka}
        return [listener for listener in self.listeners if listener.name in names]

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply altered settings to the TLS listeners; suspend or resume others (`broker.drained`).

        Clients of a suspended listener connect to another broker.
        """
        if self.tls is not None:
            self.tls.reconfigure(config)
        self._is_drained = config.broker_drained
        for listener in self.listeners:
            if self._is_drained and listener.name in self._bound_to_one:
                listener.suspend()
        if not self._is_drained and any(each.is_suspended for each in self.listeners):
            self._resuming = asyncio.get_running_loop().create_task(self._resume())

    async def _resume(self) -> None:
        """Listen again for the clients of a broker that was drained."""
        for listener in self.listeners:
            try:
                if self._is_open and not self._is_drained:
                    await listener.resume(None if self.tls is None else self.tls.factory)
            except OSError as problem:
                log.error(
                    "listener %s cannot listen on port %d again: %s. Free the port and restart the"
                    " broker", listener.name, listener.port, problem,
                )  # fmt: skip

    async def open(self) -> None:
        """Accept connections, after the first attempt to load the keys of tokens."""
        if self.token_keys is not None:
            await self.token_keys.asked()
        self._is_open = True
        for listener in self.listeners:
            if not listener.is_suspended:
                await listener.accept(None if self.tls is None else self.tls.factory)
        await self._resume()
        if self._local is not None:
            await self._local.accept(partial(LocalConnection, self._table))

    def close(self) -> None:
        """Stop accepting and end unfinished TLS handshakes; established connections stay open."""
        self._is_open = False
        for listener in self.listeners:
            listener.close()
        if self._local is not None:
            self._local.close()
        if self.tls is not None:
            self.tls.close()
        if self.token_keys is not None:
            self.token_keys.close()
