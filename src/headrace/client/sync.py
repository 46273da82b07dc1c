"""The client for callers without an event loop.

    client = connect("127.0.0.1:9092")
    metadata = run(client.metadata(["access"]))

`run` drives any coroutine of this package that works on the blocking transport. Workers that only
fetch take a `FetchConnection`: one socket, one reused buffer, no copies.
"""

import select
import struct
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from headrace.client.calls.fetch import FetchCall, Fetched, Wanted, fetch_call, read_fetched
from headrace.client.client import CONNECT_SECONDS, Client, common_version
from headrace.client.transport.blocking import BlockingTransport, open_socket
from headrace.client.transport.handshake import VersionsCall
from headrace.client.transport.port import (
    RESPONSE_BYTES_MAX,
    Address,
    ClientError,
    TimedOut,
    connection_lost,
    parse_bootstrap,
    unreadable_answer,
)
from headrace.model.invariant import InvariantError
from headrace.wire.kafka.frame import parse_response

if TYPE_CHECKING:
    from ssl import SSLContext

    from headrace.client.calls.call import Call
    from headrace.client.transport.credentials import Credentials

__all__ = ["FetchConnection", "Fetched", "Wanted", "connect", "run"]

T = TypeVar("T")

_LENGTH = struct.Struct(">i")
_BUFFER_BYTES_MIN = 1 << 20


def connect(
    bootstrap: str | Sequence[Address],
    *,
    client_id: str = "headrace",
    request_timeout_seconds: float = 30.0,
    retry_seconds: float = 30.0,
    patient: bool = False,
    tls: "SSLContext | None" = None,
    credentials: "Credentials | None" = None,
) -> Client:
    """Return a client on sockets; nothing is opened before it is needed.

    `tls`: what connections are encrypted by (`posix.tls_client`); None: plain text. `credentials`:
    who the client is, where it must say. ValueError where `bootstrap` is no `host:port,…`.
    """
    addresses = parse_bootstrap(bootstrap) if isinstance(bootstrap, str) else list(bootstrap)
    return Client(
        BlockingTransport(tls),
        addresses,
        client_id=client_id,
        request_timeout_seconds=request_timeout_seconds,
        retry_seconds=retry_seconds,
        patient=patient,
        credentials=credentials,
    )


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that works on a blocking transport, for its result or what it raises."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise InvariantError("a coroutine on the blocking transport suspended")


class FetchConnection:
    """One socket to one broker that only fetches, answers landing in one reused buffer.

    Not for several threads. Errors are the client's (`ClientError`) and end the connection; a
    partition's own error is in `Fetched.error_code`.
    """

    def __init__(
        self,
        address: Address,
        *,
        client_id: str = "headrace",
        timeout_seconds: float = 30.0,
        tls: "SSLContext | None" = None,
        credentials: "Credentials | None" = None,
    ) -> None:
        """Connect, each step within CONNECT_SECONDS; `tls` and `credentials` as in `connect`."""
        self.address = address
        self.client_id = client_id
        self.timeout_seconds = timeout_seconds
        self.versions: dict[int, tuple[int, int]] = {}
        self._connect_seconds = min(timeout_seconds, CONNECT_SECONDS)
        self._socket = open_socket(address, self._connect_seconds, tls)
        self._buffer = bytearray(_BUFFER_BYTES_MIN)
        self._correlation_id = 0
        self._asked: deque[tuple[FetchCall, int, float, Sequence[Wanted]]] = deque()
        try:
            self._shake_hands()
            if credentials is not None:
                self._authenticate(credentials)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether nothing more can be asked."""
        return self._socket.fileno() < 0

    @property
    def at_rest(self) -> bool:
        """Whether it is open and no answer is on its way: it may be kept for another use."""
        if self.closed or self._asked:
            return False
        # What can be read although nothing was asked is the end of the connection.
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def next_correlation_id(self) -> int:
        """Return the number of the next request."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

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
        call = fetch_call(
            wanted,
            max_bytes=max_bytes,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            read_committed=read_committed,
        )
        version = common_version(self.versions, call)
        frame = b"".join(call.encode(version, self.next_correlation_id(), self.client_id))
        self._send(frame)
        self._asked.append((call, version, max_wait_ms / 1000, wanted))

    def receive(self) -> list[Fetched]:
        """Receive the answer to the oldest `send` that has none yet.

        Earlier `records` become invalid.
        ApiError where the broker refused the fetch as a whole.
        """
        call, version, wait_seconds, wanted = self._asked.popleft()
        frame = self._receive(self.timeout_seconds + wait_seconds)
        _, body = parse_response(frame, call.key, version)
        return read_fetched(call.decode(version, frame[body:]), wanted)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _shake_hands(self) -> None:
        call = VersionsCall()
        self._send(b"".join(call.encode(0, self.next_correlation_id(), self.client_id)))
        frame = self._receive(self._connect_seconds)
        self.versions = call.decode(0, frame[parse_response(frame, call.key, 0)[1] :])

    def _authenticate(self, credentials: "Credentials") -> None:
        from headrace.client.transport.credentials import authenticate

        async def ask(call: "Call[Any]") -> object:
            version = common_version(self.versions, call)
            self._send(b"".join(call.encode(version, self.next_correlation_id(), self.client_id)))
            frame = self._receive(self._connect_seconds)
            return call.decode(version, frame[parse_response(frame, call.key, version)[1] :])

        run(authenticate(credentials, ask))

    def _send(self, frame: bytes) -> None:
        try:
            self._socket.settimeout(self.timeout_seconds)
            self._socket.sendall(frame)
        except OSError as error:
            raise self._lost(error) from None

    def _receive(self, seconds: float) -> memoryview:
        """Receive the next response frame without its length, in the buffer."""
        deadline = time.monotonic() + seconds
        self._fill(memoryview(self._buffer)[:4], deadline)
        (size,) = _LENGTH.unpack_from(self._buffer)
        if not 4 <= size <= RESPONSE_BYTES_MAX:
            self.close()
            raise unreadable_answer(self.address, bytes(self._buffer[:4]))
        if size > len(self._buffer):
            # Views of the old buffer may still be held: it stays as it is, a larger one follows.
            self._buffer = bytearray(max(size, min(2 * len(self._buffer), RESPONSE_BYTES_MAX)))
        view = memoryview(self._buffer)[:size]
        self._fill(view, deadline)
        return view

    def _fill(self, view: memoryview, deadline: float) -> None:
        at, size = 0, len(view)
        while at < size:
            left = deadline - time.monotonic()
            try:
                if left <= 0:
                    raise TimeoutError
                self._socket.settimeout(left)
                count = self._socket.recv_into(view[at:])
            except TimeoutError:
                self.close()
                raise TimedOut(f"{self.address}: no answer in time") from None
            except OSError as error:
                raise self._lost(error) from None
            if count == 0:
                raise self._lost("closed by the broker")
            at += count

    def _lost(self, why: object) -> ClientError:
        self.close()
        return connection_lost(self.address, why)
