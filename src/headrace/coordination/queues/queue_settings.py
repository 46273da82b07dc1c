"""What a queue was declared with, and a message as it is published to queues."""

from enum import Enum
from typing import NamedTuple

from headrace.wire.amqp.content import Message


class Overflow(Enum):
    """What happens where a queue would hold more than it may (`x-overflow`)."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


class QueueSettings(NamedTuple):
    """A queue's name and the arguments that its messages are kept by. None: no such limit."""

    name: str
    vhost: str = "/"
    ttl_ms: int | None = None
    """Of every message (`x-message-ttl`); a message's own expiration counts where it is less."""
    expires_ms: int | None = None
    """The queue itself goes when it was not used for so long (`x-expires`)."""
    length_max: int | None = None
    """Ready messages (`x-max-length`)."""
    length_bytes_max: int | None = None
    """Bytes of the bodies of ready messages (`x-max-length-bytes`)."""
    overflow: Overflow = Overflow.DROP_HEAD
    dead_letters: bool = False
    """There is an `x-dead-letter-exchange`: what dies is given out, not dropped."""
    priority_max: int | None = None
    """Messages have priorities from 0 to here (`x-max-priority`)."""
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    """A quorum queue's: a message that came back more often dies."""
    consumer_timeout_ms: int | None = None
    """For how long a delivery may be unacknowledged."""

    def title(self) -> str:
        """Return what RabbitMQ calls the queue in its messages."""
        return f"queue '{self.name}' in vhost '{self.vhost}'"


class Published(NamedTuple):
    """A message with what queues need of its properties: read once, however many queues."""

    message: Message
    priority: int = 0
    expiration_ms: int | None = None
    persistent: bool = False
