"""TLS handshakes under way on all listeners: when they begin, for how long, and who does the sums.

A handshake costs a millisecond of processor time, so its steps are run by threads, and whoever does
not go on with his is ended. How many there may be is for `places` to say: a handshake under way has
its connection's place, and waits before its first step where connections come too fast.
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


class Run(Protocol):
    """Runs `work` on a thread, then `done` on the loop with its result or what it raised."""

    def __call__(self, work: Callable[[], T], done: Callable[[Any], None], /) -> None: ...


class Gate(Protocol):
    """Who may come in, and when. `table.ConnectionTable`."""

    limits: Limits
    foreign: "ForeignClients"

    def queues(self, arriving: Arriving, /) -> bool:
        """Say whether it must wait for its turn: its `let_in` is called then."""

    def holds_off(self, arriving: Arriving, /) -> bool:
        """Say whether it comes too soon after others: it is ended in a while."""

    def place_for(self, arriving: Arriving, /) -> "Place | None":
        """Return a place for it, or None where a limit refuses it."""


class Handshakes:
    """Every handshake of one broker. Used from the event loop."""

    def __init__(self, clock: "Clock", run: Run, gate: Gate) -> None:
        """`run` has a bound of its own of how many it runs at the same time."""
        self.run = run
        self.gate = gate
        self.call_later = clock.call_later
        self.now = clock.monotonic
        self.scratch = memoryview(bytearray(RECEIVE_BYTES))
        """Where the bytes of all connections land, encrypted: nobody's after a call."""
        self.done = 0
        self.failed = 0
        self._timers: dict[Arriving, Timer] = {}
        """The connections in the order they came, each with its deadline."""
        self._logged = 0
        self._logged_since = 0.0

    def __len__(self) -> int:
        return len(self._timers)

    def begin(self, connection: Arriving) -> None:
        """Give a connection its time."""
        seconds_max = self.gate.limits.handshake_seconds_max
        because = f"its handshake was not done within {seconds_max:g} s"
        self._timers[connection] = self.call_later(seconds_max, lambda: connection.abort(because))

    def end(self, connection: Arriving) -> None:
        """Forget a connection: its handshake is done, or it is gone."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """End all."""
        for connection in list(self._timers):
            connection.abort("the broker is stopping")

    def log_failure(self, address: str, listener: str, because: str) -> None:
        """Log why a handshake failed, and count it; of many in one second only the first few."""
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
