"""Topics of a cluster's queues: created with their first use, on the planned replicas."""

from collections.abc import Awaitable, Callable

import pytest

from headrace.broker.metadata_image import TopicInfo
from headrace.cluster.peers.queue_topic_calls import QueueTopicChanges
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.queues.queue_names import QueueName, queue_topic
from headrace.testing.sim.cluster import SimCluster
from headrace.vhosts.replicated_topics import present_replicas
from headrace.wire.amqp.field_kinds import Long
from headrace.wire.amqp.model_methods import QueueDeclare
from tests.support.cluster.peer_kit import play, started
from tests.support.queues.port_place import persistent
from tests.support.sim.amqp import serve_amqp
from tests.support.sim.cluster import until
from tests.unit.server.test_cluster_declarations import ask, declarations

Q = QueueName("/", "q")
TOPIC = queue_topic(*Q)


def played(story: Callable[[SimCluster], Awaitable[None]], *brokers: int) -> None:
    async def whole(cluster: SimCluster) -> None:
        serve_amqp(cluster)
        await started(cluster, *brokers)
        await story(cluster)

    play(whole)


def topic_on(cluster: SimCluster, number: int) -> TopicInfo | None:
    return cluster.brokers[number].broker.image.topics.get(TOPIC)


def replicas_on(cluster: SimCluster, number: int) -> list[tuple[int, ...]]:
    topic = topic_on(cluster, number)
    assert topic is not None
    return [tuple(partition.replicas) for partition in topic.partitions]


def publish(cluster: SimCluster, number: int) -> None:
    host = declarations(cluster, number).tables.virtual_hosts.hosts["/"]
    assert host.publish(["q"], persistent("a"))


@pytest.mark.parametrize("user", [0, 1, 2])
def test_topic_is_created_by_the_controller_for_any_broker(user: int) -> None:
    async def story(cluster: SimCluster) -> None:
        at = declarations(cluster, 1)
        await ask(at, QueueDeclare(queue="q", durable=True))
        assert at.planned(Q) == (1, 2, 0)
        assert topic_on(cluster, 1) is None
        publish(cluster, user)
        await until(lambda: all(topic_on(cluster, number) for number in (0, 1, 2)))
        assert replicas_on(cluster, user) == [(1, 2, 0)]
        config = {
            entry.name: entry.value for entry in cluster.controller().settings.describe_topic(TOPIC)
        }
        assert config["min.insync.replicas"] == "2"
        assert config["unclean.leader.election.enable"] == "false"

    played(story, 0, 1, 2)


def test_broker_that_is_down_is_replaced_among_the_replicas() -> None:
    async def story(cluster: SimCluster) -> None:
        await ask(declarations(cluster, 1), QueueDeclare(queue="q", durable=True))
        cluster.kill(1)
        await until(lambda: BrokerId(1) not in cluster.brokers[0].broker.image.brokers)
        publish(cluster, 2)
        await until(lambda: topic_on(cluster, 0))
        assert replicas_on(cluster, 0) == [(2, 3, 0)]

    played(story, 0, 1, 2, 3)


def test_priorities_are_partitions_with_one_replica() -> None:
    async def story(cluster: SimCluster) -> None:
        method = QueueDeclare(queue="q", durable=True, arguments={"x-max-priority": Long(3)})
        await ask(declarations(cluster, 2), method)
        publish(cluster, 0)
        await until(lambda: topic_on(cluster, 0))
        assert replicas_on(cluster, 0) == [(2,)] * 4

    played(story, 0, 1, 2)


def test_topics_of_clients_are_not_changed_as_those_of_queues() -> None:
    async def story(cluster: SimCluster) -> None:
        for number in (0, 1):
            links = cluster.brokers[number].cluster_links
            assert links is not None
            for name in ("clients", "__amqp.declarations"):
                topic = NewTopic(name, assignment={0: (0,)})
                for changes in (QueueTopicChanges([topic]), QueueTopicChanges((), {name: ""})):
                    with pytest.raises(ApiError) as refused:
                        await links.link.change_queue_topics(changes)
                    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION

    played(story, 0, 1)


@pytest.mark.parametrize(
    ("planned", "brokers", "replicas"),
    [
        ((2, 3, 1), (1, 2, 3), (2, 3, 1)),
        ((2, 3, 1), (1, 3, 4, 5), (3, 1, 4)),
        ((2, 3, 1), (1, 3), (3, 1)),
        ((2, 3, 1), (1,), ()),
        ((2,), (1, 3), (1,)),
        ((2, 3), (3,), ()),
    ],
)
def test_replicas_are_those_planned_and_a_majority_at_least(
    planned: tuple[int, ...], brokers: tuple[int, ...], replicas: tuple[int, ...]
) -> None:
    assert present_replicas(planned, [*map(BrokerId, brokers)]) == replicas
