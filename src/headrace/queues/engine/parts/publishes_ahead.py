"""Publishes that wait for a queue's leader while this broker becomes it, and those behind them.

    remote queue: b1 b2 --session with this broker itself--> hosted queue
    later publishes of the same channels follow b2 by that way until all are decided

If they went to the hosted queue at once, they would overtake b1 and b2.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from headrace.queues.engine.delivery_turns import AnyQueue
from headrace.queues.engine.targets import Targets
from headrace.queues.port import Queue


class HostedQueues(Protocol):
    """The hosted queues that publishes go to directly, by name."""

    def get(self, name: str, /) -> AnyQueue | None:
        """Return a queue; None: it is not hosted, or publishes to it go by another way."""


class PublishesAhead:
    """The hosted queues whose publishes follow others through `Targets.elsewhere`."""

    def __init__(
        self,
        queues: dict[str, AnyQueue],
        targets: Targets,
        use: Callable[[HostedQueues], None],
    ) -> None:
        """Begin without any; `use` takes what publishes look queues up in, after each change."""
        self._queues = queues
        self._targets = targets
        self._use = use
        self._ahead: dict[str, AnyQueue] = {}

    def get(self, name: str, /) -> AnyQueue | None:
        """Return a queue that publishes go to directly. Implements `HostedQueues`."""
        queue = self._queues.get(name)
        return None if queue is not None and self._ahead.get(name) is queue else queue

    def hosted(self, queue: AnyQueue) -> None:
        """Have publishes to a queue, hosted from now on, follow those that wait elsewhere."""
        former = self._targets.elsewhere.get(queue.name)
        if former is not None:
            self._ahead[queue.name] = queue
            self._targets[queue.name] = former
            self._use(self)
            self._follow(queue, former)

    def _follow(self, queue: AnyQueue, former: Queue) -> None:
        former.when_stored(partial(self._decided, queue, former, former.last_number))

    def _decided(
        self, queue: AnyQueue, former: Queue, number: int | None, _unstored: object
    ) -> None:
        """Have publishes go to the queue directly, unless others have followed meanwhile."""
        if self._ahead.get(queue.name) is not queue:
            return  # it was hosted again
        led = self._queues.get(queue.name) is queue
        if led and former.last_number != number:
            self._follow(queue, former)
            return
        del self._ahead[queue.name]
        if led:
            self._targets[queue.name] = queue
        if not self._ahead:
            self._use(self._queues)
