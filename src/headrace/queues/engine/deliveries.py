"""Deliver messages taken from a level to consumers, by positions unique in the queue."""

from collections.abc import Sequence

from headrace.queues.engine.priority_level import Taken
from headrace.queues.port import Consumer, Deliveries, Subscriber

Served = dict[Subscriber, int]
"""Channels, and the number of messages delivered to each since its last `send`."""


def deal(
    takers: Sequence[Consumer], taken: Taken, served: Served, now: float, width: int = 1
) -> int:
    """Deliver a message to each of `takers` in turn; return how many are unacknowledged."""
    step = len(takers)
    if step == 1:
        return give(takers[0], taken, served, now, width)
    level, positions, messages, sizes, redelivered = taken
    unacked = 0
    for at, consumer in enumerate(takers[: len(positions)]):
        part = slice(at, None, step)
        share = Taken(level, positions[part], messages[part], sizes[part], redelivered)
        unacked += give(consumer, share, served, now, width)
    return unacked


def give(consumer: Consumer, taken: Taken, served: Served, now: float, width: int = 1) -> int:
    """Deliver messages to one consumer; return how many are unacknowledged: all, or 0.

    Messages of a consumer without acknowledgements (`no_ack`) are settled at once. `width`: see
    `named`.
    """
    channel, level, count = consumer.channel, taken.level, len(taken.positions)
    channel.deliver(consumer, named(taken, width), now)
    served[channel] = served.get(channel, 0) + count
    if consumer.no_ack:
        level.settle(taken.positions)
        return 0
    return count


def named(taken: Taken, width: int) -> Deliveries:
    """Return messages with the positions that channels know them by.

    In a queue of `width` > 1 priorities the position is `own * width + priority`.
    """
    level, positions, messages, sizes, redelivered = taken
    returns = None
    if level.returns:
        returns = [level.returns.get(position, 0) for position in positions]
    if width > 1:
        positions = [position * width + level.priority for position in positions]
    return Deliveries(positions, messages, sizes, redelivered, returns)
