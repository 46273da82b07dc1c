"""Leaders that are killed or stand still, under an idempotent producer with its own defaults."""

from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.cluster.cluster_load import goes_on, judge, writing


def test_what_was_acknowledged_is_kept_once_and_in_order_through_kills_of_leaders(
    cluster: BrokerCluster,
) -> None:
    with writing(cluster) as load:
        for partition in range(2):
            leader = cluster.leader(load.topic, partition)
            cluster.brokers[leader].kill()
            cluster.until_led(load.topic, by_others_than=[leader])
            goes_on(cluster, load)
            cluster.mend()
            cluster.until_in_sync(load.topic)
            goes_on(cluster, load)
        judge(cluster, load)


def test_what_was_acknowledged_is_kept_once_and_in_order_when_a_leader_stands_still(
    cluster: BrokerCluster,
) -> None:
    with writing(cluster) as load, writing(cluster) as other:
        leader = cluster.leader(load.topic)
        cluster.pause(leader)
        for topic in (load.topic, other.topic):
            cluster.until_led(topic, by_others_than=[leader])
        with writing(cluster, replicas=2) as fresh:  # who asks anew finds the present leaders
            judge(cluster, fresh)
        cluster.resume(leader)
        for each in (load, other):
            goes_on(cluster, each)
            judge(cluster, each)
