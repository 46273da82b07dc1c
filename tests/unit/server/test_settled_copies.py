"""Settled positions of a queue are copied between the brokers of a cluster, over its network."""

import asyncio

from headrace.cluster.topics.creation import NewTopic
from headrace.log.text_files import read_file
from headrace.model.errors import HeadraceError
from headrace.model.invariant import InvariantError
from headrace.model.nouns import BrokerId
from headrace.queue_stores.log.log_messages import LogMessages
from headrace.queue_stores.log.settled_files import settled_path
from headrace.queue_stores.queue_settings import Published
from headrace.queues.queue_names import queue_topic
from headrace.server.cluster.settled_copies import SettledCopies
from headrace.testing.sim.cluster import SimCluster
from tests.support.log.log import batch_of
from tests.support.queues.log import message
from tests.support.sim.cluster import Story, until
from tests.support.sim.cluster import play as sim_play

TOPIC = queue_topic("/", "q")
BROKERS = (1, 2, 3)
LEADER = 2


class Hosted:
    """The store of a queue on the broker that leads it. Implements `StoreListener`."""

    def __init__(self, cluster: SimCluster, number: int) -> None:
        self.broker = cluster.brokers[number].broker
        self.partition = self.broker.partition(TOPIC, 0)
        self.confirmed_to = 0
        self.loaded: list[HeadraceError | None] = []
        copies = copies_of(cluster, number)
        self.store = LogMessages(
            self.partition, copies.files, self.broker.clock, self, copies=copies.copying
        )

    async def load(self) -> None:
        self.store.load(self.loaded.append)
        await until(lambda: self.loaded == [None])

    async def publish(self, *bodies: str) -> None:
        for body in bodies:
            self.store.append(Published(message(body), 0, None, True), None)
        await until(lambda: self.confirmed_to == self.store.end)

    async def take(self, position: int) -> str:
        """Deliver the message at a position, the next one."""
        await until(lambda: self.store.read(position, 1)[0])
        _, (found,) = self.store.read(position, 1)
        self.store.note_handed_out(position + 1)
        return found.body.decode()

    async def settle(self, position: int) -> None:
        """Acknowledge a message, and wait until all in-sync replicas have that."""
        self.store.settle([position])
        await until(lambda: self.store.settled().durably > position)

    def appended(self) -> None:
        """Note nothing: the turn's end writes."""

    def broke(self, error: InvariantError) -> None:
        raise error

    def confirmed(self, upto: int) -> None:
        self.confirmed_to = upto

    def readable(self) -> None:
        """Note nothing: the test reads again."""

    def arrived(self, count: int, size: int) -> None:
        """Note nothing: no Kafka producer writes to the queue."""

    def note_held(self, size: int) -> None:
        """Note nothing: no publisher is paused."""

    def failed(self, error: HeadraceError) -> None:
        """Note nothing: the broker is killed."""


def copies_of(cluster: SimCluster, number: int) -> SettledCopies:
    links = cluster.brokers[number].cluster_links
    assert links is not None
    return links.settled_copies


def in_sync(hosted: Hosted) -> frozenset[BrokerId]:
    term = hosted.partition.role.term
    return frozenset() if term is None else term.in_sync


def file_of(cluster: SimCluster, number: int) -> bytes | None:
    broker = cluster.brokers[number].broker
    at = (TOPIC, 0)
    partition = broker.partitions.get(at) or broker.followed.get(at)
    assert partition is not None
    return read_file(broker.disk, settled_path(partition.log.directory))


def play(story: Story) -> None:
    """Play with three brokers, of which 2 leads the queue's partition."""

    async def whole(cluster: SimCluster) -> None:
        for number in BROKERS:
            await cluster.start(number)
        await until(lambda: len(cluster.brokers[1].broker.image.brokers) == len(BROKERS))
        replicas = tuple(BrokerId(number) for number in (LEADER, 1, 3))
        await cluster.controller().create_topics([NewTopic(TOPIC, assignment={0: replicas})])
        await until(lambda: (TOPIC, 0) in cluster.brokers[LEADER].broker.partitions)
        followers = [cluster.brokers[number].broker for number in (1, 3)]
        await until(lambda: all((TOPIC, 0) in broker.followed for broker in followers))
        await story(cluster)

    sim_play(whole)


def test_next_leader_has_what_was_settled_and_copied() -> None:
    async def story(cluster: SimCluster) -> None:
        first = Hosted(cluster, LEADER)
        await first.load()
        await first.publish(*"abc")
        assert await first.take(0) == "a"
        assert await first.take(1) == "b"
        await first.settle(0)
        assert file_of(cluster, 1) == file_of(cluster, 3) == file_of(cluster, LEADER)
        cluster.kill(LEADER)
        alive = {number: cluster.brokers[number].broker for number in (1, 3)}
        await until(lambda: any((TOPIC, 0) in each.partitions for each in alive.values()))
        (number,) = (at for at, each in alive.items() if (TOPIC, 0) in each.partitions)
        second = Hosted(cluster, number)
        await second.load()
        kept = second.store.kept()
        assert (kept.start, kept.ready) == (1, 2)
        assert kept.handed_out >= 2, "b is redelivered"
        assert await second.take(1) == "b"

    play(story)


def test_restarted_replica_joins_with_the_frames_that_it_lacks() -> None:
    async def story(cluster: SimCluster) -> None:
        here = Hosted(cluster, LEADER)
        await here.load()
        await here.publish(*"abc")
        assert await here.take(0) == "a"
        cluster.kill(3)
        await until(lambda: BrokerId(3) not in in_sync(here))
        await here.settle(0)
        may_join, here.partition.may_join = here.partition.may_join, lambda broker: False
        await cluster.start_again(3)
        await asyncio.sleep(5)
        assert BrokerId(3) not in in_sync(here), "its log is complete, and it may not join"
        here.partition.may_join = may_join
        await until(lambda: BrokerId(3) in in_sync(here))
        assert file_of(cluster, 3) == file_of(cluster, LEADER)

    play(story)


def test_replica_of_a_queue_that_is_not_loaded_does_not_join() -> None:
    async def story(cluster: SimCluster) -> None:
        cluster.kill(3)
        leader = cluster.brokers[LEADER].broker.partition(TOPIC, 0)
        leader.append_internal(batch_of(b"x"))

        def joined() -> bool:
            """Whether the replica is in the ISR of the leader's present term."""
            return leader.role.term is not None and BrokerId(3) in leader.role.term.in_sync

        await until(lambda: not joined())
        await cluster.start_again(3)
        await asyncio.sleep(5)
        assert not joined()
        here = Hosted(cluster, LEADER)
        await here.load()
        await until(lambda: BrokerId(3) in in_sync(here))

    play(story)
