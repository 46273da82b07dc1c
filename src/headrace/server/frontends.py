"""The frontend of each listener's protocol, which makes the sessions of its connections."""

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.config.broker import BrokerConfig
from headrace.config.listeners import spoken_rows
from headrace.model.protocols import row_of
from headrace.net.connection import Connection
from headrace.net.session import Session
from headrace.net.stream import StreamSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.broker import Broker
    from headrace.broker.gathered_writes import GatheredWrites
    from headrace.cluster.controller_port import ControllerPort
    from headrace.coordination.coordinators import Coordinators
    from headrace.operations.registry import Operations
    from headrace.ports.store import Store
    from headrace.server.cluster.queue_cluster import QueueCluster


class Parts(NamedTuple):
    """The dependencies of a protocol's frontend: broker, coordinators, controller, store."""

    broker: "Broker"
    coordinators: "Coordinators"
    writes: "GatheredWrites"
    """The broker's gathered writes, for the frontend's `net.write_pass.WritePass`."""
    controller: "ControllerPort"
    store: "Store | None"
    """The metadata store, open while frontends are; None before it is opened."""
    operations: "Operations"
    """The registry to which a frontend adds its administrative operations."""
    fatal: "Callable[[Exception], None]"
    """Called with a broken invariant to stop the process."""
    cluster: "QueueCluster | None" = None
    """This broker's part in the queues of a cluster; None: it has none."""


class OpensSessions(Protocol):
    """Makes the sessions of a listener's connections."""

    def open(self, connection: Connection, /) -> Session | StreamSession:
        """Return a session for a new connection."""


class Frontend(OpensSessions, Protocol):
    """The frontend of one protocol: it makes sessions, and is stopped with the broker."""

    async def stop(self) -> None:
        """End all sessions: frames are no longer read, and responses made by now are still sent."""


class OtherFrontend(Frontend, Protocol):
    """The frontend of a protocol other than Kafka's, which is also started."""

    async def start(self) -> None:
        """Become ready for clients; called once the cluster is joined and its topics are known."""


class Frontends:
    """The frontends of one broker, by listener."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._by_listener: dict[str, OpensSessions] = {}
        self._kafka: Frontend
        self._others: list[OtherFrontend] = []

    def operations(self, broker: "Broker") -> "Operations | None":
        """Return a registry for the operations of other protocols; None: only Kafka is spoken."""
        if not any(row.frontend for row in spoken_rows(self._config.listeners)):
            return None
        from headrace.operations.registry import Operations

        return Operations(broker)

    def make(self, kafka: Frontend, parts: Parts | None) -> None:
        """Create the frontends that the listeners need; `kafka` serves all other listeners.

        `parts`: None if only Kafka is spoken. Protocols in one row of `model.protocols` share a
        frontend; its code is imported here.
        """
        self._kafka = kafka
        if parts is None:
            return
        made: dict[str, OtherFrontend] = {}
        rows = [row for row in spoken_rows(self._config.listeners) if row.frontend]
        for row in sorted(rows, key=lambda row: bool(row.needs)):
            needed = [made[row.needs]] if row.needs else []
            made[row.name] = import_module(row.frontend).frontend(parts, *needed)
        for listener in self._config.listeners:
            if not listener.kafka:
                self._by_listener[listener.name] = made[row_of(listener.protocol).name]
        self._others = list(made.values())

    def add(self, listener: str, opens: OpensSessions) -> None:
        """Assign one more listener to `opens`, which the caller starts and stops."""
        self._by_listener[listener] = opens

    def open(self, connection: Connection) -> Session | StreamSession:
        """Return a new session of the protocol that the connection's listener speaks."""
        return self._by_listener.get(connection.listener, self._kafka).open(connection)

    async def start(self) -> None:
        """Start all frontends but Kafka's, one after another."""
        for frontend in self._others:
            await frontend.start()

    async def stop(self) -> None:
        """Stop all frontends, Kafka's included, at the same time."""
        await asyncio.gather(*(each.stop() for each in (self._kafka, *self._others)))
