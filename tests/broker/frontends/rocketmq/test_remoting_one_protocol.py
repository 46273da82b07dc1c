"""A group whose members are clients of one protocol: requests of the other one are refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from headrace.cli.main import run as command
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import code, fields, made

TOPIC, GROUP = "one-protocol", "CG_one_protocol"
OFFSET = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0}


@pytest.fixture
def topic(client: RemotingClient) -> Iterator[str]:
    """A topic with three messages, and no offset of the group."""
    made(client, TOPIC)
    for number in range(3):
        client.send(TOPIC, b"%d" % number)
    yield TOPIC
    client.call(15, OFFSET | {"commitOffset": -1})


@pytest.fixture
def kafka_member(broker: BrokerThread, topic: str) -> Iterator[Consumer]:
    """A member of the group that is a client of Kafka's."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "enable.auto.commit": False,
         "auto.offset.reset": "earliest"}
    )  # fmt: skip
    consumer.subscribe([topic])
    assert consumer.poll(30.0) is not None
    yield consumer
    consumer.close()


@pytest.fixture
def rocketmq_member(client: RemotingClient, topic: str) -> Iterator[RemotingClient]:
    """A member of the group that is a client of RocketMQ's, and has stored offset 1."""
    assert code(client.heartbeat("one", GROUP, {topic: "*"})) is ResponseCode.SUCCESS
    assert code(client.call(15, OFFSET | {"commitOffset": 1})) is ResponseCode.SUCCESS
    yield client
    client.call(35, {"consumerGroup": GROUP, "clientID": "one"})


def stored(client: RemotingClient) -> str | None:
    """Return the group's stored offset."""
    return fields(client.call(14, OFFSET | {"setZeroIfNotFound": "false"})).get("offset")


@pytest.mark.usefixtures("kafka_member")
def test_kafkas_group_is_refused_to_rocketmq_clients(
    client: RemotingClient, broker: BrokerThread, tmp_path: Path
) -> None:
    refused = [
        client.heartbeat("two", GROUP, {TOPIC: "*"}),
        client.call(15, OFFSET | {"commitOffset": 2}),
        client.pull(TOPIC, consumerGroup=GROUP, sysFlag=5, commitOffset=2),
        client.call(222, {"group": GROUP, "topic": TOPIC, "timestamp": 0}),
    ]
    for answer in refused:
        assert code(answer) is ResponseCode.NO_PERMISSION
        assert "clients of Kafka's" in (answer.remark or "")
    assert stored(client) is None
    file = tmp_path / "consumerOffset.json"
    file.write_text(f'{{"offsetTable":{{"{TOPIC}@{GROUP}":{{0:2}}}}}}')
    words = ["rocketmq", "offsets", "import", str(file), "--yes", "-b", broker.bootstrap]
    assert command(words) == 1
    assert stored(client) is None


def test_rocketmqs_group_is_refused_to_kafka_clients_until_it_has_no_members(
    rocketmq_member: RemotingClient, broker: BrokerThread
) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": GROUP}
    admin, place = AdminClient({"bootstrap.servers": broker.bootstrap}), TopicPartition(TOPIC, 0, 3)
    wrong = "INCONSISTENT_GROUP_PROTOCOL"
    with pytest.raises(KafkaException, match=wrong):
        Consumer(settings).commit(offsets=[place], asynchronous=False)
    moved = ConsumerGroupTopicPartitions(GROUP, [place])
    (refused,) = admin.alter_consumer_group_offsets([moved])[GROUP].result(30).topic_partitions
    assert refused.error.name() == wrong
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([GROUP])[GROUP].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "one"})
    producer.init_transactions()
    producer.begin_transaction()
    metadata = Consumer(settings).consumer_group_metadata()
    with pytest.raises(KafkaException):
        producer.send_offsets_to_transaction([place], metadata, 10.0)
    producer.abort_transaction()
    assert stored(rocketmq_member) == "1"
    rocketmq_member.call(35, {"consumerGroup": GROUP, "clientID": "one"})
    admin.alter_consumer_group_offsets([moved])[GROUP].result(30)
    assert stored(rocketmq_member) == "3"
    admin.delete_consumer_groups([GROUP])[GROUP].result(30)
    assert stored(rocketmq_member) is None


@pytest.mark.usefixtures("rocketmq_member")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["seek", GROUP, "--to", "end", "--topics", TOPIC], "clients of another protocol"),
        (["reset", GROUP, "--topic", TOPIC, "--to-latest", "--execute"], "of another protocol"),
        (["delete-offsets", GROUP, "--topic", TOPIC, "--yes"], "clients of another protocol"),
        (["delete", GROUP, "--yes"], "has members"),
    ],
    ids=["seek", "reset", "delete-offsets", "delete"],
)
def test_commands_that_change_a_group_with_rocketmq_members_say_why_they_cannot(
    broker: BrokerThread,
    client: RemotingClient,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    capfd.readouterr()
    assert command(["group", *words, "-b", broker.bootstrap]) != 0
    assert said in capfd.readouterr().err
    assert stored(client) == "1"


def test_a_group_with_rocketmq_members_is_described_with_its_lag(
    broker: BrokerThread, rocketmq_member: RemotingClient, capfd: pytest.CaptureFixture[str]
) -> None:
    end = int(fields(rocketmq_member.call(30, {"topic": TOPIC, "queueId": 0}))["offset"])
    capfd.readouterr()
    assert command(["group", "describe", GROUP, "--json", "-b", broker.bootstrap]) == 0
    (group,) = json.loads(capfd.readouterr().out)
    (row,) = group["partitions"]
    shown = (row["topic"], row["committed_offset"], row["end_offset"], row["lag"])
    assert shown == (TOPIC, 1, end, end - 1)
