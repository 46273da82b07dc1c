"""Where a group without an offset begins: the broker's part of the decision.

A client asks for its group's offset of a queue. Without one it begins where its own setting
says: at the first offset, at the last, or at a time. RocketMQ's broker answers 0 instead in some
cases, so that a group misses nothing of a young queue, whatever its setting:

    rule        the broker answers 0 if
    5           the queue still has offset 0 (RocketMQ 5.5.0 on today's Java)
    4.9         no record was deleted yet, and the first one is within 40 % of the memory
                from the end, or the queue is empty (RocketMQ 4.9.7)
    new-queue   the queue was added to the topic after the group began to consume the topic
    off         never

`5` and `4.9` also replay a young topic to a new group that asked for the last offset. `new-queue`
does not, and loses nothing when a topic grows.
"""

from enum import StrEnum
from typing import NamedTuple

MEMORY_SHARE = 0.4
"""The part of the memory that 4.9 takes its page cache to be (`accessMessageInMemoryMaxRatio`)."""


class ZeroOffsetRule(StrEnum):
    """The values of `rocketmq.zero.offset.rule`."""

    FIVE = "5"
    FOUR_NINE = "4.9"
    NEW_QUEUE = "new-queue"
    OFF = "off"


class QueueState(NamedTuple):
    """The state of a queue, as the rules ask for it."""

    start_offset: int
    end_offset: int
    log_bytes: int
    """Bytes from the first record to the end."""
    added_after_group: bool
    """Whether the queue was added after the group's first heartbeat or commit on the topic."""


def begins_at_zero(rule: ZeroOffsetRule, queue: QueueState, memory_bytes: int) -> bool:
    """Return whether the broker answers 0 for a group that has no offset of a queue."""
    match rule:
        case ZeroOffsetRule.OFF:
            return False
        case ZeroOffsetRule.NEW_QUEUE:
            return queue.added_after_group
        case ZeroOffsetRule.FIVE:
            return queue.start_offset <= 0 < queue.end_offset
        case ZeroOffsetRule.FOUR_NINE:
            near = queue.log_bytes <= memory_bytes * MEMORY_SHARE
            return queue.start_offset <= 0 and (queue.end_offset <= 0 or near)
