"""A producer with its own defaults on several brokers, and the judgement when all is over."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.client.load import Load, kept
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.cluster.replica_files import different_replicas

PARTITIONS = 3
PROGRESS = 500
"""Acknowledged records of each partition between two faults, and after the last."""


@contextmanager
def writing(cluster: BrokerCluster, replicas: int = 3, **config: Any) -> Iterator[Load]:
    """A producer to a topic of its own, some records of it acknowledged."""
    topic = f"t-{uuid.uuid4().hex[:8]}"
    cluster.create(topic, PARTITIONS, replicas, **config)
    load = Load(cluster.bootstrap, topic, PARTITIONS, burst=5, pause_seconds=0.01)
    try:
        assert load.goes_on(PROGRESS)
        yield load
    finally:
        load.finish()


def goes_on(cluster: BrokerCluster, load: Load) -> None:
    """Fail, with what the brokers said, where the producer gets no further."""
    assert load.goes_on(PROGRESS), cluster.output[-8000:]


def judge(cluster: BrokerCluster, load: Load) -> None:
    """End the load: what was acknowledged is there once, in order, and alike everywhere."""
    load.finish()
    cluster.until_in_sync(load.topic)
    found = kept(load, cluster.bootstrap)
    # A second reading tells records that are gone from a reading that ended too early.
    assert found.holds(), f"{found}; read again: {kept(load, cluster.bootstrap)}\n{cluster.output}"
    assert load.failed == []
    running = list(cluster.running.values())
    assert different_replicas(running, cluster.bootstrap, load.topic, PARTITIONS) == []
