"""A consumer of a queue on another broker, at its home: its credit as a number of deliveries.

The home grants the leader deliveries, counted from the subscription. Granted deliveries that have
not come are counted as unacknowledged, so that all consumers of a channel, remote or not, keep
within its limits together. The number only rises, unless the home recalls what was not used: until
the leader has answered that, the home grants nothing.
"""

from typing import Protocol, runtime_checkable

from headrace.queues.port import Consumer

WINDOW = 1000
"""Deliveries granted and not received at most, for consumers without a prefetch limit."""


@runtime_checkable
class GrantsCredit(Protocol):
    """A queue that reserves room of a channel for deliveries to come: `RemoteQueue`."""

    def expects(self, consumer: Consumer) -> bool:
        """Tell whether a consumer has been granted deliveries that have not come."""


class RemoteConsumer:
    """The credit of one consumer."""

    __slots__ = ("consumer", "granted", "has_begun", "key", "looked_at", "recalling", "received")

    def __init__(self, consumer: Consumer, key: int) -> None:
        self.consumer = consumer
        self.key = key
        """The consumer's number in its session, and in the positions of its deliveries."""
        self.has_begun = False
        """Whether the leader has named the offset at which it begins, of a stream."""
        self.granted = 0
        """Number of deliveries that the leader may have made in all."""
        self.received = 0
        self.recalling = False
        """Whether the leader was asked to return the unused credit, or has just done so."""
        self.looked_at = -1
        """Deliveries received when it was last looked whether the consumer is idle; -1: never."""

    @property
    def outstanding(self) -> int:
        """Number of deliveries that are granted and have not come."""
        return self.granted - self.received

    def grant(self) -> bool:
        """Grant what the channel has room for; return whether `granted` was raised.

        A consumer whose channel has no room left is parked: `Queue.credit` is called later.
        """
        consumer, outstanding = self.consumer, self.outstanding
        room = min(max(consumer.credit(), 0), WINDOW - outstanding)
        if consumer.channel.prefetch and not consumer.no_ack:
            # Consumers that share a limit take a part each: the others may be on other brokers.
            room = min(room, max(consumer.channel.limit // 2, 1))
        raised = room > 0 and (outstanding <= WINDOW // 2 or room >= WINDOW) and not self.recalling
        if raised:
            self.granted += room
            self._reserve(room)
        if consumer.credit() <= 0 and not consumer.parked:
            consumer.channel.park(consumer)
        return raised

    def begin(self) -> None:
        """Count from 0, for a new leader; deliveries granted by the former one do not come."""
        self._reserve(-self.outstanding)
        self.granted = self.received = 0
        self.has_begun = False
        self.recalling = False
        self.looked_at = -1

    def receive(self, count: int) -> None:
        """Count deliveries that have come; the channel counts them as unacknowledged itself."""
        count_granted = min(count, self.outstanding)
        self.received += count
        self._reserve(-count_granted)

    def release(self, credit: int) -> None:
        """Give the room of deliveries beyond the number `credit` to the channel: none will come."""
        count, self.granted = self.granted - credit, credit
        if not self.consumer.no_ack:
            self.consumer.channel.free(self.consumer, count)

    # Recalls

    @property
    def shares(self) -> bool:
        """Whether granted deliveries take room that others of its channel have no use of now."""
        consumer = self.consumer
        channel = consumer.channel
        shared = channel.prefetch and not consumer.no_ack
        return bool(shared) and self.outstanding > 0 and channel.unacked >= channel.limit

    @property
    def starves_others(self) -> bool:
        """Whether another consumer of its channel waits for room and expects no delivery."""
        return any(
            other is not self.consumer
            and not (isinstance(other.queue, GrantsCredit) and other.queue.expects(other))
            for other in self.consumer.channel.parked
        )

    def _reserve(self, count: int) -> None:
        consumer = self.consumer
        if not consumer.no_ack:
            consumer.unacked += count
            if consumer.counted:
                consumer.channel.unacked += count
