"""TLS between an asyncio socket and a `Connection`.

    socket  <->  TlsConnection (asyncio's protocol)  <->  TlsTransport  <->  Connection
    TlsConnection:  queued -> handshake (steps on threads) -> open -> over

The Connection is made after the handshake, so it gets no byte of an unverified client; it asks its
transport for `principal`. Handshake steps run on threads, with whole TLS records (`handshakes`);
later data is encrypted on the loop, which is cheaper than a thread switch. Decrypted bytes wait
here for a paused Connection, one read at most; encrypted bytes only while the socket is full.

A listener with `plain_too` also serves clients without TLS: if the first byte is not a handshake's,
the Connection gets the socket itself and the TlsConnection is out of the way.
"""

import logging
import ssl
from asyncio import BaseTransport, BufferedProtocol, Transport
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from headrace.model.errors import HeadraceError
from headrace.net.limits import HANDSHAKE_BYTES_MAX
from headrace.net.tls.handshakes import Handshakes
from headrace.net.tls.tls_failures import describe
from headrace.net.tls.tls_listener_port import CertificatePeer, Door
from headrace.net.tls.tls_records import HANDSHAKE_RECORD, whole_records
from headrace.net.tls.tls_transport import TlsTransport

if TYPE_CHECKING:
    from headrace.net.connection_places import Place

log = logging.getLogger(__name__)


class TlsConnection(BufferedProtocol):
    """A TLS connection of one client: the handshake, then decryption of received bytes."""

    def __init__(self, door: Door, handshakes: Handshakes, made: Callable[[], Any]) -> None:
        """Make a TLS connection; `made` makes the Connection after the handshake."""
        self._door = door
        self._handshakes = handshakes
        self._made = made
        self._socket: Transport | None = None
        """None before the connection is made and after it is lost."""
        self._above: BufferedProtocol | None = None
        """The Connection; None until the handshake is complete, and after the end."""
        self.address = ""
        self.place: Place | None = None
        """The place in the limits, passed on to the Connection."""
        self.last_moved = handshakes.now()
        self._received = 0
        """Number of handshake bytes received."""
        self._records = bytearray()
        """Received handshake bytes that no step has consumed yet."""
        self._working = False
        """Whether a thread runs a step; nothing else may use the TLS object then."""
        self._over = False
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls: ssl.SSLObject | None = None
        self.paused = False
        """Whether the Connection has paused reading."""

    # asyncio's side

    def connection_made(self, transport: BaseTransport) -> None:
        """Wait for the client's first bytes."""
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else "local"
        self._socket = cast("Transport", transport)
        if self._handshakes.gate.queues(self):
            self._leave_unread()
        else:
            self._enter()

    @property
    def listener(self) -> str:
        """The name of the listener that accepted it."""
        return self._door.name

    def let_in(self) -> None:
        """Begin the handshake, as the connection's turn has come."""
        if self._socket is not None and not self._over:
            self._socket.resume_reading()
            self._enter()

    def _enter(self) -> None:
        """Take a place and begin, or close at once if a limit refuses the connection."""
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
        """Stop reading; uvloop starts it after `connection_made` returns, even if paused in it."""
        self._pause_unless_begun()
        self._handshakes.call_later(0, self._pause_unless_begun)

    def _pause_unless_begun(self) -> None:
        if self.place is None and self._socket is not None and not self._socket.is_closing():
            self._socket.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory for the next received bytes."""
        return self._handshakes.scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Handle `nbytes` received bytes: of the handshake, or to be decrypted."""
        received = self._handshakes.scratch[:nbytes]
        if self._above is not None:
            self.incoming.write(received)
            self.deliver()
        elif not self._over:
            self._received += nbytes
            self._records += received
            if self._received > HANDSHAKE_BYTES_MAX:
                self.abort(f"more than {HANDSHAKE_BYTES_MAX} bytes before the handshake's end")
            elif not self._working:
                self._step()

    def eof_received(self) -> bool:
        """Close the connection at the client's end of data, as without TLS."""
        if self._above is None and not self._over and self._received:
            self.abort("the client closed the connection during the handshake")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the loss on to the Connection; during the handshake release the place instead."""
        if self._above is None and not self._over and self._received:
            self.abort("the client disconnected during the handshake")
        self._over = True
        self._socket = None
        self._handshakes.end(self)
        above, self._above = self._above, None
        if above is not None:
            above.connection_lost(exc)
        elif self.place is not None:
            self.place.leave()

    def pause_writing(self) -> None:
        """Notify the Connection that the client does not read."""
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        """Notify the Connection that the client reads again."""
        if self._above is not None:
            self._above.resume_writing()

    # the handshake

    def abort(self, because: str) -> None:
        """Close a connection during its handshake, and log `because`."""
        if self._over or self._above is not None:
            return
        self._over = True
        self._handshakes.end(self)
        self._handshakes.log_failure(self.address, self._door.name, because)
        if self._socket is None:
            return
        if self._socket.get_write_buffer_size():  # do not wait for a client that reads nothing
            self._socket.abort()
        else:
            self._socket.close()

    def close(self) -> None:
        """Close a connection that was not admitted."""
        self._over = True
        if self._socket is not None:
            self._socket.close()

    def _step(self) -> None:
        """Run a handshake step on a thread with the whole records received."""
        try:
            whole = whole_records(self._records)
        except ValueError:
            return self._not_tls()
        socket = self._socket
        if not whole or socket is None:
            return
        records = bytes(self._records[:whole])
        del self._records[:whole]
        self._working = True
        socket.pause_reading()
        self._handshakes.run(partial(self._work, records), self._worked)

    def _not_tls(self) -> None:
        """Serve a client that began without TLS if the listener does so; else refuse it."""
        first = self._received == len(self._records)  # nothing was part of a handshake yet
        if self._door.plain_too and first and self._records[0] != HANDSHAKE_RECORD:
            self._serve_plain()
        else:
            self._refuse_plain()

    def _serve_plain(self) -> None:
        """Give the socket, and the first bytes, to a Connection without TLS."""
        socket, received = self._socket, self._records
        if socket is None:
            return
        self._over = True
        self._handshakes.end(self)
        self._socket, self._records = None, bytearray()
        connection = self._made()
        connection.place = self.place
        socket.set_protocol(connection)
        connection.connection_made(socket)
        if not socket.is_closing():
            connection.get_buffer(-1)[: len(received)] = received
            connection.buffer_updated(len(received))

    def _refuse_plain(self) -> None:
        """Close the connection of a client without TLS, with a refusal in its own protocol."""
        refusal = self._handshakes.gate.foreign.without_tls(self._door.name, self._records)
        if self._socket is not None:
            self._socket.write(refusal.answer)
        self.abort(str(refusal))

    def _work(self, records: bytes) -> CertificatePeer | None:
        """Run one handshake step on a thread; return the peer, or None if more bytes are needed."""
        if self.tls is None:
            context = self._door.context
            self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.incoming.write(records)
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return None
        return CertificatePeer(self._door.identify(self.tls.getpeercert(binary_form=True)))

    def _worked(self, outcome: CertificatePeer | BaseException | None) -> None:
        self._working = False
        socket = self._socket
        if socket is None or self._over:
            return
        said = self.outgoing.read()  # includes alerts
        if said:
            socket.write(said)
        if isinstance(outcome, CertificatePeer):
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
            self.abort("the handshake met a bug of Headrace")
        else:
            self._step()
            if not self._working and not self._over:
                socket.resume_reading()

    def _open(self, socket: Transport, peer: CertificatePeer) -> None:
        """Make the Connection, and pass it bytes received behind the handshake."""
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
        """Decrypt received bytes and pass them to the Connection until it pauses."""
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
        """Close the connection, as the client has closed its TLS session."""
        if self._above is not None and self._socket is not None:
            self._above.eof_received()
            self._socket.close()

    def _broken(self, problem: OSError) -> None:
        log.warning(
            "%s on %s: dropping the connection: received bytes fail TLS decryption: %s",
            self.address, self._door.name, describe(problem),
        )  # fmt: skip
        if self._socket is not None:
            self._socket.abort()

    def deliver_soon(self) -> None:
        """Deliver held bytes in a later turn of the loop."""
        tls = self.tls
        if tls is not None and (self.incoming.pending or tls.pending()):
            self._handshakes.call_later(0, self.deliver)
