"""Sections about three brokers: what replication costs, and how soon others lead.

Ours are on a ZooKeeper. Kafka is 4.3.1 where what clients see is compared, and 3.9.2 on a
ZooKeeper, with the same session timeout, where controllers are.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from bench import failover, replicated
from bench.clusters import Cluster, Headraces, Kafkas, KafkasOnZooKeeper
from bench.report import Goal
from bench.sections import Found, Section
from bench.subjects import Subject, in_turn

IDLE_TOPICS, IDLE_PARTITIONS = 30, 100
LED = 1000


def cluster_of(subject: Subject, *, durable: bool, on_zookeeper: bool) -> Cluster:
    """Make a subject's three brokers, not started."""
    if subject.checkout is not None:
        return Headraces(durable, checkout=subject.checkout)
    return KafkasOnZooKeeper(durable) if on_zookeeper else Kafkas(durable)


def _produce(durable: bool) -> Callable[[Sequence[Subject], int], Found]:
    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        """All clusters stay up, warm, and stand still while another one is measured."""
        with ExitStack() as stack:
            clusters = {
                subject.name: stack.enter_context(
                    cluster_of(subject, durable=durable, on_zookeeper=False)
                )
                for subject in subjects
            }
            for cluster in clusters.values():
                replicated.warm_up(cluster)
                cluster.pause()
            for number in range(rounds):
                for subject in in_turn(subjects, number):
                    with clusters[subject.name].awake() as cluster:
                        yield subject.name, replicated.produce(cluster, number)
                        if not durable:  # Kafka flushes fewer than come
                            yield subject.name, replicated.produce_steadily(cluster, number)

    return measure


def _on_zookeeper(
    measure: Callable[[Cluster, int], dict[str, float]],
) -> Callable[[Sequence[Subject], int], Found]:
    """Have each round of each subject measured on a cluster of its own."""

    def run(subjects: Sequence[Subject], rounds: int) -> Iterator[tuple[str, dict[str, float]]]:
        for number in range(rounds):
            for subject in in_turn(subjects, number):
                with cluster_of(subject, durable=False, on_zookeeper=True) as cluster:
                    yield subject.name, measure(cluster, number)

    return run


def _deaths(partitions: int) -> Callable[[Cluster, int], dict[str, float]]:
    def measure(cluster: Cluster, _: int) -> dict[str, float]:
        cluster.create_topic(failover.TOPIC, partitions)
        return failover.deaths(cluster, partitions)

    return measure


def _stop(partitions: int) -> Callable[[Cluster, int], dict[str, float]]:
    def measure(cluster: Cluster, _: int) -> dict[str, float]:
        cluster.create_topic(failover.TOPIC, partitions, [[2, 0, 1]] * partitions)
        return failover.stop(cluster, 2, partitions)

    return measure


def cluster_sections(scale: float) -> list[Section]:
    """Every section of three brokers; `scale`: of their partitions."""
    led, idle_topics = max(int(LED * scale), 1), max(int(IDLE_TOPICS * scale), 1)
    cheap = {f"{load}: CPU-s/GB": Goal(most=0.7) for load in replicated.LOADS}
    return [
        Section(
            "3 brokers, RF 3, acks=all, librdkafka [page cache]",
            _produce(False),
            seconds_max=900,
            goals={
                "100 B: records/s": Goal(least=1),
                "1 KB: records/s": Goal(least=1.5),
                "1 KB, 16 KB batches: records/s": Goal(least=1.5),
                "5,000 msg/s: p99 ms": Goal(most=1),
                **cheap,
            },
        ),
        Section(
            "3 brokers, RF 3, acks=all, librdkafka [flushed]",
            _produce(True),
            seconds_max=900,
            goals={f"{load}: records/s": Goal(least=2) for load in replicated.LOADS} | cheap,
        ),
        Section(
            f"{idle_topics * IDLE_PARTITIONS:,} partitions of 3 replicas at rest",
            _on_zookeeper(
                lambda cluster, _: replicated.idle(cluster, idle_topics, IDLE_PARTITIONS)
            ),
            seconds_max=600,
            rounds_max=1,
            ceilings={"CPU % of a broker": Goal(most=5)},
        ),
        Section(
            f"an empty replica of {replicated.CATCH_UP_PARTITIONS} partitions catches up",
            _on_zookeeper(replicated.catch_up),
            seconds_max=900,
            goals={"MB/s": Goal(least=1)},
        ),
        Section(
            f"a broker of {led:,} partitions dies: end of its registration to an acknowledgement",
            _on_zookeeper(_deaths(led)),
            seconds_max=900,
            rounds_max=1,
            goals={"first ack ms": Goal(most=1), "last ack ms": Goal(most=1)},
            ceilings={"first ack ms": Goal(most=1000)},
        ),
        Section(
            f"a broker that leads {led:,} partitions is stopped",
            _on_zookeeper(_stop(led)),
            seconds_max=600,
            goals={"longest gap ms": Goal(most=1)},
            ceilings={"longest gap ms": Goal(most=1000)},
        ),
    ]
