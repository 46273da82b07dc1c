"""Clusters of three brokers under measurement: ours on ZooKeeper, Kafka 4.3.1, 3.9.2 on ZooKeeper.

Each broker is a process in a directory of its own, with a listener of its own for clients and
brokers alike; all of a cluster are on this machine.
"""

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Self

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from bench.checkouts import HERE, Checkout
from bench.subjects import Broker, Headrace, Kafka, free_port
from tests.outside.kafka_reads_our_files.jvm import KAFKA_3, libraries
from tests.support.zookeeper import PROJECT, ZooKeeper

BROKERS = 3
SESSION_MS = 6000
WAIT_SECONDS_MAX = 120.0
ASK_SECONDS = 10.0
WAKE_SECONDS = 3.0
"""What brokers that were paused take to find that they were given up, and to come back."""
COMMON = (
    f"offsets.topic.replication.factor={BROKERS}\n"
    f"transaction.state.log.replication.factor={BROKERS}\n"
    "auto.leader.rebalance.enable=false\n"
)
"""Settings of every broker."""


def until(holds: Callable[[], object], what: str, seconds_max: float = WAIT_SECONDS_MAX) -> None:
    """Return once `holds` answers something true. TimeoutError, naming `what`."""
    deadline = time.monotonic() + seconds_max
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not after {seconds_max:g} s: {what}")
        time.sleep(0.02)


class Cluster(ABC):
    """Brokers 0, 1 and 2, and what they need; to be used in a `with`."""

    brokers: list[Broker]
    hosts = ""
    """`zookeeper.connect`; empty where there is no ZooKeeper."""

    def __init__(self, durable: bool, settings: str = "") -> None:
        """`durable`: replicas flush what they hold before it counts; `settings`: of each broker."""
        self.durable = durable
        self.settings = COMMON + settings
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._stack.close)
            self.brokers = self.make()
            for broker in self.brokers:
                broker.place()
                self._stack.callback(broker.remove)
            for broker in self.brokers:
                broker.start()
                self._stack.callback(_end, broker)
            for broker in self.brokers:
                broker.wait_ready()
            self.until_all_are_here()
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @abstractmethod
    def make(self) -> list[Broker]:
        """Make the brokers, not started; what they need is started, and ended by the stack."""

    def pause(self) -> None:
        """Have the brokers stand still: what they do at rest is not to cost others anything."""
        for broker in self.brokers:
            broker.process.send_signal(signal.SIGSTOP)

    @contextmanager
    def awake(self) -> Iterator["Cluster"]:
        """Let paused brokers go on until the body ends; begins once all know each other again."""
        for broker in self.brokers:
            broker.process.send_signal(signal.SIGCONT)
        time.sleep(WAKE_SECONDS)
        self.until_all_are_here()
        try:
            yield self
        finally:
            self.pause()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    def cpu_seconds(self) -> float:
        """User and system time of all brokers so far."""
        return sum(broker.cpu_seconds() for broker in self.brokers)

    def admin(self) -> AdminClient:
        """A client; keep it while its futures are waited for."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def until_all_are_here(self) -> None:
        """Return when every broker is told of by the cluster."""
        admin = self.admin()
        until(lambda: len(admin.list_topics(timeout=10).brokers) == BROKERS, "all brokers here")

    def create_topic(
        self,
        topic: str,
        partitions: int,
        assignment: list[list[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic of which each broker has a replica; return when all are in sync."""
        settings = {"file.delete.delay.ms": "500", "retention.ms": "-1", **(config or {})}
        if assignment is None:
            wanted = NewTopic(topic, partitions, BROKERS, config=settings)
        else:
            wanted = NewTopic(topic, partitions, replica_assignment=assignment, config=settings)
        admin = self.admin()
        try:
            made = admin.create_topics([wanted], operation_timeout=60, request_timeout=120)
            made[topic].result(130)
        except KafkaException as error:  # it comes to be all the same
            if error.args[0].code() != KafkaError.REQUEST_TIMED_OUT:
                raise
        self.until_in_sync(topic, partitions)

    def delete_topic(self, topic: str) -> None:
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(60)
        time.sleep(1.5)  # the files go after file.delete.delay.ms

    def in_sync(self, topic: str) -> dict[int, tuple[int, frozenset[int]]]:
        """Of each partition its leader, -1 where it has none, and its ISR.

        Empty where the topic is not known, or nobody answered: librdkafka may ask a broker that was
        killed, and goes on waiting for it.
        """
        admin = self.admin()
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=ASK_SECONDS)[topic]
        try:
            found = asked.result(2 * ASK_SECONDS)
        except TimeoutError:
            return {}
        except KafkaException as error:
            known = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TIMED_OUT}
            if error.args[0].code() not in known:
                raise
            return {}
        return {
            partition.id: (
                -1 if partition.leader is None else partition.leader.id,
                frozenset(replica.id for replica in partition.isr),
            )
            for partition in found.partitions
        }

    def until_in_sync(self, topic: str, partitions: int) -> None:
        """Return when every replica of the topic is in the ISR."""

        def whole() -> bool:
            found = self.in_sync(topic).values()
            return len(found) == partitions and all(len(isr) == BROKERS for _, isr in found)

        until(whole, f"all replicas of {topic} in sync")


def _end(broker: Broker) -> None:
    """Kill it: stopped one after the other, each would look for others to lead."""
    if broker.process.poll() is None:
        broker.process.kill()
        broker.process.wait()


class OnZooKeeper(Cluster):
    """Brokers that a ZooKeeper of their own holds together."""

    def make(self) -> list[Broker]:
        place = Path(self._stack.enter_context(TemporaryDirectory(prefix="bench-zookeeper-")))
        self.hosts = self._stack.enter_context(ZooKeeper(place)).hosts
        return [
            self.node(
                self.settings + f"broker.id={number}\nzookeeper.connect={self.hosts}\n"
                f"zookeeper.session.timeout.ms={SESSION_MS}\n"
            )
            for number in range(BROKERS)
        ]

    @abstractmethod
    def node(self, settings: str) -> Broker:
        """Make one broker."""


class Headraces(OnZooKeeper):
    """Ours, of this checkout or another."""

    def __init__(self, durable: bool, settings: str = "", checkout: Checkout = HERE) -> None:
        super().__init__(durable, settings)
        self._checkout = checkout

    def node(self, settings: str) -> Broker:
        return Headrace(self.durable, settings, self._checkout)


class KafkasOnZooKeeper(OnZooKeeper):
    """Apache Kafka 3.9.2, the last with ZooKeeper."""

    def node(self, settings: str) -> Broker:
        return KafkaOnZooKeeper(self.durable, settings)


@dataclass
class KafkaOnZooKeeper(Kafka):
    """One broker of it."""

    quiet: ClassVar = f"-Dlogback.configurationFile={PROJECT / 'logback.xml'}"

    def class_path(self) -> str:
        return libraries(KAFKA_3)

    def prepare(self) -> None:
        flush = "log.flush.interval.messages=1\n" if self.durable else ""
        (self.directory / "server.properties").write_text(
            f"listeners=PLAINTEXT://127.0.0.1:{self.port}\nlog.dirs={self.directory / 'log'}\n"
            f"group.initial.rebalance.delay.ms=0\n{flush}"
        )


class Kafkas(Cluster):
    """Apache Kafka 4.3.1, each broker a controller too (KRaft)."""

    def make(self) -> list[Broker]:
        ports = [free_port() for _ in range(BROKERS)]
        return [
            KafkaOfThree(self.durable, self.settings, number, ports) for number in range(BROKERS)
        ]


@dataclass
class KafkaOfThree(Kafka):
    """One node of it."""

    number: int = 0
    controllers: "list[int] | tuple[()]" = ()
    """The ports of all controllers, by node id."""

    def nodes(self) -> tuple[int, Mapping[int, int]]:
        return self.number, dict(enumerate(self.controllers))
