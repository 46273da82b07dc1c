"""Replicas that are changed outside of replication, by an operator's hand or by a restored backup.

The property: bytes below the high watermark are equal on all ISR members, and nothing acknowledged
is lost, whoever leads afterwards.
"""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka import KafkaAdminClient

from headrace.posix.disk import RealDisk
from tests.support.client.load import kept
from tests.support.cluster.broker_cluster import BrokerCluster, until
from tests.support.cluster.changed_replicas import (
    CHANGES,
    Change,
    copy_back,
    delete_directory,
    delete_first_segment,
    delete_last_segment,
    image_of,
    restore_image,
)
from tests.support.cluster.cluster_load import PARTITIONS, goes_on, judge, writing
from tests.support.cluster.replica_files import different_replicas
from tests.support.processes.process import BrokerProcess
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.filterwarnings("default")

OUT_OF_SERVICE = (delete_first_segment, delete_last_segment, copy_back)
"""After these the log is as it is until an operator deletes it, where committed records went."""
LOOKS = 3
LEADER_LOOKS = 100
NOT_YET = (KafkaError._UNKNOWN_PARTITION, KafkaError.OFFSET_NOT_AVAILABLE)
"""Errors of brokers that have just started and of leaders that have just been elected."""
PREFERRED, UNCLEAN = 0, 1


@pytest.fixture(scope="module")
def three_brokers(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper
) -> Iterator[BrokerCluster]:
    """Three brokers with small segments, whose topics ask for two in-sync replicas."""
    place = tmp_path_factory.mktemp("brokers")
    with BrokerCluster(place, zookeeper.hosts, min_insync_replicas=2, log_roll_ms=300) as found:
        yield found


def log_directory(cluster: BrokerCluster, number: int) -> str:
    return str(Path(str(cluster.brokers[number].settings["log.dirs"])))


def give_back(cluster: BrokerCluster, topic: str) -> None:
    """Have the preferred replicas lead: those that were changed, too."""
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        admin.elect_leaders(PREFERRED, {topic: [*range(PARTITIONS)]}, raise_errors=False)


def changed(cluster: BrokerCluster, number: int, change: Change, topic: str, image: object) -> None:
    """Change what a broker that does not run has of the topic's first partition."""
    assert isinstance(image, dict)
    change(RealDisk(None), log_directory(cluster, number), f"{topic}-0", image)


def different(cluster: BrokerCluster, members: list[BrokerProcess], topic: str) -> list[str]:
    """Name the partitions of which replicas differ, once their leaders tell where they end."""
    for _ in range(LEADER_LOOKS):
        try:
            return different_replicas(members, cluster.bootstrap, topic, PARTITIONS)
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET:
                raise
        time.sleep(0.1)
    raise AssertionError(f"the leaders of {topic} do not tell where they end")


def members_are_alike(cluster: BrokerCluster, topic: str) -> None:
    """Check that members of the ISR have the leader's bytes below the high watermark."""
    for partition, (_, isr) in cluster.in_sync(topic).items():
        members = [cluster.brokers[number] for number in isr if number in cluster.running]
        wrong = different(cluster, members, topic)
        assert not [each for each in wrong if each.startswith(f"{topic}-{partition} ")]


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_replica_is_not_in_sync_until_it_is_alike(
    cluster: BrokerCluster, change: Change, clean: bool
) -> None:
    with writing(cluster) as load:
        number = cluster.leader(load.topic)
        cluster.brokers[number].stop()
        image = image_of(RealDisk(None), log_directory(cluster, number))
        cluster.mend()
        cluster.until_in_sync(load.topic)
        give_back(cluster, load.topic)
        goes_on(cluster, load)
        (cluster.brokers[number].stop if clean else cluster.brokers[number].kill)()
        changed(cluster, number, change, load.topic, image)
        cluster.mend()
        for _ in range(LOOKS):
            members_are_alike(cluster, load.topic)
            time.sleep(0.1)
        cluster.until_led(load.topic)
        goes_on(cluster, load)
        if change in OUT_OF_SERVICE:
            cluster.brokers[number].stop()
            changed(cluster, number, delete_directory, load.topic, {})
            cluster.mend()
        cluster.until_in_sync(load.topic)
        members_are_alike(cluster, load.topic)
        give_back(cluster, load.topic)
        judge(cluster, load)


def test_the_only_member_in_sync_does_not_lead_with_an_older_image(cluster: BrokerCluster) -> None:
    """All were stopped, and the last one was restored: the two others have what it lacks."""
    with writing(cluster) as load:
        load.finish()
        number = cluster.leader(load.topic)
        cluster.brokers[number].stop()
        image = image_of(RealDisk(None), log_directory(cluster, number))
        cluster.mend()
    with writing(cluster) as load:
        load.finish()
        others = [other for other in cluster.running if other != number]
        for each in (*others, number):
            cluster.brokers[each].stop()
        changed(cluster, number, restore_image, load.topic, image)
        cluster.mend()
        for partition in range(PARTITIONS):
            assert cluster.leader(load.topic, partition) != number
        assert any(cluster.leader(load.topic, p) < 0 for p in range(PARTITIONS))
        with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
            admin.elect_leaders(UNCLEAN, raise_errors=False)  # the internal topics wait, too
        cluster.until_led(load.topic)
        cluster.until_in_sync(load.topic)
        found = kept(load, cluster.bootstrap)
        assert found.holds(), found
        assert different_replicas(cluster.brokers, cluster.bootstrap, load.topic, PARTITIONS) == []


def test_an_operator_sees_a_changed_replica_by_its_name(cluster: BrokerCluster) -> None:
    with writing(cluster) as load:
        number = cluster.leader(load.topic)
        cluster.brokers[number].stop()
        changed(cluster, number, delete_directory, load.topic, {})
        cluster.mend()
        said = f"{load.topic}-0 (gone)"
        until(lambda: said in cluster.brokers[number].output, said)
        judge(cluster, load)
