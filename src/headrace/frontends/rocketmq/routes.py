"""GET_ROUTEINFO_BY_TOPIC (105): the brokers and queues of a topic.

Newer clients read broker ids as JSON text; older ones expect the numbers unquoted, which is no JSON
(`wire.rocketmq.fastjson`).
"""

from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.topics import AUTO_CREATE_TOPIC
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.fastjson import FastJson, Keyed, encode_body
from headrace.wire.rocketmq.requests import Fields

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedBroker

READ_WRITE = 6
INHERITED = 7
"""Permissions of a queue: 4 read, 2 write, 1 taken over by topics that are created by a send."""
QUOTED_FROM_VERSION = 401
"""The client version from which broker ids are quoted: 4.9.7 is 407, Go's client 317."""
_NO_ROUTE = (
    "No topic route info in name server for the topic: {}\n"
    "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
)


def get_route(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_ROUTEINFO_BY_TOPIC; a topic that the client may not describe has no route."""
    name = Fields(call.command).text("topic")
    broker = call.broker
    if name == AUTO_CREATE_TOPIC and broker.broker.config.auto_create_topics_enable:
        return _route(call, broker.settings.queues_default, INHERITED)
    topic = broker.topic_if_any(name)
    if topic is None or not broker.may(call.identity, Operation.DESCRIBE, topic):
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, _NO_ROUTE.format(name))
    return _route(call, topic.queues, READ_WRITE)


def _route(call: "RemotingCall", queues: int, permission: int) -> RemotingAnswer:
    broker = call.broker
    quoted = call.command.version >= QUOTED_FROM_VERSION
    address: FastJson = call.peer.endpoint
    addresses: FastJson = {"0": address} if quoted else Keyed(((0, address),))
    body = encode_body(
        {
            "brokerDatas": [
                {
                    "brokerAddrs": addresses,
                    "brokerName": broker.name,
                    "cluster": broker.settings.cluster,
                    "enableActingMaster": False,
                }
            ],
            "filterServerTable": {},
            "queueDatas": [_queues_of(broker, queues, permission)],
        }
    )
    return RemotingAnswer(body=body)


def _queues_of(broker: "ServedBroker", queues: int, permission: int) -> FastJson:
    return {
        "brokerName": broker.name,
        "perm": permission,
        "readQueueNums": queues,
        "topicSysFlag": 0,
        "writeQueueNums": queues,
    }
