"""Partitions that are moved to other brokers while they are written to."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka import TopicPartition as Place

from tests.support.cluster.broker_cluster import CALM_SESSION_MS, BrokerCluster, until
from tests.support.cluster.cluster_load import PARTITIONS, goes_on, judge, writing
from tests.support.cluster.replica_files import folders_of
from tests.support.processes.process import headrace
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def three_brokers(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper
) -> Iterator[BrokerCluster]:
    """Four: a partition of two replicas can move wholly to others."""
    place = tmp_path_factory.mktemp("moves")
    calm: dict[str, Any] = {"zookeeper_session_timeout_ms": CALM_SESSION_MS}
    with BrokerCluster(place, zookeeper.hosts, count=4, **calm) as found:
        yield found


@pytest.fixture
def admin(cluster: BrokerCluster) -> Iterator[Any]:
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as found:
        yield found


def replicas(cluster: BrokerCluster, topic: str, partition: int) -> set[int]:
    return cluster.in_sync(topic)[partition][0]


def folders(cluster: BrokerCluster, topic: str, partition: int) -> set[int]:
    """The brokers whose directories hold something of a partition, one being deleted too."""
    return {
        number
        for number, broker in enumerate(cluster.brokers)
        if folders_of(broker, f"{topic}-{partition}*")
    }


def others_than(held: set[int]) -> list[int]:
    return [number for number in range(4) if number not in held]


def test_partitions_move_wholly_to_other_brokers_under_load_and_leave_nothing_behind(
    cluster: BrokerCluster, admin: Any
) -> None:
    with writing(cluster, replicas=2, file_delete_delay_ms=100, min_insync_replicas=2) as load:
        held = [replicas(cluster, load.topic, index) for index in range(PARTITIONS)]
        asked = {Place(load.topic, index): others_than(held[index]) for index in (0, 1)}
        assert set(admin.alter_partition_reassignments(asked).values()) == {None}
        words = ",".join(map(str, others_than(held[2])))
        headrace(cluster.bootstrap, "cluster", "reassign", f"{load.topic}:2={words}")
        wanted = [set(others_than(brokers)) for brokers in held]
        every = range(PARTITIONS)
        until(lambda: [replicas(cluster, load.topic, n) for n in every] == wanted, "moved")
        until(lambda: [folders(cluster, load.topic, n) for n in every] == wanted, "removed")
        assert not admin.list_partition_reassignments()
        goes_on(cluster, load)
        judge(cluster, load)


def test_a_move_to_a_broker_that_stands_still_is_cancelled_and_nothing_is_lost(
    cluster: BrokerCluster, admin: Any
) -> None:
    with writing(cluster, replicas=2, file_delete_delay_ms=100, min_insync_replicas=2) as load:
        place = Place(load.topic, 0)
        held = replicas(cluster, load.topic, 0)
        targets = [number for number in others_than(held) if number != cluster.controller()]
        assert not admin.list_partition_reassignments()  # it knows the controller from now on
        cluster.pause(targets[0])
        assert admin.alter_partition_reassignments({place: targets}) == {place: None}
        assert set(admin.list_partition_reassignments()[place]["adding_replicas"]) == set(targets)
        assert admin.alter_partition_reassignments({place: None}) == {place: None}
        cluster.resume(targets[0])
        until(lambda: replicas(cluster, load.topic, 0) == held, "as it was")
        until(lambda: folders(cluster, load.topic, 0) == held, "removed")
        assert not admin.list_partition_reassignments()
        goes_on(cluster, load)
        judge(cluster, load)
