"""Sessions: an AMQP state machine's bytes, timers and socket; the frontend of all sessions."""

import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headrace.frontends.amqp.connection.connection import AmqpConnection
from headrace.frontends.amqp.connection.connection_state import State
from headrace.frontends.amqp.connection.negotiation import Settings
from headrace.frontends.amqp.connection.ports import Broker
from headrace.net.connection import Connection
from headrace.ports.clock import Clock, Timer
from headrace.security.identity import ANONYMOUS
from headrace.vhosts.users.logins import Peer
from headrace.wire.amqp.frames import FRAME_HEADER_BYTES

if TYPE_CHECKING:
    from headrace.frontends.amqp.connection.awaited_declarations import AwaitedDeclarations
    from headrace.net.pending import Pending
    from headrace.net.write_pass import WritePass
    from headrace.queue_stores.log.queue_logs import QueueLogs
    from headrace.vhosts.users.accounts import Accounts

log = logging.getLogger(__name__)

_MAINTENANCE = "Node was put into maintenance mode"
"""RabbitMQ's reason for closing connections by `rabbitmq-upgrade drain`."""
_SHUTDOWN = "broker forced connection closure with reason 'shutdown'"


class AmqpSession:
    """An AMQP connection's session. Implements `net.stream.StreamSession`."""

    def __init__(self, frontend: "AmqpFrontend", connection: Connection) -> None:
        self._frontend = frontend
        self._clock = frontend.clock
        self._connection = connection
        self._stream = connection.stream(self)
        self._timer: Timer | None = None
        self._timer_at = math.inf
        self._told = False
        self._failed = False
        shown = connection.principal
        name = None if shown == ANONYMOUS else shown.name
        # AMQP has heartbeats, at the client's interval, instead of the idle timeout.
        connection.idle_seconds_max = math.inf
        connection.authenticated = False
        self.amqp = AmqpConnection(
            frontend.settings,
            Peer(connection.address, connection.listener, name, connection.port),
            frontend.broker,
            self._stream.push if frontend.guard is None else self._push,
            self._clock.monotonic(),
            self._stream.takes_more,
            self._woken,
            connection.traffic,
        )
        self._arm()

    def _push(self, data: bytes) -> None:
        """Send `data`, unless the right to deliver it ends before it leaves."""
        self._stream.push(data)
        guard = None if self._frontend.guard is None else self._frontend.guard()
        if guard is not None:
            self._stream.guard(guard)

    def frames(self, view: memoryview, at: int, filled: int) -> int:
        """Handle the whole frames in `view[at:filled]`; return the index of the first left byte."""
        kept = self._frontend.kept
        if kept is not None and kept.logs.crowded:
            kept.logs.begin_pass()
        taken = self.amqp.take(bytes(view[at:filled]), self._clock.monotonic())
        self._look()
        return at + taken

    def need(self, view: memoryview, at: int, filled: int) -> int:
        """Return the size in bytes of the AMQP frame at `at`."""
        return self.amqp.need(bytes(view[at : min(filled, at + FRAME_HEADER_BYTES)]), 0)

    def room(self) -> None:
        """Deliver to the client again: it has read enough."""
        self.amqp.room()

    def pass_done(self) -> "Pending | None":
        """End a pass: write durable messages, send confirms and deliveries.

        Returns the pending writes, which the pass's answers wait for, or None.
        """
        frontend = self._frontend
        frontend.broker.pass_done()
        kept = frontend.kept
        if kept is None:
            return None
        pending, logs = None, kept.logs
        if logs.appended:
            kept.writes.begin()
            logs.write()
            pending = kept.writes.end()
        if logs.crowded and (awaited := logs.hold_up(self._log_made)):
            # No frames are read while logs of queues are created, to bound memory.
            self.amqp.input_holds.add(awaited)
            self._look()
        return pending

    def _log_made(self) -> None:
        self.amqp.input_holds.end()
        if not self.amqp.ended:
            self._look()

    def closed(self) -> None:
        """End the session of an AMQP connection whose socket is closed."""
        self.amqp.lost()
        self._look()
        self._frontend.forget(self)

    def look(self) -> None:
        """Apply the connection's state, which may have been changed outside of a pass."""
        self._look()

    def close(self, reason: str) -> None:
        """Close the AMQP connection with CONNECTION_FORCED, or its socket before it is open."""
        self.amqp.close(reason)
        self._look()

    def block(self, reason: str | None) -> None:
        """Block the client's publishes for a reason; None: accept them again."""
        if reason is None:
            self.amqp.unblock(self._clock.monotonic())
            self._look()
        else:
            self.amqp.block(reason)

    def _woken(self) -> float:
        """Schedule `_look`: the connection may be closed while another one's frames are handled."""
        self._clock.call_later(0, self._look)
        return self._clock.monotonic()

    def _look(self) -> None:
        """Apply the connection's state to its socket and timer, and log why it was closed."""
        amqp = self.amqp
        if amqp.reason is not None and not self._told:
            self._told = True
            log.info("AMQP connection from %s closed: %s", self._connection.address, amqp.reason)
        if amqp.refused_s is not None and not self._failed:
            self._failed = True
            self._connection.failed(amqp.refused_s)
        if amqp.ended:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._stream.end()
            return
        if not self._connection.authenticated and amqp.state is State.RUNNING:
            self._connection.known()
        if not amqp.holds_input:
            self._stream.go_on()
        elif not self._stream.held:
            self._stream.hold()
        self._arm()

    def _arm(self) -> None:
        """Set the timer to the deadline, unless an earlier one is set, which arms it again."""
        deadline = self.amqp.deadline
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._clock.call_later(deadline - self._clock.monotonic(), self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        # Bytes may have arrived that are not read yet.
        self.amqp.tick(now, self._connection.last_received)
        self._look()


class DurableState(Protocol):
    """The durable AMQP state of one broker: declarations and queues.

    Implemented by `durable_state.OwnState` and `in_cluster.ClusterState`.
    """

    @property
    def logs(self) -> "QueueLogs":
        """The logs of durable queues, written when a pass ends."""

    @property
    def writes(self) -> "WritePass":
        """The gathered writes of a pass."""

    async def start(self) -> None:
        """Restore the durable declarations and queues."""

    async def stop(self) -> None:
        """Write the state of the queues and close their stores."""


class AmqpFrontend:
    """The AMQP frontend: all sessions of one broker. Implements `server.frontends.Frontend`."""

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        clock: Clock,
        kept: "DurableState | None" = None,
        stopped: Callable[[], None] = lambda: None,
        awaited: "AwaitedDeclarations | None" = None,
        guard: Callable[[], Callable[[], bool] | None] | None = None,
    ) -> None:
        """Create the frontend.

        `kept` is the durable state, started and stopped with the broker; None: none.

        `stopped` is called when the broker stops. `awaited`: the declarations of a cluster, for
        which connections wait; None: they are loaded when the broker accepts connections.

        `guard`: `DeliveryTurns.guard` of a cluster's broker.
        """
        self.broker = broker
        self.accounts: Accounts
        """The broker's users, for its management API; set once, before the start."""
        self.kept = kept
        self._stopped = stopped
        self._awaited = awaited
        self.guard = guard
        self.settings = settings
        self.clock = clock
        self._sessions: dict[AmqpSession, None] = {}
        self._blocked: str | None = None
        self.is_drained = False
        """Whether the broker is drained for maintenance, so that it serves no clients."""

    def open(self, connection: Connection) -> AmqpSession:
        """Return a session for a new AMQP connection."""
        session = AmqpSession(self, connection)
        self._sessions[session] = None
        if self._awaited is not None:
            self._awaited.hold(session.amqp.input_holds)
            session.look()
        if self._blocked is not None:
            session.block(self._blocked)
        if self.is_drained:
            self.clock.call_later(0, lambda: session.close(_MAINTENANCE))
        return session

    def forget(self, session: AmqpSession) -> None:
        """Forget the session of an AMQP connection whose socket is closed."""
        self._sessions.pop(session, None)

    @property
    def is_blocked(self) -> bool:
        """Whether publishers are blocked by a memory or disk alarm."""
        return self._blocked is not None

    def block(self, reason: str | None) -> None:
        """Block publishers of all sessions for a reason; None: accept publishes again."""
        self._blocked = reason
        for session in list(self._sessions):
            session.block(reason)

    def drain(self, drained: bool) -> None:
        """Close all connections, and each new one at once; False: accept connections again."""
        self.is_drained = drained
        for session in list(self._sessions) if drained else ():
            session.close(_MAINTENANCE)

    async def start(self) -> None:
        """Restore the durable declarations, before clients may connect."""
        if self.kept is not None:
            await self.kept.start()

    async def stop(self) -> None:
        """Close all connections, then write the state of the queues."""
        for session in list(self._sessions):
            session.close(_SHUTDOWN)
        self._stopped()
        self.broker.close()
        if self.kept is not None:
            await self.kept.stop()
