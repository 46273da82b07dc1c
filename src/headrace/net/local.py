"""Connections to the Unix socket for administration, permitted by the client's user id."""

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
    """The process at the other end of a Unix socket, as the kernel reports it."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """Return the process that made the connection (SO_PEERCRED), as of that time.

    Raises OSError.
    """
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(data))


class LocalConnection(Connection):
    """A Unix socket connection; its client must run as the broker's user or as root."""

    def __init__(self, table: ConnectionTable) -> None:
        super().__init__(table, LOCAL_LISTENER)
        self._local_table = table

    def connection_made(self, transport: BaseTransport) -> None:
        """Register the connection, or refuse it if it is another user's."""
        peer = peer_of(transport.get_extra_info("socket"))
        own = os.geteuid()
        if peer.uid not in {ROOT, own}:
            self.address = f"process {peer.pid} of user id {peer.uid}"
            self._local_table.refuse(
                self, f"admin.socket is only for the broker's own user ({own}) and root"
            )
            cast("Transport", transport).abort()
            return
        log.info("admin.socket: process %d of user id %d is %s", peer.pid, peer.uid, LOCAL)
        self.principal = LOCAL
        super().connection_made(transport)
