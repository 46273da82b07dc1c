"""A connection's bytes between `net` and the state machine, and its time."""

import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headrace.frontends.amqp.connection.connection import AmqpConnection
from headrace.frontends.amqp.connection.connection_state import State
from headrace.frontends.amqp.connection.negotiation import Settings
from headrace.frontends.amqp.connection.ports import Broker, Peer
from headrace.net.connection import Connection
from headrace.ports.clock import Clock, Timer
from headrace.security.identity import ANONYMOUS
from headrace.wire.amqp.frames import FRAME_HEADER_BYTES

if TYPE_CHECKING:
    from headrace.net.pending import Pending
    from headrace.net.write_pass import WritePass
    from headrace.queues.stores.log.log_writing import QueueLogs

log = logging.getLogger(__name__)

_SHUTDOWN = "broker forced connection closure with reason 'shutdown'"


class AmqpSession:
    """One connection of AMQP. `net.stream.StreamSession`."""

    def __init__(self, frontend: "AmqpFrontend", connection: Connection) -> None:
        self._frontend = frontend
        self._clock = frontend.clock
        self._connection = connection
        self._stream = connection.stream(self)
        self._timer: Timer | None = None
        self._timer_at = math.inf
        self._told = False
        self._failed = False
        self._logs_awaited = 0
        """Logs that are made, beside which nothing is taken: too much waits for them."""
        shown = connection.principal
        name = None if shown == ANONYMOUS else shown.name
        # Its client is looked for by heartbeats, as the client wants them, and by no other clock.
        connection.idle_seconds_max = math.inf
        connection.authenticated = False
        self.amqp = AmqpConnection(
            frontend.settings,
            Peer(connection.address, connection.listener, name, connection.port),
            frontend.broker,
            self._stream.push,
            self._clock.monotonic(),
            self._stream.takes_more,
            self._woken,
        )
        self._arm()

    def frames(self, view: memoryview, at: int, filled: int) -> int:
        """Take the whole frames in `view[at:filled]`; returns where the first byte left over is."""
        taken = self.amqp.take(bytes(view[at:filled]), self._clock.monotonic())
        self._look()
        return at + taken

    def need(self, view: memoryview, at: int, filled: int) -> int:
        """Return how many bytes make the frame at `at` whole."""
        return self.amqp.need(bytes(view[at : min(filled, at + FRAME_HEADER_BYTES)]), 0)

    def room(self) -> None:
        """Go on delivering."""
        self.amqp.room()

    def pass_done(self) -> "Pending | None":
        """End the pass: confirms and deliveries leave with it."""
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
            self._logs_awaited += awaited
            self._look()
        return pending

    def _log_made(self) -> None:
        self._logs_awaited -= 1
        if not self._logs_awaited and not self.amqp.ended:
            # Nothing was read meanwhile: its silence begins now.
            now = self._clock.monotonic()
            self.amqp.tick(now, now)
            self._look()

    def closed(self) -> None:
        """Forget all."""
        self.amqp.lost()
        self._look()
        self._frontend.forget(self)

    def shut_down(self) -> None:
        """Tell the client that the broker stops."""
        self.amqp.close(_SHUTDOWN)
        self._look()

    def block(self, reason: str | None) -> None:
        """Say that publishes find no room, and why; None: they do again."""
        if reason is None:
            self.amqp.unblock(self._clock.monotonic())
            self._look()
        else:
            self.amqp.block(reason)

    def _woken(self) -> float:
        """Look soon: somebody closes the connection, perhaps while another's frames are taken."""
        self._clock.call_later(0, self._look)
        return self._clock.monotonic()

    def _look(self) -> None:
        """Do what the state of the connection asks of its socket and its timer."""
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
        if not amqp.holds_publishes and not self._logs_awaited:
            self._stream.go_on()
        elif not self._stream.held:
            self._stream.hold()
        self._arm()

    def _arm(self) -> None:
        """Have `_tick` called at the deadline, or before: it looks again."""
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
        # What is not read may have come.
        self.amqp.tick(now, now if self._logs_awaited else self._connection.last_received)
        self._look()


class DurableState(Protocol):
    """What is durable of one broker. `frontend.Durable`."""

    @property
    def logs(self) -> "QueueLogs":
        """The logs of durable queues: written when a pass ends."""

    @property
    def writes(self) -> "WritePass":
        """Has a pass's writes done together."""

    async def start(self) -> None:
        """Put back what was declared before."""

    async def stop(self) -> None:
        """Write down what is known of queues."""


class AmqpFrontend:
    """What clients of AMQP speak with: all sessions of one broker. `server.frontends.Frontend`."""

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        clock: Clock,
        kept: "DurableState | None" = None,
        stopped: Callable[[], None] = lambda: None,
    ) -> None:
        """`kept`: what writes the pass's messages, and is begun and closed with the broker.

        `stopped` is called when it stops.
        """
        self.broker = broker
        self.kept = kept
        self._stopped = stopped
        self.settings = settings
        self.clock = clock
        self._sessions: dict[AmqpSession, None] = {}
        self._blocked: str | None = None

    def open(self, connection: Connection) -> AmqpSession:
        """Return a session for a new connection."""
        session = AmqpSession(self, connection)
        self._sessions[session] = None
        if self._blocked is not None:
            session.block(self._blocked)
        return session

    def forget(self, session: AmqpSession) -> None:
        """Forget a session whose socket is gone."""
        self._sessions.pop(session, None)

    @property
    def is_blocked(self) -> bool:
        """Whether publishers are stopped: memory or disk is low."""
        return self._blocked is not None

    def block(self, reason: str | None) -> None:
        """Say that publishes find no room, and why; None: they do again."""
        self._blocked = reason
        for session in list(self._sessions):
            session.block(reason)

    async def start(self) -> None:
        """Put back what was declared before; then clients may come."""
        if self.kept is not None:
            await self.kept.start()

    async def stop(self) -> None:
        """Take leave of all clients, and write down what is known of queues."""
        for session in list(self._sessions):
            session.shut_down()
        self._stopped()
        self.broker.close()
        if self.kept is not None:
            await self.kept.stop()
