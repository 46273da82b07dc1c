"""`Confirmations`: which brokers have applied a partition's declarations, by their polls.

A change is answered once all brokers that follow have applied it. A broker that has not within
`WAIT_SECONDS` is late, and is not waited for again until it polls.
"""

from collections.abc import Callable, Collection

from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, Offset
from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock, Timer

WAIT_SECONDS = 2.0
"""Seconds for which a change waits for the brokers that follow."""


class _Wait:
    """A change that waits for brokers."""

    __slots__ = ("done", "offset", "timer")

    def __init__(self, offset: Offset, done: Done[ApiError | None]) -> None:
        self.offset = offset
        self.done = done
        self.timer: Timer | None = None


class Confirmations:
    """The brokers that follow one partition, seen by its leader. On the deciding thread."""

    def __init__(self, clock: Clock, followers: Callable[[], Collection[BrokerId]]) -> None:
        """Create for a leader's term. `followers`: the other registered brokers, now."""
        self._clock = clock
        self._followers = followers
        self._applied: dict[BrokerId, Offset] = {}
        """The offset below which a broker has applied all, of those that are not late."""
        self.awaited = set(followers())
        """Brokers that are not late. One that registers later polls before it serves clients."""
        self.times_late = 0
        """How often a change was answered although a broker had not applied it."""
        self._waits: list[_Wait] = []

    def polled(self, broker: BrokerId, offset: Offset) -> None:
        """Note that a broker has applied all below `offset`."""
        self.awaited.add(broker)
        self._applied[broker] = offset
        self.look()

    def when_confirmed(self, offset: Offset, done: Done[ApiError | None]) -> None:
        """Call `done` once all brokers have applied what is below `offset`, or are late.

        It gets the error of `close` if the term ends before.
        """
        if not self._missing(offset):
            done(None)
            return
        wait = _Wait(offset, done)
        self._waits.append(wait)
        wait.timer = self._clock.call_later(WAIT_SECONDS, lambda: self._too_late(wait))

    def look(self) -> None:
        """End the waits that no broker holds up any more: one has polled, or has gone."""
        if not self._waits:
            return
        ready = [wait for wait in self._waits if not self._missing(wait.offset)]
        if ready:
            self._waits = [wait for wait in self._waits if wait not in ready]
            for wait in ready:
                _end(wait)

    def close(self, error: ApiError) -> None:
        """End all waits with an error: another broker leads."""
        waits, self._waits = self._waits, []
        for wait in waits:
            _end(wait, error)

    def _missing(self, offset: Offset) -> list[BrokerId]:
        applied = self._applied
        return [
            broker
            for broker in self._followers()
            if broker in self.awaited and applied.get(broker, -1) < offset
        ]

    def _too_late(self, wait: _Wait) -> None:
        if wait in self._waits:
            self.awaited.difference_update(self._missing(wait.offset))
            self.times_late += 1
            self.look()


def _end(wait: _Wait, error: ApiError | None = None) -> None:
    if wait.timer is not None:
        wait.timer.cancel()
    wait.done(error)
