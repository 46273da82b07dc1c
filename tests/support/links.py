"""Bare connections to a broker, and what its process takes of memory."""

import contextlib
import os
import socket
import struct
from pathlib import Path

from headrace.testing import BrokerThread

RSS_GROWTH_BYTES_MAX = 150 << 20
"""What hostile requests may cost: the codecs met for the first time are in it."""


def connect(broker: BrokerThread) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=10)


def ask(link: socket.socket, data: bytes) -> bytes | None:
    """The answer's frame, or None where the broker closed the connection."""
    with contextlib.suppress(ConnectionError):
        link.sendall(data)
        head = receive(link, 4)
        if len(head) == 4:
            return receive(link, struct.unpack(">i", head)[0])
    return None


def receive(link: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        more = link.recv(size - len(got))
        if not more:
            break
        got += more
    return got


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
