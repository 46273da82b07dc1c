"""Counters of a queue's messages, under the names of RabbitMQ's message_stats where they are read.

They are plain integers, increased once for each batch where messages come in batches.
"""

from typing import NamedTuple


class DeliveryCounts(NamedTuple):
    """Numbers of deliveries and acknowledgements, by RabbitMQ's names."""

    deliver: int = 0
    """Deliveries to consumers that acknowledge."""
    deliver_no_ack: int = 0
    get: int = 0
    """Deliveries by basic.get that are to be acknowledged."""
    get_no_ack: int = 0
    get_empty: int = 0
    """Answers to basic.get that no message is ready."""
    redeliver: int = 0
    """Deliveries with the redelivered flag, which the others include."""
    ack: int = 0

    @property
    def deliver_get(self) -> int:
        """The number of all deliveries."""
        return self.deliver + self.deliver_no_ack + self.get + self.get_no_ack


class QueueTraffic:
    """Counters of a queue's messages since the broker started."""

    __slots__ = (
        "acknowledged", "delivered", "delivered_no_ack", "discarded", "got", "got_empty",
        "got_no_ack", "published", "redelivered",
    )  # fmt: skip

    def __init__(self) -> None:
        self.published = 0
        """Messages accepted from AMQP clients, from Kafka producers and as dead letters."""
        self.delivered = 0
        """Deliveries to consumers and by basic.get, repeated ones included."""
        self.delivered_no_ack = 0
        """Those of them to consumers that do not acknowledge."""
        self.got = 0
        """Those of them by basic.get that are to be acknowledged."""
        self.got_no_ack = 0
        """Those of them by basic.get that are not."""
        self.got_empty = 0
        """Answers to basic.get that no message is ready."""
        self.redelivered = 0
        """Deliveries with the redelivered flag."""
        self.acknowledged = 0
        self.discarded = 0
        """Messages expired, rejected, over a length or delivery limit; also dead-lettered ones."""

    def deliver(self, count: int, unacked: int, *, redelivered: bool) -> None:
        """Count a batch of deliveries to consumers, `unacked` of which are not settled yet."""
        self.delivered += count
        if unacked != count:
            self.delivered_no_ack += count - unacked
        if redelivered:
            self.redelivered += count

    def get(self, *, no_ack: bool, redelivered: bool) -> None:
        """Count a delivery by basic.get."""
        self.delivered += 1
        if no_ack:
            self.got_no_ack += 1
        else:
            self.got += 1
        if redelivered:
            self.redelivered += 1

    def deliveries(self) -> DeliveryCounts:
        """Return the counts of deliveries, by RabbitMQ's names."""
        return DeliveryCounts(
            self.delivered - self.delivered_no_ack - self.got - self.got_no_ack,
            self.delivered_no_ack,
            self.got,
            self.got_no_ack,
            self.got_empty,
            self.redelivered,
            self.acknowledged,
        )
