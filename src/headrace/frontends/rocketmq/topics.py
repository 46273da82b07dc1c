"""Topics that clients create: by a send to a name that does not exist, or by request 17."""

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import NO_CODE_SET, RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.held.held_topics import made_topic
from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic
from headrace.model.errors import ApiError, ErrorCode, HeadraceError, Malformed
from headrace.operations.context import OperationContext
from headrace.operations.permissions import AdminOperation
from headrace.operations.topics import Growth, TopicSpec, create_partitions, create_topics
from headrace.security.authorizer import Operation
from headrace.security.identity import Identity
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.requests import Fields
from headrace.wire.rocketmq.topic_configs import (
    TopicConfig,
    asked_topic_config,
    changed_topic_config,
)
from headrace.wire.rocketmq.topic_names import (
    AUTO_CREATE_TOPIC,
    RETRY_PREFIX,
    TOPIC_CHARACTERS_MAX,
    TRACE_TOPIC,
    check_name,
    is_creatable,
    is_own,
    kafka_name,
)

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall

_logger = logging.getLogger(__name__)
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
        return await own_topic(broker, name)
    wanted = default_topic == AUTO_CREATE_TOPIC and (name == TRACE_TOPIC or not is_own(name))
    if not wanted or not broker.broker.config.auto_create_topics_enable:
        return broker.topic(name)
    # The producer knows as many queues from the default topic's route, and has chosen one of them.
    queues = min(max(queues, 1), broker.settings.queues_default)
    if name == TRACE_TOPIC:
        return await own_topic(broker, name, queues)
    if await _create(broker, identity, name, queues):
        made = broker.topic(name)
        with suppress(ApiError):  # without its settings the topic is only never cleaned
            await broker.configs.topics.add(made.info.topic_id.hex(), TopicConfig(made=True))
    return broker.topic(name)


async def own_topic(broker: ServedBroker, name: str, queues: int = 1) -> ServedTopic:
    """Return a topic of RocketMQ's own, such as a group's retries, created if it is missing.

    Raises ApiError, and RequestRefused for a name that no topic can have.
    """
    async with broker.making:  # a second one that is refused would not wait for the first
        found = broker.topic_if_any(name)
        if found is None:
            config = broker.settings.topic_config
            await made_topic(broker.broker, broker.controller, kafka_name(name), config, queues)
            found = broker.topic(name)
    await broker.numbered(found)
    return found


async def make_trace_topic(broker: ServedBroker) -> None:
    """Create the topic of traces if it is missing, at a start; a failure is logged."""
    try:
        await own_topic(broker, TRACE_TOPIC)
    except HeadraceError as error:
        _logger.warning(
            "topic %s cannot be created: %s. Traces of messages are lost until a start creates it",
            TRACE_TOPIC, error,
        )  # fmt: skip


async def _create(broker: ServedBroker, identity: Identity, name: str, queues: int) -> bool:
    """Create a topic; return False if it exists by now. Raises ApiError."""
    configs = tuple(broker.settings.topic_config.items())
    spec = TopicSpec(kafka_name(name), queues, configs=configs)
    context = broker.operation(identity, RequestCode.UPDATE_AND_CREATE_TOPIC.name)
    results = await create_topics(context, [spec], seconds=CREATE_SECONDS)
    result = results[spec.name]
    if isinstance(result, ApiError):
        if result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise result
        return False
    return True


def update_topic(call: "RemotingCall") -> None:
    """Answer UPDATE_AND_CREATE_TOPIC (17): create a topic, add queues to it, set its settings.

    Queues are partitions, which are added and never deleted. Lower numbers of read and of write
    queues hide the other queues from consumers and from producers.
    """
    fields = Fields(call.command)
    name = fields.text("topic")
    asked = asked_topic_config(fields)
    try:
        check_name(name, TOPIC_CHARACTERS_MAX, "topic")
    except Malformed as error:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, str(error)) from None
    if not is_creatable(name):
        text = f"The topic[{name}] is conflict with system topic."
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, text)
    call.work(_updated(call, name, asked))


async def _updated(call: "RemotingCall", name: str, asked: TopicConfig) -> RemotingAnswer:
    broker = call.broker
    queues = max(asked.read_queues, asked.write_queues)
    found = broker.topic_if_any(name)
    context = broker.operation(call.identity, RequestCode.UPDATE_AND_CREATE_TOPIC.name)
    is_new = found is None and await _create(broker, call.identity, name, queues)
    found = broker.topic(name)
    if queues > found.queues:
        grown = await create_partitions(
            context, [Growth(found.info.name, queues)], seconds=CREATE_SECONDS
        )
        error = grown[found.info.name]
        if error is not None:
            raise error
    elif not is_new:
        broker.require_topic(call.identity, Operation.DESCRIBE, found)
    await _configure(broker, context, broker.topic(name), asked, is_new=is_new)
    return RemotingAnswer(remark=NO_CODE_SET)


async def _configure(
    broker: ServedBroker,
    context: OperationContext,
    topic: ServedTopic,
    asked: TopicConfig,
    *,
    is_new: bool,
) -> None:
    """Store the settings of a topic if they change. Raises ApiError."""
    present = topic.config or TopicConfig()
    if is_new:
        present = present._replace(made=True)
    now_ms = broker.broker.clock.wall_ms()
    config = changed_topic_config(present, asked, topic.queues, now_ms)
    if config == present and not is_new:
        return
    name, failed = topic.info.name, None
    if not is_new:
        context.require(AdminOperation.ALTER_TOPIC_CONFIGS, name)
    try:
        await broker.configs.topics.put(topic.info.topic_id.hex(), config)
    except ApiError as error:
        failed = error
    detail = {
        "topic": name,
        "readQueueNums": config.read(topic.queues),
        "writeQueueNums": config.written(topic.queues),
        "perm": config.permission,
    }
    context.changed(failed, detail)
    if failed is not None:
        raise failed
