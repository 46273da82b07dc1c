"""Connections by the Unix socket for administration: let in is who runs the client, by his uid."""

import logging
import os
import socket
import struct
from asyncio import BaseTransport, Transport
from typing import NamedTuple, cast

from headrace.net.connection import Connection
from headrace.net.table import ConnectionTable
from headrace.security.identity import LOCAL, LOCAL_LISTENER

log = logging.getLogger(__name__)

ROOT = 0
_CREDENTIALS = struct.Struct("3i")


class Peer(NamedTuple):
    """A process at the other end of a Unix socket, as the kernel knows it."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """Return who has made the connection (SO_PEERCRED): as he was then. OSError."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(data))


class LocalConnection(Connection):
    """A connection that its client's user must be the broker's own for, or root."""

    def __init__(self, table: ConnectionTable) -> None:
        super().__init__(table, LOCAL_LISTENER)
        self._local_table = table

    def connection_made(self, transport: BaseTransport) -> None:
        """Enter the table, or end where it is another user's."""
        peer = peer_of(transport.get_extra_info("socket"))
        own = os.geteuid()
        if peer.uid not in {ROOT, own}:
            self.address = f"process {peer.pid} of user id {peer.uid}"
            self._local_table.refuse(
                self, f"admin.socket is for the broker's own user ({own}) and root alone"
            )
            cast("Transport", transport).abort()
            return
        log.info("admin.socket: process %d of user id %d is %s", peer.pid, peer.uid, LOCAL)
        self.principal = LOCAL
        super().connection_made(transport)
