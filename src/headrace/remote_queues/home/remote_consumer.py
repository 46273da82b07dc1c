"""A consumer of a queue on another broker, at its home: its credit as a number of deliveries.

The home grants the leader deliveries, counted from the subscription, and only raises their number.
Granted deliveries that have not come are counted as unacknowledged, so that all consumers of a
channel, remote or not, keep within its limits together.
"""

from headrace.queues.port import Consumer

WINDOW = 1000
"""Deliveries granted and not received at most, for consumers without a prefetch limit."""


class RemoteConsumer:
    """The credit of one consumer."""

    __slots__ = ("consumer", "granted", "key", "received")

    def __init__(self, consumer: Consumer, key: int) -> None:
        self.consumer = consumer
        self.key = key
        """The consumer's number in its session, and in the positions of its deliveries."""
        self.granted = 0
        """Number of deliveries that the leader may have made in all."""
        self.received = 0

    def grant(self) -> bool:
        """Grant what the channel has room for; return whether `granted` was raised.

        A consumer whose channel has no room left is parked: `Queue.credit` is called later.
        """
        consumer, outstanding = self.consumer, self.granted - self.received
        room = min(max(consumer.credit(), 0), WINDOW - outstanding)
        if consumer.channel.prefetch and not consumer.no_ack:
            # Consumers that share a limit take a part each: the others may be on other brokers.
            room = min(room, max(consumer.channel.limit // 2, 1))
        raised = room > 0 and (outstanding <= WINDOW // 2 or room >= WINDOW)
        if raised:
            self.granted += room
            self._reserve(room)
        if consumer.credit() <= 0 and not consumer.parked:
            consumer.channel.park(consumer)
        return raised

    def begin(self) -> None:
        """Count from 0, for a new leader; deliveries granted by the former one do not come."""
        self._reserve(self.received - self.granted)
        self.granted = self.received = 0

    def receive(self, count: int) -> None:
        """Count deliveries that have come; the channel counts them as unacknowledged itself."""
        count_granted = min(count, self.granted - self.received)
        self.received += count
        self._reserve(-count_granted)

    def release(self) -> None:
        """Give the room of deliveries that will not come back to the channel."""
        outstanding, self.received = self.granted - self.received, self.granted
        if not self.consumer.no_ack:
            self.consumer.channel.free(self.consumer, outstanding)

    def _reserve(self, count: int) -> None:
        consumer = self.consumer
        if not consumer.no_ack:
            consumer.unacked += count
            if consumer.counted:
                consumer.channel.unacked += count
