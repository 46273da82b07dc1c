"""Kafka clients' administration of the topics of queues on three brokers."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from headrace.queues.queue_names import DECLARATIONS_TOPIC, queue_topic
from tests.support.cluster.amqp_clients import bodies, exists, publish
from tests.support.cluster.amqp_cluster import AmqpCluster
from tests.support.cluster.broker_cluster import until

HASHED = "q" * 240
"""A name whose topic is a hash of it."""


def filled(cluster: AmqpCluster, at: int, queue: str) -> str:
    """Declare a quorum queue with five messages at a broker; return its topic."""
    with cluster.channel(at, confirms=True) as channel:
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
        publish(channel, queue, *(b"%d" % number for number in range(5)))
    return queue_topic("/", queue)


def delete_records(admin: AdminClient, before: TopicPartition) -> None:
    """Delete the records before an offset, again if the leader changes, as Java's client does."""

    def deleted() -> bool:
        (answer,) = admin.delete_records([before]).values()
        try:
            answer.result(30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return False
        return True

    until(deleted, "records are deleted")


def refused(ask: Callable[[], Any]) -> tuple[int, str]:
    """Return the code and the text with which a request is refused."""
    with pytest.raises(KafkaException) as caught:
        ask()
    error = caught.value.args[0]
    return error.code(), error.str()


@pytest.mark.parametrize("queue", ["deleted", HASHED])
def test_kafkas_deletion_of_a_topic_deletes_its_queue_on_all_brokers(
    queue: str, amqp: AmqpCluster
) -> None:
    topic, admin = filled(amqp, 1, queue), amqp.admin()
    admin.delete_topics([topic])[topic].result(30)
    assert not any(exists(amqp, number, queue) for number in range(3))
    until(lambda: topic not in admin.list_topics(timeout=10).topics, "topic is deleted")
    filled(amqp, 0, queue)
    with amqp.channel(2) as channel:
        assert channel.queue_delete(queue).method.message_count == 5


def test_kafkas_deletion_of_records_purges_the_queue_at_its_leader(amqp: AmqpCluster) -> None:
    admin = amqp.admin()
    for leader in range(3):
        topic = filled(amqp, leader, f"purged-{leader}")
        delete_records(admin, TopicPartition(topic, 0, 3))
        with amqp.channel((leader + 1) % 3) as channel:
            assert bodies(channel, f"purged-{leader}", 2) == [b"3", b"4"]


def test_kafkas_other_changes_of_topics_of_queues_are_refused(amqp: AmqpCluster) -> None:
    topic, admin = filled(amqp, 0, "unchanged"), amqp.admin()
    policy = KafkaError.POLICY_VIOLATION
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    new = queue_topic("/", "new")
    asked = (
        lambda: admin.create_topics([NewTopic(new, 1, 3)])[new].result(30),
        lambda: admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30),
        lambda: admin.incremental_alter_configs([resource])[resource].result(30),
        lambda: admin.delete_topics([DECLARATIONS_TOPIC])[DECLARATIONS_TOPIC].result(30),
    )
    assert [refused(ask)[0] for ask in asked] == [policy] * 4
    with amqp.channel(1) as channel:
        assert len(bodies(channel, "unchanged", 5)) == 5
