"""Homes that a new leader of a queue waits for before it delivers."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from headrace.model.nouns import BrokerId
from headrace.ports.clock import Clock, Timer

ATTACH_SECONDS_MAX = 1.0
"""Seconds after which a queue is delivered although some homes have not attached.

The former leader named them, so it lives, and they did: they attach at once unless they are busy.
"""
QueueName = tuple[str, str]


class _Wait(NamedTuple):
    homes: set[BrokerId]
    done: Callable[[], None]
    timer: Timer


class AwaitedHomes:
    """The homes that have not attached to queues that this broker has begun to lead."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits: dict[QueueName, _Wait] = {}

    def wait(self, name: QueueName, homes: Iterable[BrokerId], done: Callable[[], None]) -> None:
        """Call `done` when all homes have attached to a queue, or after ATTACH_SECONDS_MAX.

        A wait for the same queue that has not ended is dropped: its term has ended.
        """
        self.drop(name)
        left = set(homes)
        if not left:
            done()
            return
        timer = self._clock.call_later(ATTACH_SECONDS_MAX, lambda: self._end(name))
        self._waits[name] = _Wait(left, done, timer)

    def attached(self, home: BrokerId, name: QueueName) -> None:
        """Note that a home has named all that it holds of a queue."""
        wait = self._waits.get(name)
        if wait is not None:
            wait.homes.discard(home)
            if not wait.homes:
                self._end(name)

    def forget(self, homes: Callable[[BrokerId], bool]) -> None:
        """Stop waiting for the homes for which `homes` is true: they are down."""
        for name, wait in tuple(self._waits.items()):
            for home in tuple(filter(homes, wait.homes)):
                self.attached(home, name)

    def drop(self, name: QueueName) -> None:
        """Stop waiting: the queue is not led here any more."""
        wait = self._waits.pop(name, None)
        if wait is not None:
            wait.timer.cancel()

    def close(self) -> None:
        """Stop waiting for all: the broker stops."""
        for name in tuple(self._waits):
            self.drop(name)

    def _end(self, name: QueueName) -> None:
        wait = self._waits.pop(name)
        wait.timer.cancel()
        wait.done()
