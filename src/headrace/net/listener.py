"""`Listener`: accepts the connections of one address."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from headrace.net.connection import Connection
from headrace.net.table import ConnectionTable
from headrace.ports.network import Listening, ListenOptions, Network

_DEFAULT = ListenOptions()
Under = Callable[[str, Callable[[], Any]], Callable[[], Any]]
"""Wraps a listener's connection factory, by name, with TLS if the listener uses it."""


class Address(NamedTuple):
    """An address to listen on: listener name, host ("": all) and port (0: any free one)."""

    name: str
    host: str
    port: int


class Listener:
    """A bound address whose connections enter a table."""

    def __init__(
        self, name: str, table: ConnectionTable, listen: Callable[[int], Listening], port: int
    ) -> None:
        """`listen` binds a port of the address; `port` may be 0. Raises OSError."""
        self.name = name
        self._listen = listen
        self._listening = listen(port)
        self.port = self._listening.port
        """The bound port, chosen by the system if 0 was requested."""
        self._table = table
        self.is_suspended = False
        """Whether clients are refused, as the address is not bound."""

    @classmethod
    def bind(
        cls,
        address: Address,
        table: ConnectionTable,
        network: Network,
        options: ListenOptions = _DEFAULT,
    ) -> "Listener":
        """Bind the address; OSError if that fails. Nothing is accepted yet.

        Bound before the broker is ready: a port in use is reported at once, and early clients wait
        instead of being refused, as with Kafka.
        """
        return cls(
            address.name,
            table,
            lambda port: network.listen(address.host, port, options),
            address.port,
        )

    async def accept(self, under: Under | None = None) -> None:
        """Start accepting; `under` adds TLS to the connections if the listener uses it."""
        made: Callable[[], Any] = partial(Connection, self._table, self.name)
        await self._listening.accept(made if under is None else under(self.name, made))

    def suspend(self) -> None:
        """Refuse clients until `resume`; open connections stay."""
        if not self.is_suspended:
            self._listening.close()
            self.is_suspended = True

    async def resume(self, under: Under | None = None) -> None:
        """Bind the address again, and accept. OSError: another process has the port."""
        if self.is_suspended:
            self._listening = self._listen(self.port)
            self.is_suspended = False
            await self.accept(under)

    def close(self) -> None:
        """Stop accepting; open connections stay."""
        self._listening.close()
