"""Settings of queues and consumers from checked arguments, and messages as published."""

import sys
from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple, Protocol

from headrace.wire.amqp.content import Message

DELIVERY_LIMIT_DEFAULT = 20
"""Delivery limit of a quorum queue without `x-delivery-limit`, as in RabbitMQ 4.0."""
DELIVERIES_COUNTED_MAX = 0xFFFF_FFFF
"""Delivery limit of a quorum queue declared unlimited: the largest count of four bytes."""
TtlAt = Callable[[int], int | None]
"""Returns the message TTL in ms at the wall time of a publish in ms; None: unlimited."""


class QueueType(Enum):
    """The types of queues, by their names in `x-queue-type`."""

    CLASSIC = "classic"
    QUORUM = "quorum"
    STREAM = "stream"

    @property
    def title(self) -> str:
        """RabbitMQ's name of the queue type in its texts: `rabbit_quorum_queue`."""
        return f"rabbit_{self.value}_queue"


class Overflow(Enum):
    """The ways in which a full queue handles a message (`x-overflow`)."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


class ExchangeTopic(NamedTuple):
    """The Kafka topic that an exchange stores in, or that a stream reads."""

    topic: str
    key_header: str | None = None
    """The header whose value is a record's key; None: the routing key."""


class QueueSettings(NamedTuple):
    """The settings of a queue; None: no bound, or the broker's setting."""

    queue_type: QueueType = QueueType.CLASSIC
    ttl_ms: int | None = None
    """Message TTL in milliseconds; a message's own expiration counts if it is less."""
    ttl_since_ms: int = 0
    """Wall time of the policy that set `ttl_ms`: messages published before have
    `ttl_before_ms`."""
    ttl_before_ms: int | None = None
    """The message TTL of the arguments, where a policy has set another one."""
    expires_ms: int | None = None
    """Milliseconds without consumers, gets and declarations until the queue is deleted."""
    length_max: int | None = None
    length_bytes_max: int | None = None
    overflow: Overflow = Overflow.DROP_HEAD
    dead_letter_exchange: str | None = None
    """Name of the dead letter exchange, empty: the default exchange; None: messages are dropped."""
    dead_letter_routing_key: str | None = None
    """Routing key of dead letters; None: a message's own."""
    dead_letter_at_least_once: bool = False
    priority_max: int | None = None
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    consumer_timeout_ms: int | None = None
    """Milliseconds that a delivery may be unacknowledged; 0: unlimited."""
    retention_ms: int | None = None
    """Milliseconds for which a stream retains messages, or a queue settled ones."""
    retention_bytes: int | None = None
    """Bytes of segments; above, the oldest is deleted (of a queue only settled messages)."""
    segment_bytes_max: int | None = None
    """Size of a stream's segments in bytes."""
    topic: ExchangeTopic | None = None
    """The Kafka topic that a stream reads; None: a topic of its own, as all queues have."""

    @property
    def dead_letters(self) -> bool:
        """Whether expired, rejected and dropped messages are dead-lettered."""
        return self.dead_letter_exchange is not None

    @property
    def active_hands_over(self) -> bool:
        """Whether a single active consumer makes way for one of a higher priority."""
        return self.queue_type is QueueType.QUORUM

    @property
    def is_limited(self) -> bool:
        """Whether the queue has a limit of messages or bytes."""
        return self.length_max is not None or self.length_bytes_max is not None

    def exceeds(self, count: int, size: int) -> bool:
        """Tell whether `count` messages with `size` bytes of bodies exceed the queue's limits."""
        count_max, size_max = self.length_max, self.length_bytes_max
        return (count_max is not None and count > count_max) or (
            size_max is not None and size > size_max
        )

    def excess(self, count: int, size: int, count_max: int) -> tuple[int, int]:
        """Return how many messages to drop next of a queue that exceeds its limits, in what bytes.

        At most `count_max`; the first one is to be dropped whatever its size.
        """
        if self.length_max is not None and count > self.length_max:
            return min(count - self.length_max, count_max), sys.maxsize
        return count_max, size - (self.length_bytes_max or 0)

    def never_refuses(self, published: "Published") -> bool:
        """Tell whether a message is accepted however full the queue is."""
        if self.overflow is Overflow.DROP_HEAD:
            return True
        return published.over_length and self.queue_type is QueueType.QUORUM

    @property
    def keeps_settled(self) -> bool:
        """Whether a queue retains settled messages, for readers of its topic."""
        retained = self.retention_ms is not None or self.retention_bytes is not None
        return retained and self.queue_type is not QueueType.STREAM


class StoredQueue(Protocol):
    """A declared queue, as its stores know it. Implemented by `declarations.DeclaredQueue`."""

    @property
    def name(self) -> str:
        """The queue's name in its vhost."""

    @property
    def settings(self) -> QueueSettings:
        """The queue's present settings."""

    def ttl_ms_at(self, published_ms: int) -> int | None:
        """Return the message TTL of messages published at a wall time; None: unlimited."""


class Published(NamedTuple):
    """A message with the properties that queues need, decoded once for all queues."""

    message: Message
    priority: int = 0
    expiration_ms: int | None = None
    persistent: bool = False
    over_length: bool = False
    """Whether a quorum queue accepts it beyond its length, as RabbitMQ's do.

    Set for dead letters of the strategy at-most-once.
    """


class PublishedRun(NamedTuple):
    """Messages of one publisher with equal properties."""

    messages: list[Message]
    priority: int = 0
    expiration_ms: int | None = None
    persistent: bool = False
    over_length: bool = False
    """As in `Published`."""

    def each(self) -> Iterator[Published]:
        """Yield each message with its properties."""
        for message in self.messages:
            yield Published(message, *self[1:])


class StreamStart(Enum):
    """The forms of a stream consumer's start offset (`x-stream-offset`)."""

    FIRST = "first"
    LAST = "last"
    NEXT = "next"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    AGE = "age"


class StreamOffset(NamedTuple):
    """The offset, time or age at which a stream's consumer starts."""

    start: StreamStart
    value: int = 0
    """The offset, milliseconds since 1970, or an age in milliseconds, by `start`."""


class ConsumerSettings(NamedTuple):
    """The settings from a consumer's arguments: priority, stream offset, filter."""

    priority: int = 0
    stream_offset: StreamOffset = StreamOffset(StreamStart.NEXT)
    stream_filter: frozenset[str] | None = None
    """Wanted values of `x-stream-filter-value`; None: all messages.

    The empty value stands for messages without the property.
    """
