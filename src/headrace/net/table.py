"""All connections: admission, shared buffers, and the one sweep that enforces deadlines."""

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
"""Called once per admitted connection; its `address` and `listener` are known by then."""

_TRIM_EVERY_SWEEPS = 30
_REFUSALS_LOGGED_PER_SWEEP = 5


def _never_too_many(address: str) -> float:
    """Return no delay: connections may come as fast as they like."""
    return 0.0


def _at_once(listener: str) -> float:
    """Return no delay: nobody waits to be let in."""
    return 0.0


class Arriving(Holder, Protocol):
    """A connection that has just come: one of ours, or a TLS handshake that is to begin."""

    address: str

    @property
    def listener(self) -> str:
        """The name of the listener it came by."""

    def let_in(self) -> None:
        """Go on: its turn has come."""

    def close(self) -> None:
        """End it."""


class ConnectionTable:
    """Every connection of one broker and what they share. Used from the event loop only."""

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        open_session: SessionFactory,
        fatal: Callable[[Exception], None],
        too_many: Callable[[str], float] = _never_too_many,
        delay: Callable[[str], float] = _at_once,
    ) -> None:
        """`delay`: asked for each new connection of a listener, one after the other: the seconds
        until it is let in, and the next one is asked for. `too_many`: told the address of each one
        let in; the seconds for which one from there is left unread and then ended, 0.0 where it is
        welcome (KIP-612).
        """
        self.limits = limits
        """May be replaced; what is open stays open."""
        self.now = clock.monotonic
        self.call_later = clock.call_later
        self.fatal = fatal
        """Called with a broken invariant: the process must stop."""
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.piece = memoryview(bytearray(PIECE_BYTES))
        """Where what is sent of files is read to, by whoever's turn it is."""
        self.pool = BufferPool(limits.request_bytes_max)
        self.foreign = NO_LISTENERS
        """Recognises clients of other protocols; replaced once the listeners are known."""
        self.accepted = 0
        self.refused = 0
        self.dropped = 0
        self.blocked = 0
        """How often a connection's requests were held back for its unanswered or unread ones."""
        self._clock = clock
        self._open_session = open_session
        self._too_many = too_many
        self._delay = delay
        self.places = Places(clock, lambda: self.limits)
        self._queues: dict[str, deque[Arriving]] = {}
        """Who waits to be let in, by listener; for the first one of each a timer runs."""
        self._held_off: dict[Arriving, None] = {}
        self._connections: dict[Connection, None] = {}
        """In the order they came: sets of objects have another one in each process."""
        self._dirty: list[Answers] = []
        self._wanting_memory: list[Connection] = []
        self._sweeps = 0
        self._refused_at_sweep = 0
        self._timer: Timer = clock.call_later(SWEEP_SECONDS, self._sweep)
        self._closed = False

    def __len__(self) -> int:
        return len(self._connections)

    def listeners(self) -> Iterator[str]:
        """Yield the name of the listener that each open connection came by."""
        return (connection.listener for connection in self._connections)

    def queues(self, arriving: Arriving) -> bool:
        """Tell whether a new connection must wait for its turn: its `let_in` is called then.

        One that would wait where the places are taken by those before it is ended at once.
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
            self._log_refusal(arriving, "as many wait already as max.connections allows")
            self.call_later(0, arriving.close)
            return True
        queue.append(arriving)
        return True

    def _let_in(self, listener: str) -> None:
        """Let in the connection that has waited longest, and those that need not wait longer."""
        seconds, queue = 0.0, self._queues[listener]
        while queue and seconds <= 0:
            queue.popleft().let_in()
            seconds = self._delay(listener) if queue else 0.0
        if queue:
            self.call_later(seconds, partial(self._let_in, listener))
        else:
            del self._queues[listener]

    def holds_off(self, arriving: Arriving) -> bool:
        """Tell whether a new connection comes too soon after others: it is ended in a while.

        At once where so many are held off already that they might take the others' places.
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
        """Return a place for a new connection, or None where a limit refuses it."""
        taken: Place | str = "the broker is stopping"
        if not self._closed:
            taken = self.places.take(arriving, arriving.address, arriving.listener)
        if isinstance(taken, str):
            self._log_refusal(arriving, taken)
            return None
        return taken

    def admit(self, connection: Connection) -> Session | StreamSession | None:
        """Return a session for a new connection, or None where a limit refuses it.

        One that comes out of a TLS handshake has its place already.
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
        """Count a connection that is not let in, and say why: of many in a second a few."""
        self._log_refusal(arriving, reason)

    def _log_refusal(self, arriving: Arriving, reason: str) -> None:
        self.refused += 1
        if self.refused - self._refused_at_sweep <= _REFUSALS_LOGGED_PER_SWEEP:
            log.warning("a connection from %s is refused: %s", arriving.address, reason)

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is gone."""
        self._connections.pop(connection, None)
        place, connection.place = connection.place, None  # each holds the other
        if place is not None:
            place.leave()
        self._offer_memory()

    def send_soon(self, answers: Answers) -> None:
        """Have a connection's ready answers sent when this turn of the loop is over."""
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
        """Call the connection's `memory_freed` when large frames may be received again."""
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
            return f"no whole request came within {limits.first_frame_seconds_max:g} s"
        seconds_max = limits.authentication_seconds_max
        if not connection.authenticated and now - connection.opened > seconds_max:
            # Who has failed waits for that as long as his session says.
            return None if connection.quiet else f"not authenticated within {seconds_max:g} s"
        since = connection.frame_since
        if since is not None and now - since > limits.frame_seconds_max:
            return f"a request did not come whole within {limits.frame_seconds_max:g} s"
        if connection.answers.write_blocked_since is not None:
            connection.note_taken(now)
        since = connection.answers.write_blocked_since
        if since is not None and now - since > limits.slow_reader_seconds_max:
            return f"its client left answers unread for {limits.slow_reader_seconds_max:g} s"
        idle_max = connection.idle_seconds_max
        if idle_max is None:
            idle_max = limits.idle_seconds_max
        if now - connection.answers.last_moved > idle_max and connection.idle:
            return f"idle for {idle_max:g} s (connections.max.idle.ms)"
        return None

    def quiesce(self) -> None:
        """Take no new requests; those taken are still answered."""
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
        """Abort the connections that `close` has not ended: their clients read nothing."""
        for connection in list(self._connections):
            connection.abort("the broker is stopping")
