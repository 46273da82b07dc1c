"""Replies to requests between clients: SEND_REPLY_MESSAGE (324, 325).

    requester ── message with REPLY_TO_CLIENT ──> topic ──> replier
    requester <── PUSH_REPLY_MESSAGE_TO_CLIENT (326) ── broker <── SEND_REPLY_MESSAGE ── replier

The reply is pushed over the connection of the requester's heartbeats, and stored in the cluster's
reply topic, as by RocketMQ. The replier's request is answered when both are done.
"""

from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.sends import check_has_body, store_sent
from headrace.frontends.rocketmq.topics import created_for_send
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.properties import closed, encode_properties, find_property
from headrace.wire.rocketmq.requests import SendRequest, send_request
from headrace.wire.rocketmq.sent_messages import check_sent

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedBroker
    from headrace.wire.rocketmq.commands import RemotingCommand

PUSH_SECONDS = 3.0
"""Seconds for which a requester may take to acknowledge a reply."""
_TO_CLIENT = b"REPLY_TO_CLIENT"


def reply_topic(broker: "ServedBroker") -> str:
    """Return the topic of replies, which clients name by the cluster."""
    return f"{broker.settings.cluster}_REPLY_TOPIC"


def is_reply_topic(broker: "ServedBroker", name: str) -> bool:
    """Return whether a topic is that of replies, and will be created by the first one."""
    return (
        name == reply_topic(broker)
        and broker.topic_if_any(name) is None
        and broker.broker.config.auto_create_topics_enable
    )


def reply(call: "RemotingCall") -> None:
    """Answer SEND_REPLY_MESSAGE (324, 325) when the requester has the reply and it is stored."""
    request = send_request(call.command)
    if request.topic != reply_topic(call.broker):
        text = f"replies are sent to {reply_topic(call.broker)}, not to {request.topic}"
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, text)
    client_id = find_property(request.properties, _TO_CLIENT)
    if client_id is None:
        text = "reply message properties[REPLY_TO_CLIENT] is null"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)
    check_has_body(call)
    check_sent(call.command.body, request.properties)
    call.work(_replied(call, request, client_id.decode("utf-8", "replace")))


async def _replied(
    call: "RemotingCall", request: SendRequest, client_id: str
) -> RemotingAnswer | None:
    broker = call.broker
    async with broker.making:
        topic = await created_for_send(
            broker, call.identity, request.topic, request.default_topic, 1
        )
    broker.require_topic(call.identity, Operation.WRITE, topic)
    client = broker.clients.get(client_id)
    if client is None:
        text = f"push reply message fail, channel of <{client_id}> not found."
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)
    push = partial(
        client.ask,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
        _fields(call, request),
        bytes(call.command.body),
        PUSH_SECONDS,
    )
    answer: RemotingCommand = await called_back(push)
    if answer.code != ResponseCode.SUCCESS:
        text = f"push reply message to {client_id} fail."
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)
    store_sent(call, request, topic, await broker.numbered(topic))
    return None


def _fields(call: "RemotingCall", request: SendRequest) -> dict[str, str]:
    broker = call.broker
    now_ms = broker.broker.clock.wall_ms()
    added = {
        "PUSH_REPLY_TIME": str(now_ms),
        "MSG_REGION": broker.settings.region,
        "TRACE_ON": "true",
    }
    properties = closed(request.properties) + encode_properties(added)
    return {
        "producerGroup": request.producer_group,
        "topic": request.topic,
        "defaultTopic": request.default_topic,
        "defaultTopicQueueNums": str(request.default_queues),
        "queueId": str(request.queue_id),
        "sysFlag": str(request.system_flag),
        "bornTimestamp": str(request.born_at_ms),
        "flag": str(request.flag),
        "properties": properties.decode("utf-8", "replace"),
        "reconsumeTimes": str(request.reconsume_times),
        "unitMode": "false",
        "bornHost": call.client.address,
        "storeHost": call.peer.endpoint,
        "storeTimestamp": str(now_ms),
    }
