"""The controller is killed, two brokers of three, and all of them."""

import random

from confluent_kafka import KafkaError, Producer

from tests.support.client.load import kept
from tests.support.cluster.broker_cluster import BrokerCluster, until
from tests.support.cluster.cluster_load import PARTITIONS, goes_on, judge, writing


def error_of_one_attempt(bootstrap: str, topic: str) -> int:
    """The code that a producer gets which asks for acks=all and never retries; 0: none."""
    codes: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap, "retries": 0, "log_level": 0})
    producer.produce(
        topic,
        b"x",
        partition=0,
        on_delivery=lambda error, _: codes.append(error.code() if error else 0),
    )
    assert producer.flush(30) == 0
    return codes[0]


def test_a_controller_that_leads_too_is_killed_and_another_goes_on(cluster: BrokerCluster) -> None:
    with writing(cluster) as load:
        former = cluster.controller()
        assert former in {cluster.leader(load.topic, index) for index in range(PARTITIONS)}
        cluster.brokers[former].kill()
        until(lambda: cluster.controller() not in (-1, former), "another controller")
        cluster.until_led(load.topic, by_others_than=[former])
        with writing(cluster, replicas=2) as fresh:  # the new controller creates topics
            judge(cluster, fresh)
        goes_on(cluster, load)
        cluster.mend()
        goes_on(cluster, load)
        judge(cluster, load)


def test_the_last_of_three_replicas_has_all_that_was_acknowledged(cluster: BrokerCluster) -> None:
    with writing(cluster, min_insync_replicas=1) as load:
        gone = {cluster.controller(), cluster.leader(load.topic, 1)}
        gone |= {(max(gone) + 1) % 3} if len(gone) < 2 else set()
        for number in gone:
            cluster.brokers[number].kill()
        cluster.until_led(load.topic, by_others_than=gone)
        goes_on(cluster, load)
        load.finish()
        (left,) = cluster.running.values()
        found = kept(load, left.bootstrap)
        assert found.holds(), found
        cluster.mend()
        judge(cluster, load)


def test_with_two_of_three_gone_writes_are_refused_and_come_to_be_when_they_are_back(
    cluster: BrokerCluster,
) -> None:
    with writing(cluster) as load:
        gone = [number for number in range(3) if number != cluster.controller()]
        for number in gone:
            cluster.brokers[number].kill()
        cluster.until_led(load.topic, by_others_than=gone)
        (left,) = cluster.running.values()
        refused = KafkaError.NOT_ENOUGH_REPLICAS
        assert error_of_one_attempt(left.bootstrap, load.topic) == refused
        assert not load.goes_on(1, seconds_max=2), (
            "an acks=all write of one replica is acknowledged"
        )
        cluster.mend()
        goes_on(cluster, load)
        judge(cluster, load)


def test_all_three_are_killed_and_started_in_any_order_and_nothing_is_lost(
    cluster: BrokerCluster,
) -> None:
    order = [0, 1, 2]
    with writing(cluster) as load:
        for _ in range(2):
            random.shuffle(order)
            cluster.kill()
            for number in order:
                cluster.brokers[number].start()
            cluster.until_all_are_here()
            cluster.until_led(load.topic)
            assert load.goes_on(500), f"started as {order}: {cluster.output[-8000:]}"
        judge(cluster, load)
