"""What clients of AMQP may hold of the broker, by the names of its configuration."""

from typing import NamedTuple

from headrace.frontends.amqp.channel.unacked import UNACKED_MAX
from headrace.queues.stores.memory.memory_use import MEMORY_BYTES_MAX
from headrace.wire.amqp.settings import AmqpKeys


class Bounds(NamedTuple):
    """Bounds of all clients and of each; the defaults are those of the configuration."""

    consumer_timeout_ms: int = 1_800_000
    """Of queues that do not say; 0: none."""
    channel_consumers_max: int = 0
    """0: any number; `consumers_bytes_max` bounds those of all channels."""
    channel_unacked_max: int = UNACKED_MAX
    memory_bytes_max: int = MEMORY_BYTES_MAX
    """The mark of all queues in memory from which publishers are stopped."""
    unfinished_bytes_max: int = 128 << 20
    """Of messages that are not whole or not committed."""
    consumers_bytes_max: int = MEMORY_BYTES_MAX // 2
    """Bytes of memory of the consumers of all clients."""


def bounds_of(config: AmqpKeys) -> Bounds:
    """Return what a broker's configuration says."""
    return Bounds(
        consumer_timeout_ms=config.amqp_consumer_timeout_ms,
        channel_consumers_max=config.amqp_channel_consumers_max,
        channel_unacked_max=config.amqp_channel_unacked_max,
        memory_bytes_max=config.amqp_memory_bytes_max,
        consumers_bytes_max=config.amqp_memory_bytes_max // 2,
        unfinished_bytes_max=max(config.amqp_unfinished_bytes_max, config.amqp_message_max_bytes),
    )
