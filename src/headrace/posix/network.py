"""`RealNetwork`: TCP and Unix sockets of the operating system. Implements `ports.network`."""

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from headrace.ports.network import BACKLOG_MAX, ListenOptions
from headrace.posix.local_socket import LocalListening

if TYPE_CHECKING:
    from ssl import SSLContext

P = TypeVar("P")


class RealListening:
    """The listening sockets of one address. Implements `ports.network.Listening`."""

    def __init__(self, sockets: list[socket.socket], backlog: int) -> None:
        self.port: int = sockets[0].getsockname()[1]
        """The bound port."""
        self._sockets = sockets
        self._backlog = backlog
        self._servers: list[asyncio.Server] = []

    async def accept(self, made: Callable[[], Any]) -> None:
        """Start accepting; `made` makes the protocol of each connection."""
        loop = asyncio.get_running_loop()
        for bound in self._sockets:
            server = await loop.create_server(made, sock=bound, backlog=self._backlog)
            self._servers.append(server)

    def close(self) -> None:
        """Stop accepting; open connections stay."""
        for server in self._servers:
            server.close()
        for bound in self._sockets:
            bound.close()


class RealNetwork:
    """The operating system's network, on the running loop. Implements `ports.network.Network`."""

    def host_name(self) -> str:
        """Return the machine's host name."""
        return socket.gethostname()

    def listen(self, host: str, port: int, options: ListenOptions) -> RealListening:
        """Bind the address and listen; OSError if that fails."""
        sockets: list[socket.socket] = []
        try:
            for family, address in _resolve(host, port):
                bound = _bind(family, address, port)
                sockets.append(bound)
                port = bound.getsockname()[1]
                if options.send_buffer_bytes > 0:
                    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
                if options.receive_buffer_bytes > 0:
                    size = options.receive_buffer_bytes
                    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
                bound.listen(options.backlog)
        except OSError:
            for bound in sockets:
                bound.close()
            raise
        return RealListening(sockets, options.backlog)

    def listen_local(self, path: str, backlog: int = BACKLOG_MAX) -> LocalListening:
        """Bind the Unix socket `path` and listen; OSError if that fails."""
        return LocalListening.bind(path, backlog)

    async def connect(
        self, made: Callable[[], P], host: str, port: int, tls: "SSLContext | None" = None
    ) -> P:
        """Connect by TCP, with TLS if `tls` is given; return the connected protocol."""
        loop = asyncio.get_running_loop()
        factory = cast("Callable[[], asyncio.BaseProtocol]", made)
        name = None if tls is None else host
        _, protocol = await loop.create_connection(
            factory, host, port, ssl=tls, server_hostname=name
        )
        return cast("P", protocol)


def _resolve(host: str, port: int) -> list[tuple[int, str]]:
    if host in {"", "*"}:
        return [(socket.AF_INET, "0.0.0.0")]  # noqa: S104 - asked for by name in the configuration
    # Bytes if possible: text goes through the idna codec, which loads half a megabyte of tables.
    name = host.encode() if host.isascii() else host
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    unique = dict.fromkeys((int(family), str(where[0])) for family, _, _, _, where in found)
    return list(unique)


def _bind(family: int, host: str, port: int) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.setblocking(False)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
