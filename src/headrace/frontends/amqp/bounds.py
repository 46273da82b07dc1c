"""Limits on what AMQP clients may hold of the broker, from its configuration."""

from typing import NamedTuple

from headrace.frontends.amqp.channel.unacked import UNACKED_MAX
from headrace.queue_stores.memory.memory_use import MEMORY_BYTES_MAX
from headrace.wire.amqp.settings import AmqpKeys


class Bounds(NamedTuple):
    """Limits of each client and of all together; the defaults are the configuration's."""

    consumer_timeout_ms: int = 1_800_000
    """Milliseconds until an unacknowledged delivery closes its channel; 0: no timeout.

    Queues may have their own timeout.
    """
    channel_consumers_max: int = 0
    """Consumers of a channel; 0: no limit but `consumers_bytes_max` for all channels."""
    channel_unacked_max: int = UNACKED_MAX
    memory_bytes_max: int = MEMORY_BYTES_MAX
    """Bytes of messages in memory, of all queues, from which publishers are blocked."""
    unfinished_bytes_max: int = 128 << 20
    """Bytes of incomplete and of uncommitted messages of all clients."""
    consumers_bytes_max: int = MEMORY_BYTES_MAX // 2
    """Bytes of memory for the consumers of all clients."""


def bounds_of(config: AmqpKeys) -> Bounds:
    """Return the limits of AMQP clients that a broker's configuration sets."""
    return Bounds(
        consumer_timeout_ms=config.amqp_consumer_timeout_ms,
        channel_consumers_max=config.amqp_channel_consumers_max,
        channel_unacked_max=config.amqp_channel_unacked_max,
        memory_bytes_max=config.amqp_memory_bytes_max,
        consumers_bytes_max=config.amqp_memory_bytes_max // 2,
        unfinished_bytes_max=max(config.amqp_unfinished_bytes_max, config.amqp_message_max_bytes),
    )
