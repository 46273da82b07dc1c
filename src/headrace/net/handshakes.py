"""TLS handshakes under way on all listeners: how many, for how long, and who does the sums.

A handshake costs a millisecond of processor time, so its steps are run by threads, and whoever does
not go on with his is ended. Where too many are under way the oldest one makes room: a crowd of
silent clients cannot keep others out.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace.net.limits import (
    HANDSHAKE_SECONDS_MAX,
    HANDSHAKES_LOGGED_PER_SECOND,
    HANDSHAKES_MAX,
    RECEIVE_BYTES,
)

if TYPE_CHECKING:
    from headrace.ports.clock import Clock, Timer

log = logging.getLogger(__name__)
T = TypeVar("T")


class Run(Protocol):
    """Runs `work` on a thread, then `done` on the loop with its result or what it raised."""

    def __call__(self, work: Callable[[], T], done: Callable[[Any], None], /) -> None: ...


class Handshaking(Protocol):
    """A connection whose handshake is under way."""

    def refuse(self, because: str, /) -> None:
        """End it, and say why."""

    def abort(self) -> None:
        """End it at once: the broker is stopping."""


class Handshakes:
    """Every handshake of one broker. Used from the event loop."""

    def __init__(
        self,
        clock: "Clock",
        run: Run,
        *,
        at_once_max: int = HANDSHAKES_MAX,
        seconds_max: float = HANDSHAKE_SECONDS_MAX,
    ) -> None:
        """`run` has a bound of its own of how many it runs at the same time."""
        self.run = run
        self.call_later = clock.call_later
        self.scratch = memoryview(bytearray(RECEIVE_BYTES))
        """Where the bytes of all connections land, encrypted: nobody's after a call."""
        self.done = 0
        self.failed = 0
        self._now = clock.monotonic
        self._at_once_max = at_once_max
        self._seconds_max = seconds_max
        self._timers: dict[Handshaking, Timer] = {}
        """The connections in the order they came, each with its deadline."""
        self._logged = 0
        self._logged_since = 0.0

    def __len__(self) -> int:
        return len(self._timers)

    def begin(self, connection: Handshaking) -> None:
        """Give a connection its time; where it is one too many, end the oldest."""
        if len(self._timers) >= self._at_once_max:
            oldest = next(iter(self._timers))
            oldest.refuse(f"{self._at_once_max} handshakes are under way, and it was the oldest")
        because = f"its handshake was not done within {self._seconds_max:g} s"
        overdue = lambda: connection.refuse(because)  # noqa: E731
        self._timers[connection] = self.call_later(self._seconds_max, overdue)

    def end(self, connection: Handshaking) -> None:
        """Forget a connection: its handshake is done, or it is gone."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """End all."""
        for connection in list(self._timers):
            connection.abort()

    def log_failure(self, address: str, listener: str, because: str) -> None:
        """Log why a handshake failed, and count it; of many in one second only the first few."""
        self.failed += 1
        now = self._now()
        if now - self._logged_since >= 1:
            hidden = self._logged - HANDSHAKES_LOGGED_PER_SECOND
            if hidden > 0:
                log.warning("%d more TLS handshakes failed within a second", hidden)
            self._logged, self._logged_since = 0, now
        self._logged += 1
        if self._logged <= HANDSHAKES_LOGGED_PER_SECOND:
            log.warning("%s on %s: no TLS connection: %s", address, listener, because)
