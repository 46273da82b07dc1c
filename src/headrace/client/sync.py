"""The client for callers without an event loop.

    client = connect("127.0.0.1:9092")
    metadata = run(client.metadata(["access"]))

`run` drives any coroutine of this package that works on the blocking transport. Workers that only
fetch take a `FetchConnection`: one socket, one reused buffer, no copies.
"""

import socket
import struct
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from headrace.client.blocking import BlockingTransport, open_socket
from headrace.client.client import Client
from headrace.client.transport import Address, parse_bootstrap
from headrace.model.invariant import invariant

T = TypeVar("T")


def connect(
    bootstrap: str | Sequence[Address],
    *,
    client_id: str = "headrace",
    request_timeout_seconds: float = 30.0,
) -> Client:
    """A client on plain sockets; nothing is opened before it is needed.

    ValueError where `bootstrap` is no `host:port,…`.
    """
    addresses = parse_bootstrap(bootstrap) if isinstance(bootstrap, str) else list(bootstrap)
    return Client(
        BlockingTransport(),
        addresses,
        client_id=client_id,
        request_timeout_seconds=request_timeout_seconds,
    )


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that works on a blocking transport, or what it raises."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    invariant(holds=False, because="a coroutine on the blocking transport suspended")
    raise AssertionError


class Wanted(NamedTuple):
    """What to fetch of one partition."""

    topic: str
    topic_id: bytes
    """16 bytes, from the topic's metadata."""
    partition: int
    offset: int
    max_bytes: int = 8 << 20
    leader_epoch: int = -1


class Fetched(NamedTuple):
    """What a fetch brought of one partition."""

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]]
    """(producer id, first offset) of aborted transactions among the records."""
    records: memoryview
    """Whole batches, the first perhaps beginning before the offset asked for, the last perhaps cut
    short. Valid until the connection's next `receive`."""


class FetchConnection:
    """One socket to one broker that only fetches, answers landing in one reused buffer.

    Not for several threads. Errors are the client's (`ClientError`) and end the connection; a
    partition's own error is in `Fetched.error_code`.
    """

    def __init__(
        self, address: Address, *, client_id: str = "headrace", timeout_seconds: float = 30.0
    ) -> None:
        raise NotImplementedError

    def fetch(
        self,
        wanted: Sequence[Wanted],
        *,
        max_bytes: int = 50 << 20,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        read_committed: bool = False,
    ) -> list[Fetched]:
        """Ask for several partitions this broker leads, and wait for the answer."""
        self.send(
            wanted,
            max_bytes=max_bytes,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            read_committed=read_committed,
        )
        return self.receive()

    def send(
        self,
        wanted: Sequence[Wanted],
        *,
        max_bytes: int = 50 << 20,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        read_committed: bool = False,
    ) -> None:
        """Ask without waiting: the broker reads while the last answer is still being used."""
        raise NotImplementedError

    def receive(self) -> list[Fetched]:
        """The answer to the oldest `send` that has none yet. Earlier `records` become invalid."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the socket."""
        raise NotImplementedError
