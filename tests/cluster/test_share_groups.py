"""A share group on three real brokers, by a stock client's share consumer."""

import time
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.zookeeper import ZooKeeper

TOPIC, GROUP = "work", "workers"
PARTITIONS = 3
SECONDS_MAX = 90.0


def produce(cluster: BrokerCluster, count: int) -> None:
    """So many records to each partition, acknowledged."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for _ in range(count):
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, b"v", partition=partition)
    assert producer.flush(60) == 0


def begin_at_the_start(cluster: BrokerCluster) -> None:
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=[entry])
    admin = cluster.admin()
    (altered,) = admin.incremental_alter_configs([resource]).values()
    altered.result(30)


def accept(consumer: Any, seen: set[tuple[int, int]], count: int) -> None:
    """Accept so many records more; none of them was accepted before."""
    wanted, end = len(seen) + count, time.monotonic() + SECONDS_MAX
    while len(seen) < wanted and time.monotonic() < end:
        taken = set()
        for message in consumer.poll(0.5):
            if message.error() is None:
                taken.add((message.partition(), message.offset()))
                consumer.acknowledge(message, int(AcknowledgeType.ACCEPT))
        assert not taken & seen
        refused = {where for where, error in consumer.commit_sync(30.0).items() if error}
        parts = {where.partition for where in refused}
        seen |= {record for record in taken if record[0] not in parts}
    assert len(seen) == wanted


def test_what_was_accepted_stays_so_when_a_broker_is_killed(
    tmp_path: Path, zookeeper: ZooKeeper, commands: list[Path]
) -> None:
    with BrokerCluster(
        tmp_path,
        zookeeper.hosts,
        commands=commands,
        share_coordinator_state_topic_replication_factor=3,
        share_coordinator_state_topic_min_isr=2,
        share_coordinator_state_topic_num_partitions=6,
        offsets_topic_num_partitions=3,
    ) as cluster:
        cluster.create(TOPIC, PARTITIONS, min_insync_replicas=2)
        begin_at_the_start(cluster)
        produce(cluster, 10)
        seen: set[tuple[int, int]] = set()
        consumer = ShareConsumer({
            "bootstrap.servers": cluster.bootstrap,
            "group.id": GROUP,
            "share.acknowledgement.mode": "explicit",
        })  # fmt: skip
        with closing(consumer):
            consumer.subscribe([TOPIC])
            accept(consumer, seen, 30)
            # Who leads one of the partitions keeps state of others, and coordinates perhaps.
            cluster.brokers[cluster.leader(TOPIC)].kill()
            produce(cluster, 5)
            accept(consumer, seen, 15)
