"""`Handshakes`: the TLS handshakes in progress on all listeners, with deadlines.

A handshake costs a millisecond of CPU time, so threads run its steps; a client that does not
continue is disconnected. `Places` limits their number: a handshake already holds its connection's
place, and it queues before its first step if connections come too fast.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace.net.limits import HANDSHAKES_LOGGED_PER_SECOND, RECEIVE_BYTES, Limits
from headrace.net.table import Arriving

if TYPE_CHECKING:
    from headrace.net.connection_places import Place
    from headrace.net.foreign_clients import ForeignClients
    from headrace.ports.clock import Clock, Timer

log = logging.getLogger(__name__)
T = TypeVar("T")


class RunWork(Protocol):
    """Runs `work` on a thread, then `done` on the loop with its result or exception."""

    def __call__(self, work: Callable[[], T], done: Callable[[Any], None], /) -> None: ...


class Gate(Protocol):
    """Decides which connections may begin a handshake, and when: `table.ConnectionTable`."""

    limits: Limits
    foreign: "ForeignClients"

    def queues(self, arriving: Arriving, /) -> bool:
        """Return whether it must queue for a rate limit; `let_in` is called later."""

    def holds_off(self, arriving: Arriving, /) -> bool:
        """Return whether it exceeds its address's rate; it is closed after a delay."""

    def place_for(self, arriving: Arriving, /) -> "Place | None":
        """Return a place for it, or None if a limit refuses it."""


class Handshakes:
    """All TLS handshakes of one broker. For the event loop."""

    def __init__(self, clock: "Clock", run: RunWork, gate: Gate) -> None:
        """Make the set of handshakes; `run` limits how many steps run at the same time."""
        self.run = run
        self.gate = gate
        self.call_later = clock.call_later
        self.now = clock.monotonic
        self.scratch = memoryview(bytearray(RECEIVE_BYTES))
        """Shared receive buffer for encrypted bytes; invalid after each call."""
        self.done = 0
        self.failed = 0
        self._timers: dict[Arriving, Timer] = {}
        """Handshakes in order of arrival, each with the timer of its deadline."""
        self._logged = 0
        self._logged_since = 0.0

    def __len__(self) -> int:
        return len(self._timers)

    def begin(self, connection: Arriving) -> None:
        """Start the deadline of a handshake."""
        seconds_max = self.gate.limits.handshake_seconds_max
        because = f"TLS handshake not complete within {seconds_max:g} s"
        self._timers[connection] = self.call_later(seconds_max, lambda: connection.abort(because))

    def end(self, connection: Arriving) -> None:
        """Remove a handshake that is complete or whose connection is closed."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Abort all handshakes, as the broker stops."""
        for connection in list(self._timers):
            connection.abort("the broker is stopping")

    def log_failure(self, address: str, listener: str, because: str) -> None:
        """Count a failed handshake and log why, at most a few per second."""
        self.failed += 1
        now = self.now()
        if now - self._logged_since >= 1:
            hidden = self._logged - HANDSHAKES_LOGGED_PER_SECOND
            if hidden > 0:
                log.warning("%d more TLS handshakes failed within a second", hidden)
            self._logged, self._logged_since = 0, now
        self._logged += 1
        if self._logged <= HANDSHAKES_LOGGED_PER_SECOND:
            log.warning("%s on %s: no TLS connection: %s", address, listener, because)
