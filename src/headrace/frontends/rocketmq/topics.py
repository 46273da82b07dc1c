"""Topics that clients create: by a send to a name that does not exist, or by request 17."""

from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.later.held_topics import TOPIC_CONFIG, made_topic
from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.operations.context import OperationContext
from headrace.operations.permissions import Caller, Surface
from headrace.operations.topics import Growth, TopicSpec, create_partitions, create_topics
from headrace.security.identity import Identity
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.requests import Fields
from headrace.wire.rocketmq.topic_names import (
    RETRY_PREFIX,
    TOPIC_CHARACTERS_MAX,
    check_name,
    kafka_name,
)

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall

AUTO_CREATE_TOPIC = "TBW102"
"""The name whose route a producer asks for when its topic does not exist."""
CONFIGS = tuple(TOPIC_CONFIG.items())
"""Settings of topics that RocketMQ's clients create."""
GROUP_TOPIC = "%"
"""Named as the default topic of a send that the broker itself redirects: it creates the topic."""
CREATE_SECONDS = 10.0


async def created_for_send(
    broker: ServedBroker, identity: Identity, name: str, default_topic: str, queues: int
) -> ServedTopic:
    """Return a topic that a send names, created if it does not exist. Raises RequestRefused."""
    found = broker.topic_if_any(name)
    if found is not None:
        return found
    if name.startswith(RETRY_PREFIX) or default_topic == GROUP_TOPIC:
        return await group_topic(broker, name)
    wanted = default_topic == AUTO_CREATE_TOPIC and not name.startswith("%")
    if not wanted or not broker.broker.config.auto_create_topics_enable:
        return broker.topic(name)
    queues = min(max(queues, 1), broker.settings.queues_default)
    await _create(broker, identity, name, queues)
    return broker.topic(name)


async def group_topic(broker: ServedBroker, name: str) -> ServedTopic:
    """Return a group's topic of retries or of dead letters, created if it is missing.

    It has one queue. Raises ApiError, and RequestRefused for a name that no topic can have.
    """
    found = broker.topic_if_any(name)
    if found is None:
        await made_topic(broker.broker, broker.controller, kafka_name(name), TOPIC_CONFIG)
        found = broker.topic(name)
    await broker.numbered(found)
    return found


async def _create(broker: ServedBroker, identity: Identity, name: str, queues: int) -> None:
    spec = TopicSpec(kafka_name(name), queues, configs=CONFIGS)
    results = await create_topics(_context(broker, identity), [spec], seconds=CREATE_SECONDS)
    result = results[spec.name]
    if isinstance(result, ApiError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise result


def _context(broker: ServedBroker, identity: Identity) -> OperationContext:
    caller = Caller(identity, Surface.KAFKA, "UPDATE_AND_CREATE_TOPIC")
    return OperationContext(broker.broker, broker.controller, broker.coordinators, caller)


def update_topic(call: "RemotingCall") -> None:
    """Answer UPDATE_AND_CREATE_TOPIC (17): create a topic, or add queues to it."""
    fields = Fields(call.command)
    name = fields.text("topic")
    queues = max(fields.number("readQueueNums"), fields.number("writeQueueNums"))
    try:
        check_name(name, TOPIC_CHARACTERS_MAX, "topic")
    except Malformed as error:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, str(error)) from None
    if name.startswith("%") or name == AUTO_CREATE_TOPIC:
        text = f"The topic[{name}] is conflict with system topic."
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, text)
    if queues < 1:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, "a topic has at least one queue")
    call.work(_updated(call, name, queues))


async def _updated(call: "RemotingCall", name: str, queues: int) -> RemotingAnswer:
    broker = call.broker
    found = broker.topic_if_any(name)
    if found is None:
        await _create(broker, call.identity, name, queues)
    elif queues > found.queues:
        grown = await create_partitions(
            _context(broker, call.identity),
            [Growth(found.info.name, queues)],
            seconds=CREATE_SECONDS,
        )
        error = grown[found.info.name]
        if error is not None:
            raise error
    return RemotingAnswer()
