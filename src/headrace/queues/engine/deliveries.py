"""Messages become deliveries: each gets a channel's next tag, and is held under it."""

from collections.abc import Sequence

from headrace.queues.engine.consumers import Consumer
from headrace.queues.engine.priority_level import Taken
from headrace.wire.amqp.content import Message

Delivery = tuple[Consumer, int, Message, bool, int]
"""Consumer, delivery tag, message, redelivered, how often it was given back (where a delivery limit
counts that). A plain tuple: one is made for each message."""


def deal(takers: Sequence[Consumer], taken: Taken, given: list[Delivery], now: float) -> int:
    """Give each of `takers` a message in turn; returns how many are held now."""
    step = len(takers)
    if step == 1:
        return give(takers[0], taken, given, now)
    level, positions, messages, sizes, redelivered = taken
    held = 0
    for at, consumer in enumerate(takers[: len(positions)]):
        part = slice(at, None, step)
        share = Taken(level, positions[part], messages[part], sizes[part], redelivered)
        held += give(consumer, share, given, now)
    return held


def give(consumer: Consumer, taken: Taken, given: list[Delivery], now: float) -> int:
    """Give messages to one consumer; returns how many it holds of them: all, or none.

    They are held until the channel's client says what became of them. They are settled at once
    where it never says so.
    """
    channel = consumer.channel
    level, positions, messages, sizes, redelivered = taken
    tag = channel.next_tag
    if level.returns:
        counts = [level.returns.get(position, 0) for position in positions]
    else:
        counts = [0] * len(positions)
    if consumer.no_ack:
        for message, count in zip(messages, counts, strict=True):
            given.append((consumer, tag, message, redelivered, count))
            tag += 1
        channel.next_tag = tag
        level.settle(positions)
        return 0
    held = channel.held
    for position, message, size, count in zip(positions, messages, sizes, counts, strict=True):
        given.append((consumer, tag, message, redelivered, count))
        held[tag] = (consumer, level, position, size, now)
        tag += 1
    channel.next_tag = tag
    consumer.unacked += len(positions)
    if consumer.counted:
        channel.unacked += len(positions)
    return len(positions)
