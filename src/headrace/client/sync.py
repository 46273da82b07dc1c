"""The Kafka client for callers without an event loop.

    client = connect("127.0.0.1:9092")
    metadata = run(client.metadata(["access"]))

`run` drives any coroutine of this package that uses plain sockets. Workers that only fetch use a
`FetchConnection`: one socket, one reused buffer, no copies.
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
    """Return a client on plain sockets; connections are opened when the first request needs them.

    `tls`: the context that encrypts connections (`posix.tls_client`); None: plain text.
    `credentials`: the SASL identity; None: no authentication. ValueError if `bootstrap` is not
    `host:port,…`.
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
    """Run a coroutine that uses the blocking transport; return its result or raise its error."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise InvariantError("a coroutine on the blocking transport suspended")


class FetchConnection:
    """A connection to one broker that only fetches, into one buffer for all responses.

    The next `receive` overwrites the buffer. Not thread-safe. Network errors are ClientError and
    close the connection. ApiError: the broker refused the whole fetch; the connection stays open.
    A partition's own error is in `Fetched.error_code`.
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
        """Connect to the broker and authenticate, each step within CONNECT_SECONDS.

        `tls` and `credentials` as in `connect`.
        """
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
        """Whether the socket is closed, so no request can be sent."""
        return self._socket.fileno() < 0

    @property
    def at_rest(self) -> bool:
        """Whether the connection is open with no response outstanding, so that it can be reused."""
        if self.closed or self._asked:
            return False
        # No request is outstanding, so readable bytes can only mean that the broker closed it.
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def next_correlation_id(self) -> int:
        """Return the correlation id of the next request."""
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
        """Fetch several partitions that this broker leads: send the request, wait for the
        response."""
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
        """Send a fetch request without waiting, so the broker reads while the caller decodes the
        last response."""
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
        """Return the response to the oldest unanswered `send`, one entry for each partition.

        The `records` of earlier responses become invalid, as the buffer is reused. ApiError if the
        broker refused the whole fetch.
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
        """Read the next response frame into the buffer; return it without its length prefix."""
        deadline = time.monotonic() + seconds
        self._fill(memoryview(self._buffer)[:4], deadline)
        (size,) = _LENGTH.unpack_from(self._buffer)
        if not 4 <= size <= RESPONSE_BYTES_MAX:
            self.close()
            raise unreadable_answer(self.address, bytes(self._buffer[:4]))
        if size > len(self._buffer):
            # Callers may still hold views of the old buffer, so it is replaced, not resized.
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
