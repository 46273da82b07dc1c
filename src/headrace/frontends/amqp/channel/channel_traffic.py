"""Counters of one channel's messages, under the names of RabbitMQ's message_stats."""

from operator import add
from typing import NamedTuple

from headrace.queues.queue_traffic import DeliveryCounts


class ChannelCounts(NamedTuple):
    """The counters of a channel, or the sums of those of several."""

    publish: int = 0
    confirm: int = 0
    return_unroutable: int = 0
    """Mandatory messages without a route, which were returned."""
    drop_unroutable: int = 0
    """Other messages without a route."""
    deliveries: DeliveryCounts = DeliveryCounts()

    def plus(self, other: "ChannelCounts") -> "ChannelCounts":
        """Return the sums with the counters of another channel."""
        return ChannelCounts(
            self.publish + other.publish,
            self.confirm + other.confirm,
            self.return_unroutable + other.return_unroutable,
            self.drop_unroutable + other.drop_unroutable,
            DeliveryCounts(*map(add, self.deliveries, other.deliveries)),
        )


class ChannelTraffic:
    """Counters of a channel's publishes, deliveries and acknowledgements since it was opened."""

    __slots__ = (
        "ack", "deliver", "deliver_no_ack", "drop_unroutable", "get", "get_empty",
        "get_no_ack", "publish", "redeliver", "return_unroutable",
    )  # fmt: skip

    def __init__(self) -> None:
        self.publish = 0
        """Publishes that were accepted, in a transaction with its commit."""
        self.return_unroutable = self.drop_unroutable = 0
        self.deliver = self.deliver_no_ack = self.get = self.get_no_ack = self.get_empty = 0
        self.redeliver = self.ack = 0

    def counts(self, confirmed: int) -> ChannelCounts:
        """Return the counters as they are now; `confirmed`: `Confirms.confirmed`."""
        deliveries = DeliveryCounts(
            self.deliver,
            self.deliver_no_ack,
            self.get,
            self.get_no_ack,
            self.get_empty,
            self.redeliver,
            self.ack,
        )
        return ChannelCounts(
            self.publish, confirmed, self.return_unroutable, self.drop_unroutable, deliveries
        )
