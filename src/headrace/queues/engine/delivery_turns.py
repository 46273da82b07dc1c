"""Turns of delivery: each due queue of all vhosts delivers one batch, round robin.

A queue with more to deliver goes behind the others. Queues that wait for the same room, that of a
channel or of a slow client, go in the order in which they had their last batches. A turn is
bounded, so that the event loop is not blocked for long; the rest is delivered in the next turn.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.model.invariant import InvariantError
from headrace.ports.clock import Clock
from headrace.queues.engine.closed_queue import ClosedQueue
from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.engine.ready_messages import DEAD_LETTER_COST
from headrace.queues.engine.stream_queue import StreamQueue

if TYPE_CHECKING:
    from headrace.queues.engine.queue_host import QueueHost
    from headrace.queues.port import Consumer
    from headrace.queues.refusals import Refused

BatchingQueue = HostedQueue | StreamQueue
AnyQueue = BatchingQueue | ClosedQueue
T = TypeVar("T")

TURN_MESSAGES_MAX = 2000
"""Messages delivered in a turn after which it begins no other batch."""
TURN_QUEUES_MAX = 1000
"""Queues that one turn looks at, at most."""


class Leadership(Protocol):
    """Calls `begin` and `pause` of queues: which of them this broker leads alone (ADR 78)."""

    def hosted(self, vhost: str, queue: HostedQueue) -> None:
        """Pause a new queue, unless this broker leads it alone."""

    def removed(self, vhost: str, queue: HostedQueue) -> None:
        """Forget a queue that is deleted or closed."""

    def check(self) -> None:
        """Pause the queues whose right has ended by now: a queue or a timer is about to act."""

    def guard(self) -> Callable[[], bool]:
        """Return a function that tells whether no other broker can act by rights of this moment."""


class DeliveryTurns:
    """The queues that have something to deliver, in their order."""

    def __init__(self, clock: Clock) -> None:
        self.pending: dict[AnyQueue, QueueHost] = {}
        """The due queues, each with the host of its vhost."""
        self.gone: list[tuple[Consumer, Refused | None]] = []
        """Consumers to notify: their queue is deleted (None), or closed with an error."""
        self.broken = 0
        """Number of queues of all vhosts that were closed because an invariant was broken."""
        self.leadership: Leadership | None = None
        """The rights to lead queues; None on a single broker, which leads all of its queues."""
        self.guard: Callable[[], bool] | None = None
        """Tells whether deliveries that are sent now may leave; None: they may.

        The process may stand still before they do, and another broker lead the queues.
        """
        self._clock = clock
        self._now = clock.monotonic
        self._batches = 0
        self._turn_set = False
        self._closed = False

    def close(self) -> None:
        """Run no turn any more: the broker stops.

        A message that dies later stays in its queue: no other queue stores its dead letter.
        """
        self._closed = True

    def due(self, queue: AnyQueue, host: "QueueHost") -> None:
        """Have a queue deliver in the next turn."""
        self.pending[queue] = host

    def due_in_turn(self, queues: Iterable[AnyQueue], host: "QueueHost") -> None:
        """Schedule queues whose consumers share one client's room, least recently delivered first.

        Otherwise the first queue would always fill the room, and the others would deliver nothing.
        """
        for queue in sorted(queues, key=attrgetter("last_batch")):
            self.pending.pop(queue, None)
            self.pending[queue] = host

    def soon(self) -> None:
        """Schedule a turn on the event loop if queues are due and none is scheduled."""
        if (self.pending or self.gone) and not self._turn_set:
            self._turn_set = True
            self._clock.call_later(0, self._turn)

    def _turn(self) -> None:
        self._turn_set = False
        self.run()

    def run(self) -> None:
        """Run a turn now; schedule another one if queues are left."""
        if self.take():
            self.soon()

    def take(self) -> bool:
        """Run a turn; return whether queues are left for another one."""
        if self._closed:
            return False
        if self.leadership is None:
            return self._take()
        self.leadership.check()
        return self.guarded(self.leadership.guard(), self._take)

    def pause(self, queue: HostedQueue) -> None:
        """Have a queue stand still; what it has delivered leaves only by the rights of before."""
        guard = self.guard
        if guard is None and self.leadership is not None:
            guard = self.leadership.guard()
        self.guarded(guard, queue.pause)

    def guarded(self, guard: Callable[[], bool] | None, send: Callable[[], T]) -> T:
        """Return what `send` returns; what it sends leaves only while `guard` returns True."""
        before, self.guard = self.guard, guard
        try:
            return send()
        finally:
            self.guard = before

    def _take(self) -> bool:
        self._tell_of_deletions()
        due = self.pending
        messages, queues = TURN_MESSAGES_MAX, TURN_QUEUES_MAX
        while due and messages > 0 and queues > 0:
            queue = next(iter(due))
            host = due.pop(queue)
            if queue.deleted or queue.paused:
                continue
            queues -= 1
            try:
                messages -= self._deliver(queue, host)
            except InvariantError as error:
                host.broke(queue, error)
                continue
            if queue.more:
                due[queue] = host
        self._tell_of_deletions()
        return bool(due)

    def _deliver(self, queue: AnyQueue, host: "QueueHost") -> int:
        """Have a queue deliver one batch, drop messages, publish its dead letters.

        Return the number of all, where a dead letter counts as `DEAD_LETTER_COST` messages.
        """
        traffic = queue.traffic
        discarded = traffic.discarded
        served = queue.deliver(self._now())
        count = sum(served.values()) + traffic.discarded - discarded
        if served:
            self._batches += 1
            queue.last_batch = self._batches
            for channel in served:
                channel.send()
        if queue.settings.dead_letters:
            count += DEAD_LETTER_COST * host.publish_dead_letters(queue)
        if queue.timed and not queue.deleted:
            queue.arm()
        return count

    def _tell_of_deletions(self) -> None:
        gone, self.gone = self.gone, []
        for consumer, refused in gone:
            consumer.channel.cancelled(consumer, refused)
