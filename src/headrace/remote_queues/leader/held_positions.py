"""Positions that a home holds of a queue whose leader has changed, taken by the new leader.

All unsettled messages are ready at first. Those up to the last held position are taken in order:
the held ones stay unacknowledged, as deliveries of their consumer, and the others are requeued.
They were delivered by the former leader, or requeued: no message before a delivered one was not.
While messages are waited for, the others are ready: several homes name theirs at the same time.
A message that the former leader had committed may not be committed here yet, until followers fetch.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.port import Disposition

if TYPE_CHECKING:
    from headrace.queues.engine.priority_level import MessageLevel
    from headrace.remote_queues.leader.remote_channel import RemoteChannel


LOOKS_MAX = 30
"""How often it is looked for a message that is not committed: as long as homes are waited for."""


class HeldPositions:
    """The positions of one consumer, while they are taken."""

    def __init__(
        self, queue: HostedQueue, channel: "RemoteChannel", positions: Collection[int]
    ) -> None:
        """Begin for the consumer of a channel; `go_on` takes the messages.

        A priority queue's positions have the priority.
        """
        self.queue = queue
        self.channel = channel
        self.held: dict[int, int] = {}
        """Bytes of the body of each position that was ready: it is held now."""
        self._looks = 0
        self._width = 1 + (queue.settings.priority_max or 0)
        self._wanted = frozenset(positions)
        self._others: list[tuple[MessageLevel, int, int]] = []
        ends: dict[int, int] = {}
        for position in positions:
            own, priority = divmod(position, self._width)
            ends[priority] = max(ends.get(priority, 0), own + 1)
        self._ends = list(ends.items())
        """Priorities that are left, each with the position after its last held one."""

    def go_on(self) -> bool:
        """Take messages; return whether all are taken. If not they are being read: call again."""
        while self._ends:
            taken = self.queue.take_below(*self._ends[-1])
            if taken is None:
                if self._looks < LOOKS_MAX and self.queue.lacks_below(*self._ends[-1]):
                    self._looks += 1
                    self._give_back_others()
                    return False
                self._ends.pop()
                continue
            if not taken.positions:
                self._give_back_others()
                return False
            for own, size in zip(taken.positions, taken.sizes, strict=True):
                position = own * self._width + taken.level.priority
                if position in self._wanted:
                    self.held[position] = size
                else:
                    self._others.append((taken.level, own, size))
        self.end()
        return True

    def end(self) -> None:
        """Requeue what is taken and not held."""
        self._ends.clear()
        self._give_back_others(len(self.held))

    def _give_back_others(self, held: int = 0) -> None:
        """Requeue what is not held: another home may hold it."""
        others, self._others = self._others, []
        self.queue.end_hold(held, others)

    def give_up(self) -> None:
        """Requeue all that is taken: the session ends, or the queue has another leader."""
        self.end()
        self.queue.settle(Disposition.REQUEUED, list(self.held), list(self.held.values()))
