"""The broker is killed that coordinates a group or a transaction: both go on, whole."""

import uuid
from collections.abc import Iterator

import pytest

from headrace.shards.group_partition import partition_for
from tests.outside.clients.clients.base import NEWER, QUICK, Client, Rec
from tests.outside.clients.scenarios import eventually, poll_until, read_by
from tests.outside.clients.scenarios_txn import END, some, values, words
from tests.outside.clients.test_matrix import CLIENTS
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.zookeeper import ZooKeeper

COORDINATORS = 50
"""Partitions of each internal topic."""
LOOKS_FOR_NO_OTHER = "kafka-python"
"""3.0 asks the coordinator it knows until that one is back."""
PROTOCOLS = [(client, newer) for client in CLIENTS for newer in (False, True)]
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def three_brokers(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper
) -> Iterator[BrokerCluster]:
    place = tmp_path_factory.mktemp("coordinators")
    with BrokerCluster(place, zookeeper.hosts, min_insync_replicas=2, **QUICK) as found:
        yield found


def kill_coordinator(cluster: BrokerCluster, internal_topic: str, key: str) -> None:
    """Kill the broker that leads a group's or a transactional id's partition."""
    cluster.until_in_sync(internal_topic)
    leader = cluster.leader(internal_topic, partition_for(key, COORDINATORS))
    cluster.brokers[leader].kill()


def library(client: str, bootstrap: str, *, newer: bool = False) -> Client:
    found = CLIENTS[client](bootstrap, replicas=3)
    if newer and NEWER[0] in found.unsupported():
        pytest.skip(f"{client} has no such feature")
    return found


@pytest.mark.parametrize(("client", "newer"), PROTOCOLS)
def test_a_group_goes_on_from_its_committed_offsets_when_its_coordinator_is_killed(
    client: str, newer: bool, cluster: BrokerCluster
) -> None:
    using = library(client, cluster.bootstrap, newer=newer)
    topic, group = (f"{kind}-{uuid.uuid4()}" for kind in "tg")
    using.create_topic(topic, 2, {})
    members = [using.member(topic, group, newer=newer) for _ in range(2)]
    poll_until(members, lambda: all(len(member.assigned()) == 1 for member in members))
    for partition in (0, 1):
        using.produce(topic, some("before"), partition=partition)
    for member in members:
        assert [record.value for record in read_by(member, 20)] == words(some("before"))
    for member in members:
        member.commit()
    kill_coordinator(cluster, "__consumer_offsets", group)
    for partition in (0, 1):
        using.produce(topic, some("after"), partition=partition)
    read: list[Rec] = []

    def went_on() -> bool:
        read.extend(record for member in members for record in member.poll(0.2))
        return len(read) >= 40

    assert eventually(went_on, 60), read
    found = [record.value for record in read]
    assert sorted(found, key=str) == sorted(words(some("after"), some("after")), key=str)
    for member in members:
        member.commit()
        member.close()
    assert using.committed(group, topic) == {0: 40, 1: 40}
    another = using.member(topic, group, newer=newer)
    using.produce(topic, [END])
    assert [record.value for record in read_by(another, 1)] == [END.value]
    another.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_transaction_is_committed_or_aborted_whole_when_its_coordinator_is_killed(
    client: str, cluster: BrokerCluster
) -> None:
    using = library(client, cluster.bootstrap)
    topic = f"t-{uuid.uuid4()}"
    using.create_topic(topic, 2, {})
    producer = using.transactions(topic)
    for word in ("committed", "aborted", "left open"):
        producer.begin()
        for partition in (0, 1):
            producer.send(topic, some(word), partition=partition)
        kill_coordinator(cluster, "__transaction_state", topic)
        if client == LOOKS_FOR_NO_OTHER:
            cluster.mend()
        if word == "committed":
            producer.commit()
        elif word == "aborted":
            producer.abort()
        cluster.mend()
    successor = using.transactions(topic)
    successor.begin()
    for partition in (0, 1):
        successor.send(topic, some("successor"), partition=partition)
    successor.commit()
    successor.close()
    producer.close()
    kept = words(some("committed"), some("successor"))
    using.produce(topic, [END])
    assert values(using, topic, committed=True) == kept
    found = using.consume(topic, len(kept), partition=1, committed=True)
    assert [record.value for record in found] == kept
