"""`QueueLeadership`: has queues begin and pause as this broker's rights to lead them do (ADR 78).

`begin`: the broker is the only leader, and the homes that the former leader named have attached.
`pause`: the right has ended, or another broker leads.
"""

from collections.abc import Callable
from functools import partial

from headrace.broker.replica.held_rights import HeldRights
from headrace.broker.replica.leading_rights import LeadingRights
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.queue_names import queue_topic

WaitForHomes = Callable[[str, frozenset[BrokerId], Callable[[], None]], None]
"""Calls back once these brokers have attached to the queue of a topic, or need not be waited for.

At once, if none of them has to be."""


def wait_for_none(topic: str, homes: frozenset[BrokerId], attached: Callable[[], None]) -> None:
    """Wait for no home: the default of `QueueLeadership.wait_for_homes`."""
    attached()


class QueueLeadership:
    """The durable queues of a broker. Implements `queues.engine.delivery_turns.Leadership`."""

    def __init__(self, rights: LeadingRights, held: HeldRights) -> None:
        """Create without queues, and listen to the changes of `held`."""
        self.pause: Callable[[HostedQueue], None] = HostedQueue.pause
        """Has a queue stand still (`DeliveryTurns.pause`)."""
        self._rights = rights
        self._held = held
        self._queues: dict[str, HostedQueue] = {}
        """The hosted queues, by their topics."""
        self._led: dict[str, dict[int, bool]] = {}
        """Whether the right to each led partition is held, by topics of queues."""
        self.wait_for_homes: WaitForHomes = wait_for_none
        self._waits: dict[str, object] = {}
        """A mark of each wait for homes, by topics of queues."""
        held.listener = self

    def close(self) -> None:
        """Stop all timers: the broker stops."""
        self._held.close()

    # --- queues: `Leadership` --------------------------------------------------------------------

    def hosted(self, vhost: str, queue: HostedQueue) -> None:
        """Pause a new queue, unless this broker leads it alone. Queues in memory need no right."""
        if queue.late_stores:
            topic = queue_topic(vhost, queue.name)
            self._queues[topic] = queue
            queue.check = self._held.check
            queue.pause()
            self._begin(topic)

    def removed(self, vhost: str, queue: HostedQueue) -> None:
        """Forget a queue that is deleted, closed, or led by another broker."""
        topic = queue_topic(vhost, queue.name)
        if self._queues.get(topic) is queue:
            del self._queues[topic]
            self._waits.pop(topic, None)

    def check(self) -> None:
        """Pause the queues whose right has ended by now."""
        self._held.check()

    def guard(self) -> Callable[[], bool]:
        """Return a function that tells whether no other broker can act by rights of this moment."""
        return self._held.guard()

    # --- rights: `RightsListener` ----------------------------------------------------------------

    def right_changed(self, partition: TopicPartition, held: bool | None) -> None:
        """Begin or pause the queue of a partition."""
        topic = partition.topic
        led = self._led.setdefault(topic, {})
        led.pop(partition.partition, None)
        if held is not None:
            led[partition.partition] = held
        if not led:
            del self._led[topic]
        if self._leads(topic):
            self._begin(topic)
        else:
            self._pause(topic)

    def _leads(self, topic: str) -> bool:
        """Return whether this broker leads a queue alone, with all partitions that it leads."""
        led = self._led.get(topic, {})
        return bool(led) and all(led.values())

    def _begin(self, topic: str) -> None:
        """Begin a queue that is hosted and led alone, once the former leader's homes are here."""
        queue = self._queues.get(topic)
        if queue is None or not queue.paused or topic in self._waits or not self._leads(topic):
            return
        led = [TopicPartition(topic, index) for index in self._led[topic]]
        homes = frozenset[BrokerId]().union(*map(self._rights.take_homes, led))
        if not homes:
            queue.begin()
            return
        wait = self._waits[topic] = object()
        self.wait_for_homes(topic, homes, partial(self._attached, topic, wait))

    def _attached(self, topic: str, wait: object) -> None:
        """Begin a queue, unless its right has ended since the wait began."""
        if self._waits.get(topic) is wait:
            del self._waits[topic]
            self._queues[topic].begin()

    def _pause(self, topic: str) -> None:
        self._waits.pop(topic, None)
        queue = self._queues.get(topic)
        if queue is not None and not queue.paused:
            self.pause(queue)
