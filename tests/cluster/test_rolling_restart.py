"""Brokers restarted one after the other, as an upgrade does, under a producer."""

from tests.support.broker_cluster import BrokerCluster
from tests.support.cluster_load import goes_on, judge, writing


def test_a_rolling_restart_loses_and_doubles_nothing_and_no_producer_notices(
    cluster: BrokerCluster,
) -> None:
    with writing(cluster) as load:
        for broker in cluster.brokers:
            assert broker.stop() == 0
            cluster.until_led(load.topic)
            goes_on(cluster, load)
            broker.start()
            cluster.until_in_sync(load.topic)
            goes_on(cluster, load)
        judge(cluster, load)
