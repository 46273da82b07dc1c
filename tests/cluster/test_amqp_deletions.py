"""Deleted queues and vhosts of three brokers: what is declared again is empty at each of them."""

import subprocess
from typing import Any

import pika
import pytest
from confluent_kafka import TopicCollection
from pika.exceptions import ChannelClosedByBroker

from headrace.queues.queue_names import DECLARATIONS_TOPIC, queue_topic
from tests.support.cluster.amqp_clients import publish
from tests.support.cluster.amqp_cluster import AmqpCluster
from tests.support.cluster.broker_cluster import until
from tests.support.processes.process import HEADRACE

BROKERS = (0, 1, 2)


def declared(cluster: AmqpCluster, number: int, name: str, **arguments: Any) -> int:
    """Declare a durable queue at a broker; return its number of messages."""
    with cluster.channel(number) as channel:
        answer = channel.queue_declare(name, durable=True, arguments=arguments)
        count: int = answer.method.message_count
        return count


def filled(cluster: AmqpCluster, number: int, name: str) -> None:
    """Publish ten messages at a broker; return once they are confirmed."""
    with cluster.channel(number, confirms=True) as channel:
        publish(channel, name, *(b"old" for _ in range(10)))


def only_message(cluster: AmqpCluster, number: int, name: str) -> bytes | None:
    """Publish one message at a broker and get it at the next one, where no other follows."""
    with cluster.channel(number, confirms=True) as channel:
        publish(channel, name, b"new")
    with cluster.channel((number + 1) % 3) as channel:
        _, _, body = channel.basic_get(name, auto_ack=True)
        assert channel.basic_get(name)[0] is None
        found: bytes | None = body
        return found


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_queue_that_is_declared_again_is_empty_at_each_broker(kind: str, amqp: AmqpCluster) -> None:
    name = f"again-{kind}"
    arguments: dict[str, Any] = {"x-queue-type": kind}
    for number in BROKERS:
        declared(amqp, number, name, **arguments)
        filled(amqp, (number + 1) % 3, name)
        with amqp.channel((number + 2) % 3) as channel:
            assert channel.queue_delete(name).method.message_count == 10
        if kind == "classic":  # its topic has more partitions
            arguments = {**arguments, "x-max-priority": number + 1}
        assert declared(amqp, (number + 1) % 3, name, **arguments) == 0
        assert only_message(amqp, number, name) == b"new"
        with amqp.channel(number) as channel:
            channel.queue_delete(name)


def test_queue_is_deleted_and_declared_again_while_its_coordinator_is_killed(
    amqp: AmqpCluster,
) -> None:
    declared(amqp, 0, "killed", **{"x-queue-type": "quorum"})
    filled(amqp, 1, "killed")
    coordinator = max(amqp.leader(DECLARATIONS_TOPIC, index) for index in range(8))
    left = [number for number in BROKERS if number != coordinator]
    with amqp.channel(left[0]) as channel:
        channel.queue_delete("killed")
    amqp.brokers[coordinator].kill()
    assert declared(amqp, left[1], "killed", **{"x-queue-type": "quorum"}) == 0
    amqp.mend()
    assert only_message(amqp, left[0], "killed") == b"new"


def topic_id(cluster: AmqpCluster, name: str) -> str:
    """Return the id of a queue's topic as its partitions' directories have it."""
    topic, admin = queue_topic("/", name), cluster.admin()
    found = admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id
    return str(found).replace("/", "_").replace("+", "-")


def ids_on_disk(cluster: AmqpCluster, number: int, name: str) -> list[str]:
    """Return the topic ids of a queue's logs at a broker, also of those that are set aside."""
    prefix = f"{queue_topic('/', name)}-0"
    return [
        path.read_text().partition("topic_id: ")[2].strip()
        for path in cluster.brokers[number].directory.rglob("partition.metadata")
        if path.parent.name.startswith(prefix) and not path.parent.name.endswith("-delete")
    ]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_queue_is_deleted_and_declared_again_while_a_replica_is_down(
    end: str, amqp: AmqpCluster
) -> None:
    name = f"down-{end}"
    quorum = {"x-queue-type": "quorum"}
    declared(amqp, 0, name, **quorum)
    filled(amqp, 1, name)
    old = topic_id(amqp, name)
    amqp.until_in_sync(queue_topic("/", name))
    down = 2
    getattr(amqp.brokers[down], end)()
    with amqp.channel(0) as channel:
        channel.queue_delete(name)
    assert declared(amqp, 1, name, **quorum) == 0
    assert only_message(amqp, 0, name) == b"new"
    with amqp.channel(1, confirms=True) as channel:
        publish(channel, name, b"kept")
    new = topic_id(amqp, name)
    assert ids_on_disk(amqp, down, name) == [old] != [new]
    amqp.mend()
    until(lambda: old not in ids_on_disk(amqp, down, name), "the deleted log is gone", 5)
    with amqp.channel(down) as channel:
        assert channel.basic_get(name, auto_ack=True)[2] == b"kept"
        assert channel.basic_get(name)[0] is None
        channel.queue_delete(name)


def test_queue_with_messages_at_another_broker_is_not_deleted_as_empty(amqp: AmqpCluster) -> None:
    declared(amqp, 0, "full", **{"x-queue-type": "classic"})
    filled(amqp, 1, "full")
    for number in BROKERS:
        with amqp.channel(number) as channel:
            with pytest.raises(ChannelClosedByBroker) as refused:
                channel.queue_delete("full", if_empty=True)
            assert refused.value.reply_code == 406
    with amqp.channel(2) as channel:
        assert channel.queue_purge("full").method.message_count == 10
        channel.queue_delete("full", if_empty=True)


def vhost(cluster: AmqpCluster, number: int, *words: str) -> None:
    """Run `headrace amqp` about vhosts at a broker."""
    bootstrap = cluster.brokers[number].bootstrap
    command = [str(HEADRACE), "amqp", *words, "--bootstrap-server", bootstrap]
    subprocess.run(command, check=True, timeout=60, capture_output=True)


def shown(cluster: AmqpCluster) -> set[str]:
    """Return the names of all topics."""
    return set(cluster.admin().list_topics(timeout=10).topics)


def test_vhost_that_is_created_again_has_nothing_of_the_one_before(amqp: AmqpCluster) -> None:
    def connect(number: int) -> pika.BlockingConnection | None:
        """Return a connection to the vhost; None: the broker does not have it."""
        port = amqp.amqp_ports[number]
        try:
            return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, "shop"))
        except pika.exceptions.AMQPConnectionError:
            return None

    def connected(number: int) -> pika.BlockingConnection:
        found: list[pika.BlockingConnection] = []

        def tried() -> bool:
            connection = connect(number)
            found.extend([] if connection is None else [connection])
            return bool(found)

        until(tried, f"broker {number} has the vhost")
        return found[0]

    for number in BROKERS:
        vhost(amqp, number, "vhost", "create", "shop")
        vhost(amqp, number, "permission", "set", "guest", ".*", ".*", ".*", "--vhost", "shop")
        connection = connected((number + 1) % 3)
        channel = connection.channel()
        channel.confirm_delivery()
        assert channel.queue_declare("orders", durable=True).method.message_count == 0
        publish(channel, "orders", b"a")
        vhost(amqp, (number + 2) % 3, "vhost", "delete", "shop", "--yes")
        topic = queue_topic("shop", "orders")
        until(lambda: topic not in shown(amqp), "its topic is deleted")  # noqa: B023
