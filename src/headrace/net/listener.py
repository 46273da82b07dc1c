"""Accepting connections."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from headrace.net.connection import Connection
from headrace.net.table import ConnectionTable
from headrace.ports.network import Listening, ListenOptions, Network

_DEFAULT = ListenOptions()
Under = Callable[[str, Callable[[], Any]], Callable[[], Any]]
"""Returns what makes a listener's connections, by its name and what makes them without TLS."""


class Address(NamedTuple):
    """Where to listen: a listener's name, host and port (0: any free one; host "": everywhere)."""

    name: str
    host: str
    port: int


class Listener:
    """One open listening address, whose connections enter a table."""

    def __init__(self, name: str, listening: Listening, table: ConnectionTable) -> None:
        self.name = name
        self.port = listening.port
        """The port listened on, chosen by the system where 0 was asked for."""
        self._listening = listening
        self._table = table

    @classmethod
    def bind(
        cls,
        address: Address,
        table: ConnectionTable,
        network: Network,
        options: ListenOptions = _DEFAULT,
    ) -> "Listener":
        """Take the address; OSError where that is impossible. Nothing is accepted yet.

        Bound before the broker is ready, so that a taken port is said at once; and listened on, so
        that clients that come early wait instead of being refused, as with Kafka.
        """
        return cls(address.name, network.listen(address.host, address.port, options), table)

    async def accept(self, under: Under | None = None) -> None:
        """Begin to accept; `under` puts TLS under the connections where the listener speaks it."""
        made: Callable[[], Any] = partial(Connection, self._table, self.name)
        await self._listening.accept(made if under is None else under(self.name, made))

    def close(self) -> None:
        """Accept no more. Connections there are stay."""
        self._listening.close()
