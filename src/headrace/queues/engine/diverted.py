"""Queues of a host whose publishes still go to another target, so that they keep their order.

A queue that another broker led until now may have publishes of this broker under way. Later ones
are behind them on the same way until those are stored.
"""

from typing import Protocol

from headrace.queues.engine.delivery_turns import AnyQueue
from headrace.queues.engine.targets import Targets
from headrace.queues.port import Target


class PublishedQueues(Protocol):
    """The queues that are published to without another target: `QueueHost.queues`, or part."""

    def get(self, name: str, /) -> AnyQueue | None:
        """Return a queue by its name; None: `Targets` has its target."""


class NotDiverted:
    """The queues of a host but for those whose publishes are diverted."""

    def __init__(self, queues: dict[str, AnyQueue], targets: Targets) -> None:
        """Begin without a diverted queue; the arguments are those of the host."""
        self._queues = queues
        self._targets = targets
        self.diverted: set[str] = set()
        """The names of queues whose publishes are diverted."""

    def get(self, name: str, /) -> AnyQueue | None:
        """Return a queue by its name. Implements `PublishedQueues`."""
        return None if name in self.diverted else self._queues.get(name)

    def divert(self, name: str, target: Target) -> None:
        """Have the publishes to a queue passed to another target."""
        self.diverted.add(name)
        self._targets[name] = target

    def end(self, name: str) -> None:
        """Have the publishes to a queue passed to the queue, if it runs still."""
        self.diverted.discard(name)
        own = self._queues.get(name)
        if own is not None:
            self._targets[name] = own
