"""Brokers restarted one after the other, as an upgrade does, under a producer; and all at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.cluster.cluster_load import goes_on, judge, writing


@contextmanager
def no_alarm(cluster: BrokerCluster) -> Iterator[None]:
    """Fail where a broker logs an error, or a bug of its own, meanwhile."""
    said = [len(broker.output) for broker in cluster.brokers]
    yield
    lines = [
        f"{number}: {line}"
        for number, broker in enumerate(cluster.brokers)
        for line in broker.output[said[number] :].splitlines()
        if any(word in line for word in (" ERROR ", " CRITICAL ", "Traceback", "bug of Headrace"))
    ]
    assert lines == []


def test_a_rolling_restart_loses_and_doubles_nothing_and_no_producer_notices(
    cluster: BrokerCluster,
) -> None:
    with writing(cluster) as load, no_alarm(cluster):
        for broker in cluster.brokers:
            assert broker.stop() == 0
            cluster.until_led(load.topic)
            goes_on(cluster, load)
            broker.start()
            cluster.until_in_sync(load.topic)
            goes_on(cluster, load)
        judge(cluster, load)


def test_all_brokers_stopped_at_once_raise_no_alarm(cluster: BrokerCluster) -> None:
    for _ in range(3):
        with no_alarm(cluster), writing(cluster) as load:
            with ThreadPoolExecutor(len(cluster.brokers)) as at_once:
                codes = list(at_once.map(lambda broker: broker.stop(), cluster.brokers))
            assert codes == [0, 0, 0]
            cluster.mend()
            goes_on(cluster, load)
            judge(cluster, load)
