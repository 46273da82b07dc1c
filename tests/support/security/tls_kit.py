"""A TLS connection in a test's hands: the client in memory, the threads and the clock too."""

import ssl
from asyncio import BufferedProtocol
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.config.connection_limits import ConnectionLimits
from headrace.config.value_types import Value
from headrace.model.errors import Malformed
from headrace.net.table import ConnectionTable
from headrace.net.tls.handshakes import Handshakes
from headrace.net.tls.tls import TlsConnection
from headrace.security.identity import ANONYMOUS, USER, Principal
from tests.support.coordination.groups_kit import HandClock
from tests.support.net.connections import HandTransport
from tests.support.net.net import limits_with
from tests.support.security.certificates import Authority


class Above(BufferedProtocol):
    """Keeps what it is handed; takes `room` bytes at a time."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.received = b""
        self.room = 1 << 18
        self.ended = False
        self.stop_at = 1 << 62
        self.told: list[str] = []
        """Of writing: what it was told to do."""
        self._space = memoryview(bytearray(1 << 18))

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return room."""
        return self._space[: self.room]

    def buffer_updated(self, nbytes: int) -> None:
        """Keep what came; want no more from `stop_at` on."""
        self.received += self._space[:nbytes]
        if len(self.received) >= self.stop_at:
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        """Note the end."""
        self.ended = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        self.ended = True

    def pause_writing(self) -> None:
        """Note it."""
        self.told.append("pause")

    def resume_writing(self) -> None:
        """Note it."""
        self.told.append("resume")


class HandDoor:
    """Believes whom the test believes."""

    name = "SSL"
    plain_too = False

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.refuses = False

    def identify(self, certificate: bytes | None) -> Principal:
        """Say who it is."""
        if self.refuses:
            raise Malformed("no rule fits")
        return ANONYMOUS if certificate is None else Principal(USER, "somebody")


def _nobody(connection: Any) -> Any:
    """Open no session: what is above TLS is the test's own."""
    raise NotImplementedError


class Scene:
    """One listener's connections."""

    def __init__(self, authority: Authority, server: Path, **settings: Value) -> None:
        """`settings`: of the limits, by attribute."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(server)
        self.clock = HandClock()
        self.jobs: list[Callable[[], None]] = []
        limits = limits_with(ConnectionLimits(begin_unknown=frozenset({"SSL"})), **settings)
        self.table = ConnectionTable(self.clock, limits, _nobody, _nobody)
        self.handshakes = Handshakes(self.clock, self._run, self.table)
        self.door = HandDoor(context)
        self.made: list[Above] = []
        self._trusted = authority.certificate

    def _run(self, work: Callable[[], Any], done: Callable[[Any], None], /) -> None:
        def job() -> None:
            try:
                outcome: Any = work()
            except Exception as problem:  # noqa: BLE001 - handed on, as a thread does
                outcome = problem
            done(outcome)

        self.jobs.append(job)

    def above(self) -> Above:
        """Make what is above one connection."""
        self.made.append(Above())
        return self.made[-1]

    def connect(self, address: str = "10.0.0.1") -> "Client":
        """Open a connection; nothing is said yet."""
        return Client(self, self._trusted, address)

    def work(self) -> None:
        """Have the threads do what they have to."""
        while self.jobs:
            self.jobs.pop(0)()


class Client:
    """One connection, both ends."""

    def __init__(self, scene: Scene, trusted: Path, address: str) -> None:
        self._scene = scene
        self.below = TlsConnection(scene.door, scene.handshakes, scene.above)
        self.transport = HandTransport(address)
        self.below.connection_made(self.transport)
        context = ssl.create_default_context(cafile=str(trusted))
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")

    def push(self, data: bytes) -> None:
        """Have bytes come as they are."""
        while data:
            space = self.below.get_buffer(-1)
            size = min(len(space), len(data))
            space[:size] = data[:size]
            self.below.buffer_updated(size)
            data = data[size:]

    def hello(self) -> bytes:
        """Return the client's first words."""
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self._out.read()

    def shake_hands(self) -> Above:
        """Do the whole handshake."""
        self.push(self.hello())
        self._scene.work()
        self.take()
        self.tls.do_handshake()
        self.push(self._out.read())
        self._scene.work()
        return self._scene.made[-1]

    def said(self) -> bytes:
        """Return what the client has to say."""
        return self._out.read()

    def take(self) -> None:
        """Have the client hear what was said to it."""
        self._in.write(self.transport.written)
        self.transport.written = b""

    def send(self, data: bytes) -> bytes:
        """Return `data` encrypted."""
        self.tls.write(data)
        return self._out.read()

    def received(self) -> bytes:
        """Return all that came, decrypted."""
        self.take()
        found = b""
        while True:
            try:
                piece = self.tls.read(1 << 16)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                return found
            if not piece:
                return found
            found += piece
