"""Where a group would begin to read each queue of a topic, and why: an operator's question.

a stored offset                        the group goes on there
the rule for new groups answers 0      FIRST, LAST and TIMESTAMP all begin at offset 0
it does not                            the client's setting decides
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.rocketmq.answers import RequestRefused
from headrace.frontends.rocketmq.offsets import first_offset_from, first_time, queue_state
from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.arguments import Arguments
from headrace.posix.awaiting import called_back
from headrace.subscriptions.new_groups import ZeroOffsetRule, begins_at_zero

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic
    from headrace.log.log import Log

CLIENT_TIMESTAMP_MS = 30 * 60 * 1000
"""The age at which clients with CONSUME_FROM_TIMESTAMP begin if they set no time."""


class QueueBeginning(NamedTuple):
    """Where a group begins in one queue. Offsets; times in ms since 1970."""

    queue: int
    min: int
    max: int
    oldest_ms: int
    """When the first message was stored; -1: the queue is empty."""
    added_ms: int
    """When the queue was added to a topic in use; 0: with the topic."""
    rule: str
    answer: int
    """The broker's answer to the query of the group's offset; -1: not found."""
    first: int
    last: int
    timestamp: int
    """The first offset that a client with CONSUME_FROM_FIRST, LAST, TIMESTAMP gets."""
    why: str


@dataclass(frozen=True)
class WhereGroupsBegin(Arguments[list[QueueBeginning]]):
    """Explain where a group would begin in each queue of a topic."""

    OPERATION = "rocketmq.group.beginning"
    MUTATES = False
    topic: str
    group: str | None = None
    """None: a group that is not known."""
    at_ms: int | None = None
    """The time of CONSUME_FROM_TIMESTAMP, in ms since 1970; None: half an hour ago."""


async def where_groups_begin(
    broker: "ServedBroker", asked: WhereGroupsBegin
) -> list[QueueBeginning]:
    """Answer WhereGroupsBegin. Raises ApiError."""
    topic = named_topic(broker, asked.topic)
    await broker.numbered(topic)
    at_ms = asked.at_ms
    if at_ms is None:
        at_ms = broker.broker.clock.wall_ms() - CLIENT_TIMESTAMP_MS
    return [
        await _beginning(broker, topic, queue, asked.group, at_ms)
        for queue in range(topic.read_queues)
    ]


def named_topic(broker: "ServedBroker", name: str) -> "ServedTopic":
    """Return a topic by RocketMQ's name. ApiError: it does not exist."""
    try:
        topic = broker.topic_if_any(name)
    except RequestRefused as error:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from None
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
    return topic


async def _beginning(
    broker: "ServedBroker", topic: "ServedTopic", queue: int, group: str | None, at_ms: int
) -> QueueBeginning:
    partition = broker.partition(topic, queue)
    log = partition.log
    found = await called_back(partial(broker.broker.disk.run, partial(_times, log, max(at_ms, 0))))
    start, end = partition.log_start_offset, partition.readable_end(True)
    oldest_ms, by_time = found
    by_time = end if by_time is None else min(by_time, end)
    stored = None if group is None else broker.offsets.read(group, topic.info.name, queue)
    answer, why = _answer(broker, topic, queue, group, stored)
    if answer >= 0:
        first = last = timestamp = min(max(answer, start), end)
    else:
        first, last, timestamp = start, end, by_time
    return QueueBeginning(
        queue,
        start,
        end,
        oldest_ms,
        broker.added_ms(topic, queue),
        broker.settings.zero_offset.value,
        answer,
        first,
        last,
        timestamp,
        why,
    )


def _times(log: "Log", at_ms: int) -> tuple[int, int | None]:
    """Return when the first record was stored, -1 without one, and the first offset at a time."""
    return first_time(log), first_offset_from(log, at_ms)


def _answer(
    broker: "ServedBroker",
    topic: "ServedTopic",
    queue: int,
    group: str | None,
    stored: int | None,
) -> tuple[int, str]:
    """Return the broker's answer to the query of a group's offset, -1 for none, and why."""
    if stored is not None:
        if broker.offsets.is_reset(group or "", topic.info.name, queue):
            return stored, "an operator reset the group's offset; its next pull is told"
        return stored, "the group has stored this offset"
    settings, rule = broker.settings, broker.settings.zero_offset
    state = queue_state(broker, topic, queue, group)
    begins = begins_at_zero(rule, state, settings.memory_bytes)
    if rule is ZeroOffsetRule.OFF:
        why = "the rule is off: the client's setting decides"
    elif rule is ZeroOffsetRule.NEW_QUEUE:
        why = (
            "the queue was added after the group began: nothing of it is skipped"
            if begins
            else "the queue is not newer than the group: the client's setting decides"
        )
    elif begins:
        empty = state.start_offset >= state.end_offset
        what = "is empty" if empty else "still has its first message"
        why = f"the queue {what}: it is read from offset 0, whatever the client's setting"
    elif state.start_offset > 0:
        why = "first messages were deleted: the client's setting decides"
    elif state.end_offset <= 0:
        why = "the queue is empty: the client's setting decides"
    else:
        why = "the queue is larger than 40 % of the memory: the client's setting decides"
    return (0 if begins else -1), why
