"""Messages of exchanges for partitions of Kafka topics that another broker leads."""

from collections.abc import Awaitable, Callable
from typing import Any

from headrace.config.log_config import LogConfig
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import Done
from headrace.record.batch import parse_header
from headrace.record.record import sized
from headrace.record.record_parts import Parts
from headrace.testing.sim.cluster import SimCluster
from headrace.vhosts.remote_partition import WAITING_BYTES_MAX, Produced, RemotePartition
from headrace.vhosts.remote_partitions import RemotePartitions
from tests.support.cluster.peer_kit import cut_off, mend, play, started, topic
from tests.support.queues.log import CONFIG
from tests.support.sim.amqp import queue_cluster_of, serve_amqp
from tests.support.sim.cluster import until

HOME, LEADER, OTHER = 0, 1, 2
T0 = TopicPartition("t", 0)
NO_HEADERS = b"\x00"


def parts(*bodies: bytes) -> list[Parts]:
    return [(sized(None), body, NO_HEADERS) for body in bodies]


class Cluster:
    """Leaders whose answers the test gives. Implements `remote_partition.Cluster`."""

    def __init__(self) -> None:
        self.producer_ids = 0
        self.fails = False
        self.asked: list[tuple[Produced, Done[ApiError | None]]] = []
        self.told: list[ApiError | None] = []
        self.partition = RemotePartition(T0, self)

    def config(self, topic: str) -> LogConfig:
        return CONFIG

    def new_producer_id(self, done: Done[int | ApiError]) -> None:
        self.producer_ids += 1
        done(ApiError(ErrorCode.NOT_CONTROLLER) if self.fails else self.producer_ids)

    def now_ms(self) -> int:
        return 0

    def ask(self, produced: Produced, done: Done[ApiError | None]) -> None:
        self.asked.append((produced, done))

    def append(self, *bodies: bytes) -> None:
        self.partition.append(parts(*bodies), 10, self.told.append)

    def sent(self) -> list[tuple[int, int]]:
        """Return the producer id and the sequence of each batch that was sent."""
        headers = [parse_header(memoryview(produced.batch)) for produced, _ in self.asked]
        return [(header.producer_id, header.base_sequence) for header in headers]


def test_batches_of_a_partition_are_sent_one_after_the_other() -> None:
    cluster = Cluster()
    cluster.append(b"1", b"2")
    cluster.append(b"3")
    assert cluster.sent() == [(1, 0)]
    cluster.asked[0][1](None)
    assert (cluster.told, cluster.sent()) == ([None], [(1, 0), (1, 2)])


def test_batch_after_an_error_has_another_producer_id() -> None:
    cluster = Cluster()
    cluster.append(b"1")
    cluster.append(b"2")
    error = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    cluster.asked[0][1](error)
    assert (cluster.told, cluster.sent()) == ([error], [(1, 0), (2, 0)])


def test_batch_without_a_producer_id_is_refused_and_the_next_one_asks_again() -> None:
    cluster = Cluster()
    cluster.fails = True
    cluster.append(b"1")
    assert [isinstance(each, ApiError) for each in cluster.told] == [True]
    cluster.fails = False
    cluster.append(b"2")
    assert cluster.sent() == [(2, 0)]


def test_waiting_bytes_are_counted_until_they_are_stored() -> None:
    cluster = Cluster()
    cluster.partition.append(parts(b"1"), WAITING_BYTES_MAX + 1, cluster.told.append)
    assert cluster.partition.is_full
    cluster.asked[0][1](None)
    assert not cluster.partition.is_full


def elsewhere(cluster: SimCluster, number: int) -> RemotePartitions:
    found = queue_cluster_of(cluster.brokers[number])._topics_elsewhere
    assert found is not None
    return found


def played(story: Callable[[SimCluster, RemotePartition, list[Any]], Awaitable[None]]) -> None:
    async def whole(cluster: SimCluster) -> None:
        serve_amqp(cluster)
        await started(cluster, HOME, LEADER, OTHER)
        await topic(cluster, LEADER, OTHER)
        await until(lambda: "t" in cluster.brokers[HOME].broker.image.topics)
        await story(cluster, elsewhere(cluster, HOME).partition("t", 0), [])

    play(whole)


def stored(cluster: SimCluster, number: int) -> int:
    """Return the number of records of the partition."""
    return cluster.brokers[number].broker.partition("t", 0).high_watermark


def test_batch_is_stored_by_the_partition_leader() -> None:
    async def story(cluster: SimCluster, partition: RemotePartition, told: list[Any]) -> None:
        partition.append(parts(b"1", b"2"), 10, told.append)
        partition.append(parts(b"3"), 10, told.append)
        await until(lambda: told == [None, None])
        assert stored(cluster, LEADER) == 3

    played(story)


def test_batch_is_stored_once_by_the_next_leader() -> None:
    async def story(cluster: SimCluster, partition: RemotePartition, told: list[Any]) -> None:
        partition.append(parts(b"1"), 10, told.append)
        await until(lambda: told == [None])
        partition.append(parts(b"2", b"3"), 10, told.append)
        cluster.kill(LEADER)
        partition.append(parts(b"4"), 10, told.append)
        await until(lambda: told == [None] * 3)
        await until(lambda: stored(cluster, OTHER) == 4)

    played(story)


def test_batch_whose_answer_is_lost_is_stored_once() -> None:
    async def story(cluster: SimCluster, partition: RemotePartition, told: list[Any]) -> None:
        partition.append(parts(b"1"), 10, told.append)
        await until(lambda: stored(cluster, LEADER) == 1)
        cut_off(cluster, HOME, LEADER)
        partition.append(parts(b"2"), 10, told.append)
        mend(cluster, HOME, LEADER)
        await until(lambda: told == [None, None])
        assert stored(cluster, LEADER) == 2

    played(story)
