"""A broker with a listener for RocketMQ, and what tests ask of it."""

from typing import Any, cast

from headrace.delivery.batches import stretches
from headrace.frontends.rocketmq.serving import ServedBroker
from headrace.model.nouns import Offset, TopicPartition
from headrace.record.batch import records
from headrace.record.record import Record
from headrace.server.assembly import Server
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.topic_names import kafka_name
from tests.support.rocketmq.client import RemotingClient

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,ROCKETMQ://127.0.0.1:0",
    # Whatever else is on the machine's disk.
    "rocketmq.disk.clean.used.percent": "100",
    "rocketmq.disk.max.used.percent": "100",
}
PARKED = {"sysFlag": 6, "suspendTimeoutMillis": 20_000}


def port_of(broker: BrokerThread) -> int:
    """Return the port of the listener for RocketMQ."""
    return broker.call(lambda server: server.listeners[1].port)


def served(server: Server) -> ServedBroker:
    """Return the broker as requests of RocketMQ's clients see it. On the deciding thread."""
    broker = cast("Any", server.frontends)._others[0].broker
    assert isinstance(broker, ServedBroker)
    return broker


def log_records(broker: BrokerThread, topic: str) -> list[Record]:
    """Return the records in the log of a topic of one partition, also of a closed one."""
    log = broker.call(lambda server: server.broker.partition(topic, 0).log)
    found: list[Record] = []
    at = log.start_offset
    while at < log.end_offset:
        read = log.read_from_disk(at, 1 << 20, below=log.end_offset)
        for stretch in stretches(read.data, at):
            found += records(memoryview(read.data)[stretch.begin : stretch.end])
        at = Offset(found[-1].offset + 1)
    return found


def cleanable(broker: BrokerThread, *topics: str) -> list[bool]:
    """Return of each topic whether a full disk may delete its unexpired messages."""

    def asked(server: Server) -> list[bool]:
        return [served(server)._may_clean(TopicPartition(kafka_name(name), 0)) for name in topics]

    return broker.call(asked)


def code(answer: RemotingCommand) -> ResponseCode:
    """Return the code of an answer."""
    return ResponseCode(answer.code)


def fields(answer: RemotingCommand) -> dict[str, str]:
    """Return the fields of an answer."""
    return dict(answer.fields or {})


def made(client: RemotingClient, topic: str, queues: int = 1) -> str:
    """Create a topic and return its name."""
    answer = client.call(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        {
            "topic": topic, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "defaultTopic": "TBW102", "topicSysFlag": 0,
            "order": "false",
        },
    )  # fmt: skip
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
    return topic


def loaded(client: RemotingClient, group: str, topic: str) -> None:
    """Wait until the coordinator of a group has loaded its offsets, as clients do: by asking."""
    named = {"consumerGroup": group, "topic": topic, "queueId": 0}
    while code(client.call(14, named)) is ResponseCode.SERVICE_NOT_AVAILABLE:
        pass


def retried_at_most(client: RemotingClient, group: str, times: int) -> None:
    """Create a group whose messages are retried so many times before they are dead letters."""
    body = f'{{"groupName":"{group}","consumeEnable":true,"retryMaxTimes":{times}}}'
    answer = client.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body.encode())
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
