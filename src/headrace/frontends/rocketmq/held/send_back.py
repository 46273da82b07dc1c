"""CONSUMER_SEND_MSG_BACK (36): a message that a consumer could not process.

    level 0            to %RETRY%<group> after level 3 + the attempts so far
    level 1 and above  to %RETRY%<group> after that level
    level negative     to %DLQ%<group> at once
    limit reached      to %DLQ%<group> at once

The answer comes when the copy is on disk, in the log of delays or among the dead letters. A
consumer whose request fails sends the message to %RETRY%<group> itself (`retried`). A kill between
copy and answer makes two copies, never none.
"""

from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.held.held_topics import QueueName, held_message
from headrace.frontends.rocketmq.held.lookup import find_message
from headrace.frontends.rocketmq.topics import GROUP_TOPIC, own_topic
from headrace.model.errors import Malformed
from headrace.model.nouns import TopicPartition
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.delays import DELAY, LEVEL_MAX, LEVEL_SECONDS
from headrace.wire.rocketmq.group_configs import GroupConfig
from headrace.wire.rocketmq.later_properties import sent_back_properties
from headrace.wire.rocketmq.later_requests import SendBackRequest, send_back_request
from headrace.wire.rocketmq.message_ids import message_id
from headrace.wire.rocketmq.properties import with_property
from headrace.wire.rocketmq.pulled_messages import facts_of
from headrace.wire.rocketmq.sent_messages import SentMessage
from headrace.wire.rocketmq.topic_names import (
    DEAD_LETTER_PREFIX,
    GROUP_CHARACTERS_MAX,
    RETRY_PREFIX,
    check_name,
)

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic
    from headrace.wire.rocketmq.record_header import MessageFacts
    from headrace.wire.rocketmq.requests import SendRequest

FIRST_LEVEL = 3
"""The level of the first retry, if the consumer leaves it to the broker."""
_INT32_MAX = (1 << 31) - 1
_NO_GROUP = (
    "subscription group not exist, {} \n"
    "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
)


def send_back(call: "RemotingCall") -> None:
    """Answer CONSUMER_SEND_MSG_BACK, later."""
    request = send_back_request(call.command)
    try:
        check_name(request.group, GROUP_CHARACTERS_MAX, "group")
    except Malformed:
        text = _NO_GROUP.format(request.group)
        raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text) from None
    call.broker.require_group(call.identity, request.group)
    call.broker.note_group(request.group)
    call.work(_sent_back(call, request))


async def _sent_back(call: "RemotingCall", request: SendBackRequest) -> RemotingAnswer:
    broker = call.broker
    found = await find_message(broker, request.physical_offset)
    if found is None:
        text = f"look message by offset failed, {request.physical_offset}"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)
    broker.require_topic(call.identity, Operation.READ, found.topic)
    facts = facts_of(found.record)
    limit = _limit(broker, request.group, request.reconsume_times_max)
    level = _level(request, facts, limit)
    origin_id = message_id(call.peer.store_host, request.physical_offset)
    properties = sent_back_properties(facts.properties, found.topic.name, origin_id, level)
    times = min(facts.reconsume_times, _INT32_MAX - 1) + 1
    sent = SentMessage(
        found.record.value or b"",
        facts._replace(properties=properties, reconsume_times=times, prepared_offset=0),
    )
    prefix = RETRY_PREFIX if level else DEAD_LETTER_PREFIX
    topic = await own_topic(broker, prefix + request.group)
    await _stored(broker, topic, sent, level)
    return RemotingAnswer()


async def _stored(
    broker: "ServedBroker", topic: "ServedTopic", sent: SentMessage, level: int
) -> None:
    """Store a message for a group's topic after a level; 0: at once. Raises ApiError."""
    place = TopicPartition(topic.info.name, 0)
    if level:
        due_ms = broker.broker.clock.wall_ms() + LEVEL_SECONDS[level - 1] * 1000
        message = held_message(place, QueueName(topic.name, 0), sent)
        await called_back(partial(broker.held.delay, message, due_ms))
    else:
        await called_back(partial(broker.store, place, sent))


def _limit(broker: "ServedBroker", group: str, named: int | None) -> int:
    """Return the attempts before a message is dead: the client's number, or the group's."""
    config = broker.configs.groups.get(group) or GroupConfig(group)
    return config.retries_max if named is None else named


def _level(request: SendBackRequest, facts: "MessageFacts", limit: int) -> int:
    """Return the level of the next attempt; 0: the message is dead."""
    if request.delay_level < 0 or facts.reconsume_times >= limit:
        return 0
    level = request.delay_level or FIRST_LEVEL + max(facts.reconsume_times, 0)
    return min(level, LEVEL_MAX)


def retried(call: "RemotingCall", request: "SendRequest") -> "SendRequest":
    """Return a consumer's own send to its retry topic, redirected to the dead letters at the limit.

    Consumers send themselves if request 36 fails. Those that consume in order keep a message until
    its limit is reached, and send it only then: while locks of the group are held, such a message
    is dead.
    """
    broker = call.broker
    group = request.topic.removeprefix(RETRY_PREFIX)
    broker.require_group(call.identity, group)
    limit = _limit(broker, group, request.reconsume_times_max)
    ordered = broker.locks.is_ordered(group, broker.broker.clock.monotonic())
    if request.reconsume_times > limit or ordered:
        return request._replace(
            topic=DEAD_LETTER_PREFIX + group,
            default_topic=GROUP_TOPIC,
            queue_id=0,
            properties=with_property(request.properties, DELAY, b"-1"),
        )
    return request._replace(queue_id=0)
