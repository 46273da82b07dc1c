"""Whose turn it is to hand out: all queues that may have something for somebody, fairly.

Each queue that is due hands out one batch and goes behind the others if it has more. Queues that
wait for the same room, that of a channel or of a slow client, go in the order in which they had
their last batches. A turn is bounded, so that whoever runs it is never held long; what is left goes
in the next one.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Protocol

from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.engine.stream_queue import StreamQueue
from headrace.queues.port import Consumer

AnyQueue = HostedQueue | StreamQueue

TURN_MESSAGES_MAX = 2000
"""After so many messages a turn begins no other batch."""
TURN_QUEUES_MAX = 1000
"""How many queues one turn looks at."""


class DeadLetterPublisher(Protocol):
    """The host of a queue, as far as its dead letters go. `queue_host.QueueHost`."""

    def publish_dead_letters(self, queue: AnyQueue) -> int:
        """Publish what died in a queue; returns how many there were."""


class DeliveryTurns:
    """The queues that are due, in their order."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._due: dict[AnyQueue, DeadLetterPublisher] = {}
        self._gone: list[Consumer] = []
        self._batches = 0
        self.on_due: Callable[[], None] = lambda: None
        """Called by `soon`: has `take` called when this turn of the loop is over."""

    def due(self, queue: AnyQueue, host: DeadLetterPublisher) -> None:
        """Let a queue hand out in the next turn."""
        self._due[queue] = host

    def due_in_turn(self, queues: Iterable[AnyQueue], host: DeadLetterPublisher) -> None:
        """Let queues hand out whose consumers wait for the same room: who had it last is last.

        Otherwise the first of them would have it always, and the others nothing while it is full.
        """
        for queue in sorted(queues, key=attrgetter("last_batch")):
            self._due.pop(queue, None)
            self._due[queue] = host

    def gone(self, consumers: Sequence[Consumer]) -> None:
        """Have consumers told in the next turn that their queue was deleted."""
        self._gone += consumers

    def soon(self) -> None:
        """Have what is due done soon, where no client's frames are being handled."""
        if self._due or self._gone:
            self.on_due()

    def take(self) -> bool:
        """Take a turn; True: there is more to do, in another one."""
        self._tell_of_deletions()
        due = self._due
        messages, queues = TURN_MESSAGES_MAX, TURN_QUEUES_MAX
        while due and messages > 0 and queues > 0:
            queue = next(iter(due))
            host = due.pop(queue)
            if queue.deleted:
                continue
            queues -= 1
            served = queue.deliver(self._now())
            if served:
                messages -= sum(served.values())
                self._batches += 1
                queue.last_batch = self._batches
                for channel in served:
                    channel.send()
            if queue.settings.dead_letters:
                messages -= host.publish_dead_letters(queue)
            if queue.timed and not queue.deleted:
                queue.arm()
            if queue.more:
                due[queue] = host
        self._tell_of_deletions()
        return bool(due)

    def _tell_of_deletions(self) -> None:
        gone, self._gone = self._gone, []
        for consumer in gone:
            consumer.channel.cancelled(consumer)
