"""RECALL_MESSAGE (370): a producer takes back a message that is not delivered yet."""

from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import NO_CODE_SET, RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.held.held_topics import DELAYS_TOPIC, sent_message
from headrace.model.errors import Malformed
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.delays import RecallHandle, decode_recall_handle
from headrace.wire.rocketmq.later_requests import recall_request
from headrace.wire.rocketmq.properties import UNIQUE_KEY, find_property

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedTopic
    from headrace.held.topic_targets import HeldTopicMessage


def recall(call: "RemotingCall") -> None:
    """Answer RECALL_MESSAGE once the message is removed on disk."""
    broker = call.broker
    call.error_fields = {"MSG_REGION": broker.settings.region}
    if not broker.settings.recalls:
        text = "recall failed, operation is forbidden"
        raise RequestRefused(ResponseCode.NO_PERMISSION, text)
    request = recall_request(call.command)
    topic = broker.topic_if_any(request.topic)
    if topic is None:
        text = f"recall failed, the topic[{request.topic}] not exist"
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, text)
    broker.require_topic(call.identity, Operation.WRITE, topic)
    try:
        handle = decode_recall_handle(request.handle)
    except Malformed as error:
        raise RequestRefused(ResponseCode.ILLEGAL_OPERATION, str(error)) from None
    if handle.topic != topic.name:
        raise _illegal("topic not match")
    if handle.broker_name != broker.name:
        raise _illegal("broker service not available")
    left_ms = handle.due_ms - broker.broker.clock.wall_ms()
    if not 0 < left_ms <= broker.settings.delay_ms_max:
        raise _illegal("timestamp invalid")
    call.work(_recalled(call, topic, handle))


async def _recalled(
    call: "RemotingCall", topic: "ServedTopic", handle: RecallHandle
) -> RemotingAnswer:
    broker = call.broker
    if DELAYS_TOPIC not in broker.broker.image.topics:
        raise _illegal("no such message waits")

    def wanted(message: "HeldTopicMessage") -> bool:
        properties = sent_message(message, 0).facts.properties
        unique = find_property(properties, UNIQUE_KEY) or b""
        return message.target.topic == topic.info.name and unique == handle.unique_key.encode()

    delays = await broker.held.delays.get()
    if not await delays.recall(handle.due_ms, wanted):
        raise _illegal("no such message waits")
    fields = {"msgId": handle.unique_key, "MSG_REGION": broker.settings.region}
    return RemotingAnswer(fields=fields, remark=NO_CODE_SET)


def _illegal(reason: str) -> RequestRefused:
    return RequestRefused(ResponseCode.ILLEGAL_OPERATION, f"recall failed, {reason}")
