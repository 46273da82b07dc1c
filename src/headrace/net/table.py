"""`ConnectionTable`: all connections: admission, shared buffers, and the check of deadlines."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from headrace.net.answering import Answers
from headrace.net.buffers import BufferPool
from headrace.net.connection import Connection
from headrace.net.connection_places import Holder, Place, Places
from headrace.net.foreign_clients import NO_LISTENERS
from headrace.net.limits import (
    PIECE_BYTES,
    SCRATCH_BYTES,
    SWEEP_SECONDS,
    Limits,
)
from headrace.net.session import Session
from headrace.net.stream import StreamSession
from headrace.ports.clock import Clock, Timer

log = logging.getLogger(__name__)

SessionFactory = Callable[[Connection], Session | StreamSession]
"""Makes the session of an admitted connection, whose `address` and `listener` are set."""

_TRIM_EVERY_SWEEPS = 30
_REFUSALS_LOGGED_PER_SWEEP = 5


def _never_too_many(address: str) -> float:
    """Return 0.0: no limit on the connection rate of an address."""
    return 0.0


def _at_once(listener: str) -> float:
    """Return 0.0: no limit on the connection rate of a listener."""
    return 0.0


class Arriving(Holder, Protocol):
    """A new connection: a Connection, or a TLS handshake before its begin."""

    address: str

    @property
    def listener(self) -> str:
        """The name of the listener that accepted the connection."""

    def let_in(self) -> None:
        """Begin to serve the connection: the rate limits admit it now."""

    def close(self) -> None:
        """Close the new connection."""


class ConnectionTable:
    """All connections of one broker and their shared resources. For the event loop only."""

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        open_session: SessionFactory,
        fatal: Callable[[Exception], None],
        too_many: Callable[[str], float] = _never_too_many,
        delay: Callable[[str], float] = _at_once,
    ) -> None:
        """Make an empty table.

        `delay(listener)` counts a new connection and returns the seconds until it is let in, before
        the next one is counted. `too_many(address)` counts a connection that was let in and returns
        the seconds to leave it unread before closing it, 0.0 if it is welcome (KIP-612).
        """
        self.limits = limits
        """The current limits; may be replaced. Open connections stay."""
        self.now = clock.monotonic
        self.call_later = clock.call_later
        self.fatal = fatal
        """Called with a broken invariant to stop the process."""
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.piece = memoryview(bytearray(PIECE_BYTES))
        """Shared buffer for pieces of files; used by one connection at a time."""
        self.pool = BufferPool(limits.request_bytes_max)
        self.foreign = NO_LISTENERS
        """Recognises clients of other protocols; replaced once the listeners are known."""
        self.accepted = 0
        self.refused = 0
        self.dropped = 0
        self.blocked = 0
        """How often requests of a connection were held back."""
        self._clock = clock
        self._open_session = open_session
        self._too_many = too_many
        self._delay = delay
        self.places = Places(clock, lambda: self.limits)
        self._queues: dict[str, deque[Arriving]] = {}
        """Connections waiting for `let_in`, by listener; one timer per listener."""
        self._held_off: dict[Arriving, None] = {}
        self._connections: dict[Connection, None] = {}
        """Open connections in order of arrival; a set's order would differ between processes."""
        self._dirty: list[Answers] = []
        self._wanting_memory: list[Connection] = []
        self._sweeps = 0
        self._refused_at_sweep = 0
        self._timer: Timer = clock.call_later(SWEEP_SECONDS, self._sweep)
        self._closed = False

    def __len__(self) -> int:
        return len(self._connections)

    def listeners(self) -> Iterator[str]:
        """Yield the listener name of each open connection."""
        return (connection.listener for connection in self._connections)

    def queues(self, arriving: Arriving) -> bool:
        """Return whether a new connection must queue for a rate limit; `let_in` is called later.

        If those before it take all remaining places, it is closed at once.
        """
        if arriving.listener in self.limits.listeners_apart:
            return False
        queue = self._queues.get(arriving.listener)
        if queue is None:
            seconds = self._delay(arriving.listener)
            if seconds <= 0:
                return False
            queue = self._queues[arriving.listener] = deque()
            self.call_later(seconds, partial(self._let_in, arriving.listener))
        waiting = sum(map(len, self._queues.values()))
        if waiting and len(self.places) + waiting >= self.limits.connections_max:
            self._log_refusal(arriving, "max.connections connections are open or waiting")
            self.call_later(0, arriving.close)
            return True
        queue.append(arriving)
        return True

    def _let_in(self, listener: str) -> None:
        """Let in the connection that waited longest, and further ones that are due."""
        seconds, queue = 0.0, self._queues[listener]
        while queue and seconds <= 0:
            queue.popleft().let_in()
            seconds = self._delay(listener) if queue else 0.0
        if queue:
            self.call_later(seconds, partial(self._let_in, listener))
        else:
            del self._queues[listener]

    def holds_off(self, arriving: Arriving) -> bool:
        """Return whether a new connection exceeds its address's rate; it is closed after a delay.

        Without a delay if so many are held that they could use up the connection limit.
        """
        if arriving.listener in self.limits.listeners_apart:
            return False
        seconds = self._too_many(arriving.address)
        if seconds <= 0:
            return False
        self.refused += 1
        if self._closed or len(self.places) + len(self._held_off) >= self.limits.connections_max:
            seconds = 0.0
        self._held_off[arriving] = None
        self.call_later(seconds, partial(self._end_held_off, arriving))
        return True

    def _end_held_off(self, arriving: Arriving) -> None:
        if arriving in self._held_off:
            del self._held_off[arriving]
            arriving.close()

    def place_for(self, arriving: Arriving) -> Place | None:
        """Return a place for a new connection, or None if a limit refuses it."""
        taken: Place | str = "the broker is stopping"
        if not self._closed:
            taken = self.places.take(arriving, arriving.address, arriving.listener)
        if isinstance(taken, str):
            self._log_refusal(arriving, taken)
            return None
        return taken

    def admit(self, connection: Connection) -> Session | StreamSession | None:
        """Return a session for a new connection, or None if a limit refuses it.

        A connection after a TLS handshake already has its place.
        """
        place = connection.place
        if place is None:
            place = self.place_for(connection)
        elif self._closed:
            place.leave()
            place = None
        if place is None:
            return None
        connection.place, place.holder = place, connection
        self.accepted += not place.apart
        self._connections[connection] = None
        session = self._open_session(connection)
        if connection.authenticated:
            place.known()
        return session

    def refuse(self, arriving: Arriving, reason: str) -> None:
        """Count a refused connection and log the reason, at most a few per second."""
        self._log_refusal(arriving, reason)

    def _log_refusal(self, arriving: Arriving, reason: str) -> None:
        self.refused += 1
        if self.refused - self._refused_at_sweep <= _REFUSALS_LOGGED_PER_SWEEP:
            log.warning("refusing a connection from %s: %s", arriving.address, reason)

    def leave(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._connections.pop(connection, None)
        place, connection.place = connection.place, None  # cut the cycle between the two
        if place is not None:
            place.leave()
        self._offer_memory()

    def send_soon(self, answers: Answers) -> None:
        """Send a connection's ready answers at the end of this turn of the loop."""
        if not self._dirty:
            self._clock.call_later(0, self._send_all)
        self._dirty.append(answers)

    def _send_all(self) -> None:
        dirty, self._dirty = self._dirty, []
        for answers in dirty:
            try:
                answers.send_ready()
            except Exception as problem:  # noqa: BLE001 - whatever it is, it ends one connection
                answers.lost(problem)

    def wait_for_memory(self, connection: Connection) -> None:
        """Call the connection's `memory_freed` once a large frame may be received again."""
        self._wanting_memory.append(connection)

    def _offer_memory(self) -> None:
        while self._wanting_memory and self._wanting_memory[0].memory_freed():
            self._wanting_memory.pop(0)

    def _sweep(self) -> None:
        if self._closed:
            return
        self._timer = self._clock.call_later(SWEEP_SECONDS, self._sweep)
        now = self.now()
        for connection in list(self._connections):
            because = self._overdue(connection, now)
            if because is not None:
                self.dropped += 1
                connection.abort(because)
            else:
                connection.sweep_buffer()
        self._sweeps += 1
        self._refused_at_sweep = self.refused
        if self._sweeps % _TRIM_EVERY_SWEEPS == 0:
            self.pool.trim()
        self._offer_memory()

    def _overdue(self, connection: Connection, now: float) -> str | None:
        limits = self.limits
        if connection.frames == 0 and now - connection.opened > limits.first_frame_seconds_max:
            return f"no complete request within {limits.first_frame_seconds_max:g} s"
        seconds_max = limits.authentication_seconds_max
        if not connection.authenticated and now - connection.opened > seconds_max:
            # After a failed authentication the session sets the delay.
            return None if connection.quiet else f"not authenticated within {seconds_max:g} s"
        since = connection.frame_since
        if since is not None and now - since > limits.frame_seconds_max:
            return f"a request was not complete within {limits.frame_seconds_max:g} s"
        if connection.answers.write_blocked_since is not None:
            connection.note_taken(now)
        since = connection.answers.write_blocked_since
        if since is not None and now - since > limits.slow_reader_seconds_max:
            return f"the client left answers unread for {limits.slow_reader_seconds_max:g} s"
        idle_max = connection.idle_seconds_max
        if idle_max is None:
            idle_max = limits.idle_seconds_max
        if now - connection.answers.last_moved > idle_max and connection.idle:
            return f"idle for {idle_max:g} s (connections.max.idle.ms)"
        return None

    def quiesce(self) -> None:
        """Accept no new requests; earlier ones are still answered."""
        self._closed = True
        self._timer.cancel()
        for connection in self._connections:
            connection.quiesce()

    def close(self) -> None:
        """Refuse new connections and close all others, each after its ready answers."""
        self._closed = True
        self._timer.cancel()
        for connection in list(self._connections):
            connection.answers.send_ready()
            connection.close()
        for arriving in list(self._held_off):
            self._end_held_off(arriving)
        for queue in self._queues.values():
            while queue:
                queue.popleft().close()

    def abort(self) -> None:
        """Drop the connections that `close` has not ended, as their clients do not read."""
        for connection in list(self._connections):
            connection.abort("the broker is stopping")
