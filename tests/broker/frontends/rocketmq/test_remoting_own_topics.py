"""RocketMQ's own topics and Kafka's producers; a group's topics when the group is deleted."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from headrace.security.acl import AclBinding, AclEntry, AclFilter, Permission
from headrace.security.authorizer import Operation, PatternType, Resource, ResourceType
from headrace.security.identity import ANONYMOUS
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import SETTINGS, code, port_of

OWN = (
    ("__rocketmq..25RETRY.25CG", None),
    ("__rocketmq..25DLQ.25CG", None),
    ("__rocketmq.delays", KafkaError.TOPIC_EXCEPTION),  # no client writes held messages
)
"""Kafka's names of RocketMQ's own topics, and the error of a producer with the right to them."""
GROUP = Resource(ResourceType.GROUP, "CG")


@pytest.fixture(scope="module")
def guarded() -> Iterator[BrokerThread]:
    """A broker on which ACLs decide, with a retry, a dead letter and a delayed message."""
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with BrokerThread(SETTINGS | {"authorizer.class.name": name}) as broker:
        allow(broker, (Operation.READ, GROUP))
        with RemotingClient(port_of(broker)) as client:
            made(client)
            assert code(client.send("%RETRY%CG", b"retry", i="DELAY\x011\x02")) is (
                ResponseCode.SUCCESS
            )
        yield broker


def made(client: RemotingClient) -> None:
    """Store a retry and a dead letter of the group."""
    assert code(client.send("%RETRY%CG", b"retry", i="")) is ResponseCode.SUCCESS
    assert code(client.send("%RETRY%CG", b"dead", j=17, l=16, i="")) is ResponseCode.SUCCESS


def allow(broker: BrokerThread, *rights: tuple[Operation, Resource]) -> None:
    """Allow anonymous clients these operations, and nothing else."""
    bindings = [
        AclBinding(resource, AclEntry(str(ANONYMOUS), "*", operation, Permission.ALLOW))
        for operation, resource in rights
    ]

    async def put(server: object) -> None:
        acls = broker.server.controller.settings.acls
        await acls.remove([AclFilter()])
        assert await acls.add(bindings) == [None] * len(bindings)

    broker.run(put)


def produced(broker: BrokerThread, topic: str) -> int | None:
    """Produce a record as a Kafka client; return the error's code, None: it is stored."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": False})
    producer.produce(topic, b"kafka", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    (error,) = errors
    return None if error is None else error.code()


@pytest.mark.parametrize(("topic", "allowed"), OWN)
def test_kafka_producers_need_the_right_to_the_reserved_prefix(
    guarded: BrokerThread, topic: str, allowed: int | None
) -> None:
    everything = Resource(ResourceType.TOPIC, "*")
    allow(guarded, (Operation.ALL, everything), (Operation.READ, GROUP))
    assert produced(guarded, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    underscores = Resource(ResourceType.TOPIC, "__", PatternType.PREFIXED)
    allow(guarded, (Operation.ALL, underscores), (Operation.ALL, everything))
    assert produced(guarded, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    reserved = Resource(ResourceType.TOPIC, "__rocketmq.", PatternType.PREFIXED)
    allow(guarded, (Operation.WRITE, reserved), (Operation.DESCRIBE, everything))
    assert produced(guarded, topic) == allowed


def test_a_deleted_group_keeps_its_topics_until_they_are_deleted() -> None:
    with BrokerThread(SETTINGS) as broker, RemotingClient(port_of(broker)) as client:
        made(client)
        for clean in ("false", "true"):
            named = {"groupName": "CG", "cleanOffset": clean}
            deleted = client.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, named)
            assert code(deleted) is ResponseCode.SUCCESS
            for name, body in (("%RETRY%CG", b"retry"), ("%DLQ%CG", b"dead")):
                bodies = [each.body for each in messages_in(client.pull(name))]
                assert bodies == [body], name
        # mqadmin deleteSubGroup asks for it by a second request.
        deleted = client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "%RETRY%CG"})
        assert code(deleted) is ResponseCode.SUCCESS
        pull = client.pull("%RETRY%CG", consumerGroup="other")
        assert code(pull) is ResponseCode.TOPIC_NOT_EXIST
        assert [each.body for each in messages_in(client.pull("%DLQ%CG"))] == [b"dead"]
