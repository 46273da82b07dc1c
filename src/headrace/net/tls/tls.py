"""TLS between a socket and any connection: the one below is asyncio's, the one above is ours.

    socket  <->  TlsConnection (asyncio's protocol)  <->  TlsTransport  <->  Connection

The connection above is made when the handshake is done: it never sees a byte of somebody who has
not shown who he is, and asks its transport for `principal`. Handshakes run in steps, on threads,
each with whole TLS records (`handshakes`); what follows them is encrypted on the loop, where it
costs less than a thread's word would. Nothing waits here decrypted but what the connection above
does not want yet, one read at most, and nothing encrypted but what the socket does not take.
"""

import logging
import ssl
from asyncio import BaseTransport, BufferedProtocol, Transport
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from headrace.model.errors import HeadraceError
from headrace.net.limits import ENCRYPT_BYTES, HANDSHAKE_BYTES_MAX
from headrace.net.tls.handshakes import Handshakes
from headrace.net.tls.tls_failures import describe
from headrace.net.tls.tls_listener_port import Door, Peer
from headrace.net.tls.tls_records import whole_records
from headrace.ports.disk import Buffer

if TYPE_CHECKING:
    from headrace.net.connection_places import Place

log = logging.getLogger(__name__)


class TlsConnection(BufferedProtocol):
    """One connection's handshake, and the bytes of it after that."""

    def __init__(self, door: Door, handshakes: Handshakes, made: Callable[[], Any]) -> None:
        """`made` makes the connection above, once it is known who is there."""
        self._door = door
        self._handshakes = handshakes
        self._made = made
        self._socket: Transport | None = None
        """None before the connection is made and after it is lost."""
        self._above: BufferedProtocol | None = None
        """None until the handshake is done, and after the end."""
        self.address = ""
        self.place: Place | None = None
        """Among all connections, and then that of the one above."""
        self.last_moved = handshakes.now()
        self._received = 0
        """Bytes of the handshake."""
        self._records = bytearray()
        """What has come of the handshake and is not handed over."""
        self._working = False
        """Whether a thread has the handshake: nobody else may touch it."""
        self._over = False
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls: ssl.SSLObject | None = None
        self.paused = False
        """Whether the connection above wants nothing more now."""

    # asyncio's side

    def connection_made(self, transport: BaseTransport) -> None:
        """Wait for the client's first words."""
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else "local"
        self._socket = cast("Transport", transport)
        if self._handshakes.gate.queues(self):
            self._leave_unread()
        else:
            self._enter()

    @property
    def listener(self) -> str:
        """The name of the listener it came by."""
        return self._door.name

    def let_in(self) -> None:
        """Begin the handshake: the connection's turn has come."""
        if self._socket is not None and not self._over:
            self._socket.resume_reading()
            self._enter()

    def _enter(self) -> None:
        """Take a place, and begin; be closed at once where a limit says so."""
        gate = self._handshakes.gate
        if gate.holds_off(self):
            self._leave_unread()
            return
        self.place = gate.place_for(self)
        if self.place is not None:
            self._handshakes.begin(self)
        elif self._socket is not None:
            self._over = True
            self._socket.abort()

    def _leave_unread(self) -> None:
        """Read nothing; uvloop begins to when `connection_made` has returned, told or not."""
        self._pause_unless_begun()
        self._handshakes.call_later(0, self._pause_unless_begun)

    def _pause_unless_begun(self) -> None:
        if self.place is None and self._socket is not None and not self._socket.is_closing():
            self._socket.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory that the next bytes are received into."""
        return self._handshakes.scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Take `nbytes` more: of the handshake, or to be decrypted."""
        received = self._handshakes.scratch[:nbytes]
        if self._above is not None:
            self.incoming.write(received)
            self.deliver()
        elif not self._over:
            self._received += nbytes
            self._records += received
            if self._received > HANDSHAKE_BYTES_MAX:
                self.abort(f"more than {HANDSHAKE_BYTES_MAX} bytes came before it was done")
            elif not self._working:
                self._step()

    def eof_received(self) -> bool:
        """Close the connection, as one without TLS does."""
        if self._above is None and not self._over and self._received:
            self.abort("its client ended amid the handshake")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the connection above, if it has come to that."""
        if self._above is None and not self._over and self._received:
            self.abort("its client left amid the handshake")
        self._over = True
        self._socket = None
        self._handshakes.end(self)
        above, self._above = self._above, None
        if above is not None:
            above.connection_lost(exc)
        elif self.place is not None:
            self.place.leave()

    def pause_writing(self) -> None:
        """Pass on that the client does not read."""
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the client reads again."""
        if self._above is not None:
            self._above.resume_writing()

    # the handshake

    def abort(self, because: str) -> None:
        """End a connection whose handshake is not done, and say why."""
        if self._over or self._above is not None:
            return
        self._over = True
        self._handshakes.end(self)
        self._handshakes.log_failure(self.address, self._door.name, because)
        if self._socket is None:
            return
        if self._socket.get_write_buffer_size():  # who reads nothing is not waited for
            self._socket.abort()
        else:
            self._socket.close()

    def close(self) -> None:
        """End a connection that was not let in."""
        self._over = True
        if self._socket is not None:
            self._socket.close()

    def _step(self) -> None:
        """Have a thread work on the whole records that are there."""
        try:
            whole = whole_records(self._records)
        except ValueError:
            return self._refuse_plain()
        socket = self._socket
        if not whole or socket is None:
            return
        records = bytes(self._records[:whole])
        del self._records[:whole]
        self._working = True
        socket.pause_reading()
        self._handshakes.run(partial(self._work, records), self._worked)

    def _refuse_plain(self) -> None:
        """End the connection of a client that does not speak TLS; tell it in its protocol."""
        refusal = self._handshakes.gate.foreign.without_tls(self._door.name, self._records)
        if self._socket is not None:
            self._socket.write(refusal.answer)
        self.abort(str(refusal))

    def _work(self, records: bytes) -> Peer | None:
        """Go one step on, on a thread; None: the client's next words are needed."""
        if self.tls is None:
            context = self._door.context
            self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.incoming.write(records)
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return None
        return Peer(self._door.identify(self.tls.getpeercert(binary_form=True)))

    def _worked(self, outcome: Peer | BaseException | None) -> None:
        self._working = False
        socket = self._socket
        if socket is None or self._over:
            return
        said = self.outgoing.read()  # what went wrong, too
        if said:
            socket.write(said)
        if isinstance(outcome, Peer):
            self._open(socket, outcome)
        elif isinstance(outcome, ssl.SSLError | OSError):
            self.abort(describe(outcome))
        elif isinstance(outcome, HeadraceError):
            self.abort(str(outcome))
        elif outcome is not None:
            log.error(
                "%s on %s: a TLS handshake met a bug of Headrace: please report it with this trace",
                self.address, self._door.name, exc_info=outcome,
            )  # fmt: skip
            self.abort("it met a bug of Headrace")
        else:
            self._step()
            if not self._working and not self._over:
                socket.resume_reading()

    def _open(self, socket: Transport, peer: Peer) -> None:
        """Make the connection above, and hand it what came behind the handshake."""
        self._handshakes.end(self)
        self._handshakes.done += 1
        if self._records:
            self.incoming.write(self._records)
            self._records = bytearray()
        above = self._above = cast("BufferedProtocol", self._made())
        above.connection_made(TlsTransport(self, socket, peer))
        if not self.paused and self._socket is not None:
            socket.resume_reading()
        self.deliver()

    # after it

    def deliver(self) -> None:
        """Decrypt what is there and hand it over, until no more is wanted."""
        tls, ended = self.tls, False
        while self._above is not None and tls is not None and not self.paused and not ended:
            above = self._above
            space = cast("memoryview", above.get_buffer(-1))
            filled, room = 0, len(space)
            try:
                while filled < room:
                    count = tls.read(room - filled, space[filled:])
                    if not count:
                        ended = True
                        break
                    filled += cast("int", count)
            except ssl.SSLWantReadError:
                if not filled:
                    return
            except (ssl.SSLError, OSError) as problem:
                self._broken(problem)
                return
            del space
            if filled:
                above.buffer_updated(filled)
        if ended:
            self._ended()

    def _ended(self) -> None:
        """Close: the client has said that nothing more comes."""
        if self._above is not None and self._socket is not None:
            self._above.eof_received()
            self._socket.close()

    def _broken(self, problem: OSError) -> None:
        log.warning(
            "%s on %s: the connection is dropped: what came is not what TLS encrypted: %s",
            self.address, self._door.name, describe(problem),
        )  # fmt: skip
        if self._socket is not None:
            self._socket.abort()

    def deliver_soon(self) -> None:
        """Hand over what was not wanted, outside of this call."""
        tls = self.tls
        if tls is not None and (self.incoming.pending or tls.pending()):
            self._handshakes.call_later(0, self.deliver)


class TlsTransport(Transport):
    """What a connection above TLS sees of its socket."""

    def __init__(self, below: TlsConnection, socket: Transport, peer: Peer) -> None:
        super().__init__()
        self._below = below
        self._socket = socket
        self._peer = peer
        self._closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """Return what is known of the connection; `principal`: who its certificate says it is."""
        if name == "principal":
            return self._peer.principal
        if name == "place":
            return self._below.place
        if name == "sslcontext":
            return None if self._below.tls is None else self._below.tls.context
        if name == "ssl_object":
            return self._below.tls
        return self._socket.get_extra_info(name, default)

    def write(self, data: Buffer) -> None:
        """Encrypt `data` and send it; it may be changed afterwards."""
        tls, outgoing = self._below.tls, self._below.outgoing
        if tls is None or self._closing or self._socket.is_closing():
            return
        try:
            if len(data) <= ENCRYPT_BYTES:
                tls.write(data)
                self._socket.write(outgoing.read())
                return
            view = memoryview(data)
            for at in range(0, len(view), ENCRYPT_BYTES):
                tls.write(view[at : at + ENCRYPT_BYTES])
                self._socket.write(outgoing.read())
        except ssl.SSLError as problem:
            log.warning("a TLS connection is dropped: %s", describe(problem))
            self._socket.abort()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Encrypt several buffers, short ones together: a record of TLS costs its own head."""
        gathered: list[Buffer] = []
        size = 0
        for data in list_of_data:
            if size + len(data) > ENCRYPT_BYTES and gathered:
                self.write(gathered[0] if len(gathered) == 1 else b"".join(gathered))
                gathered, size = [], 0
            gathered.append(data)
            size += len(data)
        if gathered:
            self.write(gathered[0] if len(gathered) == 1 else b"".join(gathered))

    def close(self) -> None:
        """Tell the client that nothing more comes, send what is unsent, and end."""
        tls = self._below.tls
        if self._closing or tls is None:
            return
        self._closing = True
        with suppress(ssl.SSLError, OSError):  # the client's farewell is not waited for
            tls.unwrap()
        farewell = self._below.outgoing.read()
        if farewell and not self._socket.is_closing():
            self._socket.write(farewell)
        self._socket.close()

    def abort(self) -> None:
        """End at once."""
        self._closing = True
        self._socket.abort()

    def is_closing(self) -> bool:
        """Tell whether it ends."""
        return self._closing or self._socket.is_closing()

    def pause_reading(self) -> None:
        """Hand over nothing more."""
        self._below.paused = True
        if not self._socket.is_closing():
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Hand over what came meanwhile, and what comes."""
        self._below.paused = False
        if not self._socket.is_closing():
            self._socket.resume_reading()
            self._below.deliver_soon()

    def is_reading(self) -> bool:
        """Tell whether what comes is handed over."""
        return not self._below.paused and not self.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the socket has not taken yet."""
        return self._socket.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when `pause_writing` and `resume_writing` are called, as the socket's are."""
        self._socket.set_write_buffer_limits(high=high, low=low)

    def can_write_eof(self) -> bool:
        """Say that TLS has no half-closed connections here."""
        return False
