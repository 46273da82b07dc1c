"""Accepting connections."""

import asyncio
import socket
from dataclasses import dataclass
from functools import partial

from headrace.net.connection import Connection
from headrace.net.table import ConnectionTable

BACKLOG_MAX = (1 << 31) - 1
"""The kernel takes its own limit for it."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: a listener's name, host and port (0: any free one; host "": everywhere)."""

    name: str
    host: str
    port: int


class Listener:
    """One open listening address."""

    def __init__(
        self, name: str, sockets: list[socket.socket], table: ConnectionTable, backlog: int
    ) -> None:
        self.name = name
        self.port: int = sockets[0].getsockname()[1]
        """The port listened on, chosen by the system where 0 was asked for."""
        self._sockets = sockets
        self._table = table
        self._backlog = backlog
        self._servers: list[asyncio.Server] = []

    @classmethod
    def bind(
        cls,
        address: Address,
        table: ConnectionTable,
        *,
        backlog: int = BACKLOG_MAX,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
    ) -> "Listener":
        """Take the address; OSError where that is impossible. Nothing is accepted yet.

        Bound before the broker is ready, so that a taken port is said at once; and listened on, so
        that up to `backlog` clients that come early wait instead of being refused, as with Kafka.
        """
        sockets: list[socket.socket] = []
        port = address.port
        try:
            for family, host in _resolve(address):
                one = _bind(family, host, port)
                sockets.append(one)
                port = one.getsockname()[1]
                if send_buffer_bytes > 0:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
                if receive_buffer_bytes > 0:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
                one.listen(backlog)
        except OSError:
            for one in sockets:
                one.close()
            raise
        return cls(address.name, sockets, table, backlog)

    async def accept(self) -> None:
        """Begin to accept."""
        loop = asyncio.get_running_loop()
        for one in self._sockets:
            server = await loop.create_server(
                partial(Connection, self._table, self.name),
                sock=one,
                backlog=self._backlog,
            )
            self._servers.append(server)

    def close(self) -> None:
        """Accept no more. Connections there are stay."""
        for server in self._servers:
            server.close()
        for one in self._sockets:
            one.close()


def _resolve(address: Address) -> list[tuple[int, str]]:
    host = address.host
    if host in {"", "*"}:
        return [(socket.AF_INET, "0.0.0.0")]  # noqa: S104 - asked for by name in the configuration
    # Bytes where that will do: text goes through the idna codec, and half a megabyte of its tables.
    name = host.encode() if host.isascii() else host
    found = socket.getaddrinfo(name, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    unique = dict.fromkeys((int(family), str(where[0])) for family, _, _, _, where in found)
    return list(unique)


def _bind(family: int, host: str, port: int) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.setblocking(False)
        one.bind((host, port))
    except OSError:
        one.close()
        raise
    return one
