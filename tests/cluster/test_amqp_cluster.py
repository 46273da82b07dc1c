"""RabbitMQ's clients on three brokers: any of them serves all queues, whichever leads them."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.cluster.amqp_cluster import AmqpCluster
from tests.support.zookeeper import ZooKeeper

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def brokers(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper
) -> Iterator[AmqpCluster]:
    with AmqpCluster(tmp_path_factory.mktemp("amqp"), zookeeper.hosts) as found:
        yield found


@pytest.fixture
def cluster(brokers: AmqpCluster) -> Iterator[AmqpCluster]:
    """Three brokers, all of which run again for the next test."""
    yield brokers
    brokers.mend()


def publish(channel: BlockingChannel, queue: str, *bodies: str) -> None:
    """Publish persistent messages; return once each is confirmed."""
    for body in bodies:
        channel.basic_publish("", queue, body.encode(), PERSISTENT, mandatory=True)


def consumed(channel: BlockingChannel, queue: str, count: int) -> list[str]:
    """Consume and acknowledge messages; return their bodies."""
    bodies: list[str] = []
    for method, _, body in channel.consume(queue, inactivity_timeout=30):
        assert method is not None, f"only {bodies} in 30 s"
        bodies.append(body.decode())
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == count:
            break
    channel.cancel()
    return bodies


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_queue_is_declared_published_and_consumed_at_three_brokers(
    kind: str, cluster: AmqpCluster
) -> None:
    arguments: Any = {"x-queue-type": kind}
    with (
        cluster.channel(0) as first,
        cluster.channel(1, confirms=True) as second,
        cluster.channel(2) as third,
    ):
        first.queue_declare(f"q-{kind}", durable=True, arguments=arguments)
        publish(second, f"q-{kind}", *map(str, range(100)))
        assert consumed(third, f"q-{kind}", 100) == [str(number) for number in range(100)]
