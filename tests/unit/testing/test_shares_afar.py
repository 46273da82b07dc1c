"""Share groups whose coordinator, state and partitions are with different brokers."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.client.admin.topics import alter_configs, create_topic
from headrace.client.client import Client
from headrace.client.producer.producer import Producer
from headrace.coordination.share.keys import ShareKey
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, SHARE_STATE_TOPIC, BrokerId, TopicPartition
from headrace.shards.group_partition import partition_for
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop
from headrace.testing.sim.world import WALL_MS
from tests.support.sim.cluster import until
from tests.support.sim.share import ACCEPT, GROUP_RESOURCE, RELEASE, Held, SimShareMember

BROKERS = (1, 2, 3)
TOPIC = "work"
PARTS = 3
REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "replica.fetch.backoff.ms": "500",
}


class Place:
    """A group coordinated by broker 1, of which broker 2 keeps the state of partition `index`,
    which broker 3 leads."""

    def __init__(self, cluster: SimCluster, client: Client) -> None:
        self.cluster = cluster
        self.client = client
        image = cluster.controller().broker.image
        topic = image.topics[TOPIC]
        self.index = next(part.index for part in topic.partitions if part.leader == 3)
        for number in range(1000):
            self.group = f"g{number}"
            self.key = ShareKey(self.group, topic.topic_id, self.index)
            if self.coordinator() == 1 and self.keeper() == 2:
                break
        self.member = self.new_member("one")

    def new_member(self, name: str) -> SimShareMember:
        client = self.cluster.client(f"member-{name}")
        client.retry_seconds = 60.0
        return SimShareMember(client, self.group, name, TOPIC)

    def leader(self, topic: str, index: int) -> BrokerId:
        image = self.cluster.controller().broker.image
        return image.leader_of(TopicPartition(topic, index))

    def coordinator(self) -> BrokerId:
        return self.leader(OFFSETS_TOPIC, partition_for(self.group, PARTS))

    @property
    def state_index(self) -> int:
        return partition_for(self.key.coordinated_by, PARTS)

    def keeper(self) -> BrokerId:
        return self.leader(SHARE_STATE_TOPIC, self.state_index)

    async def join(self) -> None:
        """Be in the group, with the partition."""
        await alter_configs(
            self.client, GROUP_RESOURCE, self.group, set_={"share.auto.offset.reset": "earliest"}
        )
        await until_assigned(self.member, lambda: self.index in self.member.assigned)
        self.member.assigned = frozenset({self.index})

    async def write(self, count: int) -> None:
        producer = Producer(self.client)
        for _ in range(count):
            await producer.send(TOPIC, b"v", timestamp=WALL_MS, partition=self.index)
            await producer.flush()

    async def take(self, count: int) -> list[Held]:
        """Fetch until that many records are the member's."""
        held: list[Held] = []
        for _ in range(300):
            try:
                held += await self.member.fetch()
            except ApiError:
                await asyncio.sleep(0.05)
            if len(held) >= count:
                break
        assert len(held) == count
        return held

    async def accept(self, held: list[Held]) -> None:
        assert await self.member.acknowledge(held, ACCEPT) == held

    async def none_left(self, seconds: float = 5.0) -> None:
        """Nothing is handed out for so long."""
        until = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until:
            assert await self.member.fetch() == []


async def until_assigned(member: SimShareMember, holds: Callable[[], bool]) -> None:
    for _ in range(600):
        await member.beat()
        if holds():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{member.assigned} after 60 s")


def play(story: Callable[[Place], Coroutine[Any, Any, None]], seed: int = 1, **more: str) -> None:
    loop = SimLoop(seed)
    settings = REPLICATED | {name.replace("_", "."): value for name, value in more.items()}
    cluster = SimCluster(loop, seed, settings)

    async def whole() -> None:
        await asyncio.gather(*(cluster.start(number) for number in BROKERS))
        client = cluster.client("client")
        while len((await client.metadata([])).brokers) < len(BROKERS):  # noqa: ASYNC110 - so soon
            await asyncio.sleep(0.01)
        await create_topic(client, TOPIC, partitions=PARTS, replication_factor=3)
        for name in (OFFSETS_TOPIC, SHARE_STATE_TOPIC):
            await cluster.controller().ensure_internal_topic(name)
        await client.leaders([TOPIC])
        await asyncio.sleep(3)
        await story(Place(cluster, client))
        client.close()
        for number in sorted(cluster.brokers):
            await cluster.stop(number)

    loop.play(whole())


def test_a_group_its_state_and_its_records_may_be_with_three_brokers() -> None:
    async def story(place: Place) -> None:
        await place.join()
        await place.write(4)
        held = await place.take(4)
        await place.accept(held[:2])
        assert await place.member.acknowledge(held[2:], RELEASE) == held[2:]
        again = await place.take(2)
        assert [(one.offset, one.tries) for one in again] == [(2, 2), (3, 2)]
        await place.accept(again)
        await place.none_left()
        kept = place.cluster.brokers[2].coordinators.share.states.led.at(place.state_index)
        assert kept is not None
        state = kept.read(place.key)
        assert state is not None
        assert state.known.start == 4

    play(story)


def test_how_far_a_group_lags_is_known_where_another_broker_leads() -> None:
    async def story(place: Place) -> None:
        await place.join()
        await place.write(5)
        await place.accept(await place.take(5))
        await place.write(3)
        told: list[Any] = []
        share = place.cluster.brokers[1].coordinators.share
        for _ in range(100):  # what was accepted is on its way to who keeps it
            told.clear()
            share.describe_offsets(place.group, [(TOPIC, [place.index])], told.append)
            await asyncio.sleep(1)
            ((seen,),) = [topic.partitions for topic in told[0]]
            if seen.start == 5:
                break
        assert (seen.start, seen.lag) == (5, 3)

    play(story)


@pytest.mark.parametrize("number", BROKERS, ids=["coordinator", "keeper", "leader"])
@pytest.mark.parametrize("way", ["stops", "dies"])
def test_what_was_accepted_stays_so_when_one_of_the_three_is_gone(number: int, way: str) -> None:
    async def story(place: Place) -> None:
        cluster = place.cluster
        await place.join()
        await place.write(6)
        held = await place.take(6)
        await place.accept(held[:3])
        if way == "stops":
            await cluster.stop(number)
        else:
            await cluster.cut_power(number)
        await until_assigned(place.member, lambda: place.member.epoch > 0)
        if number == 3:
            # Locks are known to the leader alone: what was out is handed out anew.
            again = await place.take(3)
            assert [one.offset for one in again] == [3, 4, 5]
            await place.accept(again)
        else:
            await place.accept(held[3:])
        await place.write(2)
        last = await place.take(2)
        assert [one.offset for one in last] == [6, 7]
        await place.accept(last)
        await cluster.start(number)
        await asyncio.sleep(3)
        for topic in (TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC):
            await cluster.elect(topic)
        assert (place.coordinator(), place.keeper()) == (1, 2)
        await place.none_left(40)

    play(story)


def test_what_a_lost_answer_was_about_is_asked_again_and_done_once() -> None:
    async def story(place: Place) -> None:
        await place.join()
        await place.write(2)
        held = await place.take(2)
        network = place.cluster.network
        network.cut("broker-2", "broker-3")
        accepted = asyncio.create_task(place.member.acknowledge(held, ACCEPT))
        await asyncio.sleep(1)
        network.break_links("broker-2", "broker-3")
        network.mend("broker-2", "broker-3")
        assert await accepted == held
        await place.none_left(40)

    play(story)


def test_a_leader_that_was_deposed_settles_nothing_that_its_successor_does_not_know() -> None:
    async def story(place: Place) -> None:
        await place.join()
        await place.write(2)
        held = await place.take(2)
        share = place.cluster.brokers[3].coordinators.share
        found = share.partitions.known(place.key)
        assert found is not None
        deposed = found.partition.leader_epoch
        # Its successor has read the state under a later epoch, though it has not heard of that.
        read: list[Any] = []
        assert share._cluster_states is not None
        share._cluster_states.read(place.key, deposed + 1, read.append)
        await until(lambda: bool(read))
        assert await place.member.acknowledge(held, ACCEPT) == []
        assert found.error is not None
        assert found.error.code is ErrorCode.FENCED_LEADER_EPOCH

    play(story)
