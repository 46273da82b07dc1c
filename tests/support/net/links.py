"""Bare connections to a broker, and what its process takes of memory."""

import contextlib
import socket
import struct
import tracemalloc
from collections.abc import Iterator

from headrace.testing import BrokerThread
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import parse_response, request_head

SECONDS_MAX = 20.0


def connect(broker: BrokerThread, receive_buffer_bytes: int = 0) -> socket.socket:
    """A connection that waits `SECONDS_MAX` at most; 0: the system's own buffer."""
    link = socket.socket()
    link.settimeout(SECONDS_MAX)
    if receive_buffer_bytes:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    link.connect(("127.0.0.1", broker.port))
    return link


def ask(link: socket.socket, data: bytes) -> bytes | None:
    """The answer's frame, or None where the broker closed the connection."""
    with contextlib.suppress(ConnectionError):
        link.sendall(data)
        head = receive(link, 4)
        if len(head) == 4:
            return receive(link, struct.unpack(">i", head)[0])
    return None


def receive(link: socket.socket, size: int) -> bytes:
    """So many bytes, fewer where the broker closes the connection."""
    got = bytearray()
    while len(got) < size:
        more = link.recv(min(size - len(got), 1 << 20))
        if not more:
            break
        got += more
    return bytes(got)


class Link:
    """One connection of a client, in requests and answers. ConnectionError where it ends."""

    def __init__(
        self, broker: BrokerThread, client: str = "test", receive_buffer_bytes: int = 0
    ) -> None:
        self.client = client
        self.socket = connect(broker, receive_buffer_bytes)

    def send(self, key: ApiKey, version: int, body: bytes) -> None:
        self.socket.sendall(request_head(key, version, 1, self.client, len(body)) + body)

    def receive(self, key: ApiKey, version: int) -> memoryview:
        """The next answer, without its header."""
        (size,) = struct.unpack(">i", self.raw(4))
        frame = memoryview(self.raw(size))
        return frame[parse_response(frame, key, version)[1] :]

    def ask(self, key: ApiKey, version: int, body: bytes) -> memoryview:
        self.send(key, version, body)
        return self.receive(key, version)

    def raw(self, size: int) -> bytes:
        got = receive(self.socket, size)
        if len(got) < size:
            raise ConnectionError(f"closed after {len(got)} of {size} bytes")
        return got


@contextlib.contextmanager
def allocates_at_most(bytes_max: int) -> Iterator[None]:
    """Assert that this process, brokers on its threads included, never takes more at once.

    Counted where Python allocates, so that zeroed memory counts, which the system hands out when it
    is written to, and memory that is given back at once.
    """
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most - before <= bytes_max, f"{most - before} bytes were allocated"
