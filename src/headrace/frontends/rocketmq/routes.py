"""GET_ROUTEINFO_BY_TOPIC (105): the brokers and queues of a topic.

Newer clients read broker ids as JSON text; older ones expect the numbers unquoted, which is no JSON
(`wire.rocketmq.fastjson`).
"""

from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.replies import is_reply_topic
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.fastjson import FastJson, Keyed, encode_body
from headrace.wire.rocketmq.requests import Fields
from headrace.wire.rocketmq.topic_configs import INHERITED, READ_WRITE, WRITABLE
from headrace.wire.rocketmq.topic_names import AUTO_CREATE_TOPIC

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedBroker

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
        queues = broker.settings.queues_default
        return _route(call, queues, queues, READ_WRITE | INHERITED)
    if broker.awaits_retries(name) is not None or is_reply_topic(broker, name):
        return _route(call, 1, 1, READ_WRITE)
    topic = broker.topic_if_any(name)
    if topic is None or not broker.may(call.identity, Operation.DESCRIBE, topic):
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, _NO_ROUTE.format(name))
    permission = READ_WRITE if topic.config is None else topic.config.permission
    return _route(call, topic.read_queues, topic.write_queues, permission)


def _route(call: "RemotingCall", read: int, write: int, permission: int) -> RemotingAnswer:
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
            "queueDatas": [_queues_of(broker, read, write, permission)],
        }
    )
    return RemotingAnswer(body=body)


def _queues_of(broker: "ServedBroker", read: int, write: int, permission: int) -> FastJson:
    if broker.writes_wiped:
        permission &= ~WRITABLE
    return {
        "brokerName": broker.name,
        "perm": permission,
        "readQueueNums": read,
        "topicSysFlag": 0,
        "writeQueueNums": write,
    }
