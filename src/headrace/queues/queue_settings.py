"""What a queue's and a consumer's arguments come to once checked, and a message as published."""

from enum import Enum
from typing import NamedTuple

from headrace.wire.amqp.content import Message

DELIVERY_LIMIT_DEFAULT = 20
"""Of a quorum queue that names none, as in RabbitMQ 4.0."""
DELIVERIES_COUNTED_MAX = 0xFFFF_FFFF
"""Of a quorum queue without a bound: it counts on, as far as its kept counts of four bytes go."""


class QueueType(Enum):
    """The kinds of queues by the names `x-queue-type` takes."""

    CLASSIC = "classic"
    QUORUM = "quorum"
    STREAM = "stream"

    @property
    def title(self) -> str:
        """The name that RabbitMQ's texts give it."""
        return f"rabbit_{self.value}_queue"


class Overflow(Enum):
    """What happens to a message that a full queue has no room for."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


class ExchangeTopic(NamedTuple):
    """Where an exchange stores its messages, or what a stream reads."""

    topic: str
    key_header: str | None = None
    """The header whose value is a record's key; None: the routing key is."""


class QueueSettings(NamedTuple):
    """What a queue is asked to do. None: no bound, or the broker's own."""

    queue_type: QueueType = QueueType.CLASSIC
    ttl_ms: int | None = None
    """Of every message; its own expiration counts where it is less."""
    expires_ms: int | None = None
    """Deleted after so long without consumers, gets and declarations."""
    length_max: int | None = None
    length_bytes_max: int | None = None
    overflow: Overflow = Overflow.DROP_HEAD
    dead_letter_exchange: str | None = None
    """The default exchange is the empty name; None: what is dead is dropped."""
    dead_letter_routing_key: str | None = None
    """None: a message keeps its own."""
    dead_letter_at_least_once: bool = False
    priority_max: int | None = None
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    consumer_timeout_ms: int | None = None
    """How long a delivery may wait for its acknowledgement; 0: for ever."""
    retention_ms: int | None = None
    """How long a stream keeps its messages, and a queue what is settled."""
    retention_bytes: int | None = None
    """Of its segments together: the oldest goes, of a queue only what is settled."""
    segment_bytes_max: int | None = None
    """Of a stream's segments."""
    topic: ExchangeTopic | None = None
    """The Kafka topic that a stream reads, which has its own settings; None: it has one for itself,
    as all queues."""

    @property
    def dead_letters(self) -> bool:
        """Whether what dies is given out, not dropped."""
        return self.dead_letter_exchange is not None

    @property
    def active_hands_over(self) -> bool:
        """Whether a single active consumer makes way for one of a higher priority."""
        return self.queue_type is QueueType.QUORUM

    @property
    def is_limited(self) -> bool:
        """Whether the queue's length is bounded."""
        return self.length_max is not None or self.length_bytes_max is not None

    def exceeds(self, count: int, size: int) -> bool:
        """Tell whether `count` messages, of bodies of `size` bytes, are more than allowed."""
        count_max, size_max = self.length_max, self.length_bytes_max
        return (count_max is not None and count > count_max) or (
            size_max is not None and size > size_max
        )

    def never_refuses(self, published: "Published") -> bool:
        """Tell whether a message is accepted however full the queue is."""
        if self.overflow is Overflow.DROP_HEAD:
            return True
        return published.over_length and self.queue_type is QueueType.QUORUM

    @property
    def keeps_settled(self) -> bool:
        """Whether a queue keeps what is settled, for who reads its topic."""
        retained = self.retention_ms is not None or self.retention_bytes is not None
        return retained and self.queue_type is not QueueType.STREAM


class Published(NamedTuple):
    """A message with what queues need of its properties: read once, however many queues."""

    message: Message
    priority: int = 0
    expiration_ms: int | None = None
    persistent: bool = False
    over_length: bool = False
    """A dead letter that is published once: quorum queues take it beyond their length, as
    RabbitMQ's do."""


class StreamStart(Enum):
    """How `x-stream-offset` says where to begin."""

    FIRST = "first"
    LAST = "last"
    NEXT = "next"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    AGE = "age"


class StreamOffset(NamedTuple):
    """Where a stream's consumer begins."""

    start: StreamStart
    value: int = 0
    """The offset, milliseconds since 1970, or an age in milliseconds."""


class ConsumerSettings(NamedTuple):
    """What a consumer asked for by arguments."""

    priority: int = 0
    stream_offset: StreamOffset = StreamOffset(StreamStart.NEXT)
    stream_filter: frozenset[str] | None = None
    """Values of `x-stream-filter-value` that are wanted, the empty one: messages without; None: all
    messages are."""
