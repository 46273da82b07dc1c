"""Which frontend makes the sessions of a listener's connections: by what is spoken there."""

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
    from headrace.broker.broker import Broker
    from headrace.broker.gathered_writes import GatheredWrites
    from headrace.cluster.controller_port import ControllerPort
    from headrace.coordination.coordinators import Coordinators
    from headrace.operations.registry import Operations
    from headrace.ports.store import Store


class Parts(NamedTuple):
    """What a frontend is made of."""

    broker: "Broker"
    coordinators: "Coordinators"
    writes: "GatheredWrites"
    """For its `net.write_pass.WritePass`."""
    controller: "ControllerPort"
    store: "Store | None"
    """The metadata store, where what clients declare is kept; it is open while frontends are."""
    operations: "Operations"
    """To which a frontend adds the operations that administrators call."""


class OpensSessions(Protocol):
    """Makes the sessions of a listener's connections."""

    def open(self, connection: Connection, /) -> Session | StreamSession:
        """Return a session for a new connection."""


class Frontend(OpensSessions, Protocol):
    """What clients of one kind of listener speak with."""

    async def stop(self) -> None:
        """Take leave of all clients: no frame comes any more, what is pushed now still leaves."""


class OtherFrontend(Frontend, Protocol):
    """What clients of another protocol than Kafka's speak with."""

    async def start(self) -> None:
        """Be ready for clients: the cluster is joined, its topics are known."""


class Frontends:
    """All of one broker."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._by_listener: dict[str, OpensSessions] = {}
        self._kafka: Frontend
        self._others: list[OtherFrontend] = []

    def make(self, kafka: Frontend, parts: Parts) -> None:
        """Make those that listeners ask for; `kafka` serves all other connections.

        Protocols of one row have one frontend; its code is imported here.
        """
        self._kafka = kafka
        made: dict[str, OtherFrontend] = {
            row.frontend: import_module(row.frontend).frontend(parts)
            for row in spoken_rows(self._config.listeners)
            if row.frontend
        }
        for listener in self._config.listeners:
            if not listener.kafka:
                self._by_listener[listener.name] = made[row_of(listener.protocol).frontend]
        self._others = list(made.values())

    def add(self, listener: str, opens: OpensSessions) -> None:
        """Have `opens` make the sessions of one more listener; it is started and stopped apart."""
        self._by_listener[listener] = opens

    def open(self, connection: Connection) -> Session | StreamSession:
        """Return a session for a new connection, as its listener's protocol has them."""
        return self._by_listener.get(connection.listener, self._kafka).open(connection)

    async def start(self) -> None:
        """Have all made ready for clients."""
        for frontend in self._others:
            await frontend.start()

    async def stop(self) -> None:
        """Have all take leave of their clients."""
        await asyncio.gather(*(each.stop() for each in (self._kafka, *self._others)))
