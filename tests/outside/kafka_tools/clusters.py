"""The two clusters of a comparison: three of our brokers, and three of Apache Kafka 3.9.2.

Both are on one ZooKeeper, each in a chroot of its own; their brokers are 0, 1 and 2.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from tests.outside.kafka_reads_our_files.brokers import Broker
from tests.outside.kafka_reads_our_files.jvm import KAFKA_3, java
from tests.outside.kafka_tools import masks
from tests.outside.kafka_tools.step import Side, Step
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.processes.process import StartsAndStops
from tests.support.zookeeper import ZooKeeper

WAIT_SECONDS_MAX = 90.0
SESSION_MS = 6_000
SETTINGS: dict[str, object] = {
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "zookeeper.session.timeout.ms": SESSION_MS,
    "replica.lag.time.max.ms": 5_000,
    "log.retention.ms": 604_800_000,
    "group.initial.rebalance.delay.ms": 100,
    "default.replication.factor": 3,
    "offsets.topic.num.partitions": 5,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.num.partitions": 5,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}


class Kafka3Broker(Broker):
    """Apache Kafka 3.9.2 on a ZooKeeper that others use too."""

    name = "kafka-3.9.2"

    def start(self) -> None:
        command = java(KAFKA_3, 384, "kafka.Kafka", str(self.write_properties()))
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            try:
                return self.process.run(command, self.port)
            except AssertionError:
                # After a kill it ends by itself while its old session is known to ZooKeeper.
                if time.monotonic() > deadline:
                    raise


class Cluster(StartsAndStops):
    """Three brokers, as a side's broker has them: killed, stopped and started by their ids."""

    name = ""

    def __init__(self, place: Path, hosts: str) -> None:
        self.place = self.log = place
        self.hosts = hosts
        self.zookeeper = ""
        """`zookeeper.connect` of its brokers."""

    @property
    def bootstrap(self) -> str:
        raise NotImplementedError

    def kill(self, number: int) -> None:
        raise NotImplementedError

    def start_again(self, number: int) -> None:
        raise NotImplementedError

    # --- what both are asked --------------------------------------------------------------------

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def in_sync(self, topic: str) -> dict[int, tuple[list[int], set[int], int]]:
        """Of each partition the replicas, the ISR and the leader, -1 where it has none."""
        admin = self.admin()
        asked = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
        return {
            partition.id: (
                [replica.id for replica in partition.replicas],
                {replica.id for replica in partition.isr},
                -1 if partition.leader is None else partition.leader.id,
            )
            for partition in asked.partitions
        }

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Return once `holds` answers something true; fail, naming `what`, where it never does."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < deadline:
            with contextlib.suppress(KafkaException):
                if holds():
                    return
            time.sleep(0.2)
        raise AssertionError(f"{self.name}: not after {WAIT_SECONDS_MAX:g} s: {what}")

    def until_in_sync(self, topic: str) -> None:
        """Return when every replica is in the ISR."""
        self.until(
            lambda: all(set(held) == isr for held, isr, _ in self.in_sync(topic).values()),
            f"all replicas of {topic} in sync",
        )

    def topics(self) -> set[str]:
        """All but the coordinators' own."""
        found = self.admin().list_topics(timeout=10).topics
        return {name for name in found if not name.startswith("__")}

    def until_isr(self, topic: str, *members: int) -> None:
        """Return when all partitions have exactly this ISR."""
        self.until(
            lambda: all(isr == set(members) for _, isr, _ in self.in_sync(topic).values()),
            f"ISR {members} of {topic}",
        )

    def write(self, topic: str, count: int) -> None:
        """Write records; all are acknowledged by all in sync."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        failed: list[str] = []
        for number in range(count):
            producer.produce(
                topic, f"record {number}", partition=number % 3,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )  # fmt: skip
        assert producer.flush(60) == 0
        assert not failed, failed[:3]


class OurCluster(Cluster):
    """Three brokers of this tree."""

    name = "headrace"

    def __init__(self, place: Path, hosts: str, **settings: Any) -> None:
        super().__init__(place, hosts)
        given: dict[str, Any] = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
        self._cluster = BrokerCluster(place, hosts, 3, None, **{**settings, **given})
        self.zookeeper = self._cluster.connect

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def start(self) -> None:
        self._cluster.start()

    def stop(self) -> None:
        self._cluster.kill()

    def kill(self, number: int) -> None:
        self._cluster.brokers[number].kill()

    def start_again(self, number: int) -> None:
        self._cluster.brokers[number].start()


class KafkaCluster(Cluster):
    """Three brokers of Apache Kafka 3.9.2."""

    name = "kafka-3.9.2"

    def __init__(self, place: Path, hosts: str) -> None:
        super().__init__(place, hosts)
        self.zookeeper = f"{hosts}/kafka"
        settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
        self._brokers = [
            Kafka3Broker(
                place / f"broker-{number}", place / f"broker-{number}" / "log",
                **settings, broker_id=number, zookeeper_connect=self.zookeeper,
            )
            for number in range(3)
        ]  # fmt: skip

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self._brokers)

    def start(self) -> None:
        for broker in self._brokers:
            broker.start()
        admin = self.admin()
        self.until(lambda: len(admin.list_topics(timeout=10).brokers) == 3, "three brokers")

    def stop(self) -> None:
        for broker in self._brokers:
            broker.kill()

    def kill(self, number: int) -> None:
        self._brokers[number].kill()

    def start_again(self, number: int) -> None:
        self._brokers[number].start()


class ClusterSide(Side):
    """One cluster and the directory its tools may write to."""

    def __init__(self, cluster: Cluster, place: Path) -> None:
        super().__init__(cluster, place)  # type: ignore[arg-type]  # it has what a side asks for
        self.cluster = cluster

    def command(self, tool: str, words: str, heap: int = 128) -> list[str]:
        """A command line of Kafka 3.9.2's tools: the last that know of ZooKeeper."""
        filled = words.format(
            broker=self.cluster.bootstrap, place=self.place, zookeeper=self.cluster.zookeeper
        )
        return java(KAFKA_3, heap, tool, *filled.split())

    def masked(self, step: Step, out: str, err: str) -> list[str]:
        """What is compared of what a tool printed; which broker it tried first is chance."""
        return masks.without_warnings(super().masked(step, out, err))


class LeaderKilled(StartsAndStops):
    """Our cluster in the place of one broker: `kill` is of the leader of the newest topic.

    It is down until the next one is killed, or longer: whoever talks to the cluster does without.
    """

    def __init__(self, place: Path, _log: Path, **settings: object) -> None:
        self._zookeeper = ZooKeeper(place / "zookeeper")
        self._place = place
        self._settings = settings
        self._cluster: OurCluster | None = None
        self._down: int | None = None
        self._seen: set[str] = set()
        self._topic = ""

    @property
    def cluster(self) -> OurCluster:
        assert self._cluster is not None
        return self._cluster

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def start(self) -> None:
        """Start all; later nothing: who is killed stays down."""
        if self._cluster is None:
            self._zookeeper.start()
            self._cluster = OurCluster(
                self._place / "brokers", self._zookeeper.hosts, **self._settings
            )
            try:
                self._cluster.start()
            except BaseException:
                self._zookeeper.kill()
                raise

    def stop(self) -> None:
        self.cluster.stop()
        self._zookeeper.kill()

    def kill(self) -> None:
        """Kill the leader of the topic that was made last, all brokers being up and in sync."""
        new = self.cluster.topics() - self._seen
        self._seen |= new
        self._topic = min(new, default=self._topic)
        self.mend()
        self.cluster.until_in_sync(self._topic)
        self._down = self.cluster.in_sync(self._topic)[0][2]
        self.cluster.kill(self._down)

    def mend(self) -> None:
        """Start who is down; returns when all three are there."""
        if self._down is None:
            return
        self.cluster.start_again(self._down)
        self._down = None
        admin = self.cluster.admin()
        self.cluster.until(lambda: len(admin.list_topics(timeout=10).brokers) == 3, "three brokers")
