"""Followers of real leaders: what they fetch, where they begin, and what holds them up."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.broker.replica.follower import Follower
from headrace.client.client import Client
from headrace.client.producer.producer import Producer
from headrace.cluster.decisions.orders import Follow, Lead, Orders, Replication
from headrace.cluster.topics.creation import NewTopic
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset, TopicPartition
from headrace.record.compression import CorruptBatch
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop
from headrace.testing.sim.replica_watch import bytes_of
from headrace.testing.sim.world import WALL_MS
from tests.support.sim.cluster import until

LEADER, FOLLOWER = BrokerId(1), BrokerId(2)


class Pair:
    """A leader and a follower of topic "t", and a client."""

    def __init__(self, cluster: SimCluster, client: Client) -> None:
        self.cluster = cluster
        self.client = client

    def led(self, index: int = 0) -> Partition:
        return self.cluster.brokers[LEADER].broker.partition("t", index)

    def followed(self, index: int = 0) -> Partition:
        return self.cluster.brokers[FOLLOWER].broker.followed["t", index]

    def in_sync(self) -> frozenset[BrokerId]:
        term = self.led().role.term
        return frozenset() if term is None else term.in_sync

    async def write(self, *values: bytes, index: int = 0, client: Client | None = None) -> None:
        producer = Producer(client or self.client, idempotent=False)
        for value in values:
            await producer.send("t", value, timestamp=WALL_MS, partition=index)
            await producer.flush()

    async def equal(self, index: int = 0) -> None:
        """Wait until the follower has what the leader has, and knows that it is committed."""
        await until(lambda: self._are_equal(index))
        assert bytes_of(self.followed(index).log) == bytes_of(self.led(index).log)

    def _are_equal(self, index: int) -> bool:
        led, followed = self.led(index).log, self.followed(index).log
        ends = {led.end_offset, followed.end_offset, led.high_watermark, followed.high_watermark}
        return len(ends) == 1 and led.start_offset == followed.start_offset


def play(
    story: Callable[[Pair], Coroutine[Any, Any, None]],
    partitions: int = 1,
    settings: dict[str, str] | None = None,
) -> None:
    loop = SimLoop(1)
    cluster = SimCluster(loop, 1, settings)

    async def whole() -> None:
        for number in (LEADER, FOLLOWER):
            await cluster.start(number)
        await until(lambda: len(cluster.brokers[LEADER].broker.image.brokers) == 2)
        assigned = dict.fromkeys(range(partitions), (LEADER, FOLLOWER))
        config = {"min.insync.replicas": "1"}
        await cluster.controller().create_topics(
            [NewTopic("t", assignment=assigned, config=config)]
        )
        pair = Pair(cluster, cluster.client("client"))
        await story(pair)
        pair.client.close()
        for left in sorted(cluster.brokers):
            await cluster.stop(left)

    loop.play(whole())


def test_a_follower_has_its_leaders_bytes_and_high_watermark() -> None:
    async def story(pair: Pair) -> None:
        await pair.write(b"1", b"2", b"3")
        await pair.equal()
        assert pair.followed().log.high_watermark == 3
        assert pair.followed().log.epochs.entries == pair.led().log.epochs.entries

    play(story)


def test_acknowledgements_of_all_take_a_few_flushes_and_no_long_wait() -> None:
    """A follower's next fetch waits for its flush: it does not leave its leader waiting."""

    async def story(pair: Pair) -> None:
        await pair.write(b"first")
        loop = asyncio.get_running_loop()
        began = loop.time()
        await pair.write(*(b"%d" % number for number in range(20)))
        assert loop.time() - began < 20 * 0.015

    play(story, 2)  # the other partition is idle


def test_a_follower_in_a_new_epoch_of_the_same_leader_is_told_the_high_watermark() -> None:
    """Though its leader has told it before, and nothing is new."""

    async def story(pair: Pair) -> None:
        await pair.write(b"1", b"2")
        await pair.equal()
        brokers = (LEADER, FOLLOWER)
        again = Replication(
            TopicPartition("t", 0), pair.led().topic_id, LEADER, LeaderEpoch(5), brokers, brokers, 9
        )
        for number, order in ((LEADER, Lead(again)), (FOLLOWER, Follow(again))):
            applier = pair.cluster.brokers[number].controller.applier
            await applier.take(Orders(applier.controller_epoch, -1, [order]))
        follower = pair.followed().role.follower
        assert follower is not None
        assert follower.leader_high_watermark == 0
        await until(lambda: follower.leader_high_watermark == 2)

    play(story, 2)


def test_a_leaders_start_is_its_followers() -> None:
    async def story(pair: Pair) -> None:
        await pair.write(*(b"%d" % number for number in range(5)))
        await pair.equal()
        pair.led().delete_records(3)
        await until(lambda: pair.followed().log.start_offset == 3)

    play(story)


def test_a_follower_below_its_leaders_start_begins_anew_there() -> None:
    async def story(pair: Pair) -> None:
        await pair.write(b"1")
        await pair.equal()
        await pair.cluster.stop(FOLLOWER)
        await until(lambda: pair.in_sync() == {LEADER})
        await pair.write(*(b"%d" % number for number in range(5)))
        pair.led().delete_records(4)
        pair.led().log.roll()
        pair.cluster.brokers[LEADER].broker.directories[0].apply_retention()
        await pair.cluster.start(FOLLOWER)
        await until(lambda: ("t", 0) in pair.cluster.brokers[FOLLOWER].broker.followed)
        await until(lambda: pair.followed().log.high_watermark == 6)
        log = pair.followed().log
        assert (log.start_offset, log.truncations) == (4, 1)
        await pair.write(b"more")
        await until(lambda: log.high_watermark == 7)

    play(story)


def test_a_leader_that_has_forgotten_the_session_is_told_everything() -> None:
    async def story(pair: Pair) -> None:
        await pair.write(b"1")
        await pair.equal()
        sessions = pair.cluster.brokers[LEADER].dispatcher.shared.fetch_sessions
        (session_id,) = sessions._followers
        sessions.close(session_id, FOLLOWER)
        await pair.write(b"2")
        await pair.equal()
        assert len(sessions) == 1

    play(story)


def test_a_directory_that_flushes_slowly_holds_up_no_other() -> None:
    async def story(pair: Pair) -> None:
        await pair.write(b"1", index=0)
        await pair.write(b"1", index=1)
        directories = pair.cluster.brokers[FOLLOWER].broker.directories
        (slow,) = [at for at in directories if TopicPartition("t", 0) in at.logs]
        assert TopicPartition("t", 1) not in slow.logs
        flush, loop = slow.flusher.strategy, asyncio.get_running_loop()

        def slowly_flush(*args: Any) -> None:
            loop.call_later(1, flush, *args)

        slow.flusher.strategy = slowly_flush
        other = pair.cluster.client("other")
        wrote = loop.time()
        slowly = asyncio.create_task(pair.write(b"2", index=0, client=other))
        await asyncio.sleep(0.05)
        began = loop.time()
        for number in range(10):
            await pair.write(b"%d" % number, index=1)
        assert loop.time() - began < 0.5
        assert not slowly.done()
        await slowly
        assert loop.time() - wrote < 1.1  # as soon as it is flushed
        other.close()

    play(story, 2, {"log.dirs": "/data,/more"})


def test_a_follower_whose_directory_failed_is_followed_no_longer_and_others_are() -> None:
    async def story(pair: Pair) -> None:
        for index in range(2):
            await pair.write(b"1", index=index)
            await pair.equal(index)
        broker = pair.cluster.brokers[FOLLOWER].broker
        (failing,) = [at for at in broker.directories if TopicPartition("t", 0) in at.logs]
        failing.context.fail(OSError(5, "Input/output error"), failing.path)
        await pair.write(b"2", index=1)
        await pair.equal(1)
        assert pair.followed(0).role.closed
        await pair.write(b"2", index=0)  # acknowledged once the other has left the ISR
        assert pair.followed(0).log.end_offset == 1

    play(story, 2, {"log.dirs": "/data,/more"})


def test_what_arrives_damaged_is_asked_for_again_and_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    append, left = Follower.append, [4]

    def damaged(self: Follower, data: memoryview, mark: Offset, now_ms: int) -> Offset:
        if data and left[0]:
            left[0] -= 1
            raise CorruptBatch("the batch at byte 0 of what was fetched is damaged")
        return append(self, data, mark, now_ms)

    monkeypatch.setattr(Follower, "append", damaged)

    async def story(pair: Pair) -> None:
        began = asyncio.get_running_loop().time()
        await pair.write(b"1")
        await pair.equal()
        assert left == [0]
        assert asyncio.get_running_loop().time() - began > 0.05 + 0.1 + 0.2 + 0.4

    with caplog.at_level(logging.WARNING, "headrace.replication"):
        play(story)
    told = [record.getMessage() for record in caplog.records if "damaged" in record.getMessage()]
    assert len(told) == 1
    assert "t-0" in told[0]


def test_a_broker_that_is_not_registered_now_says_so_once_and_follows_again_when_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(pair: Pair) -> None:
        await pair.write(b"before")
        await pair.equal()
        for _ in range(2):
            image = pair.cluster.brokers[LEADER].broker.image
            registered, image.brokers = image.brokers, {}
            await asyncio.sleep(5.0)
            image.brokers = registered
            await pair.write(b"after")
            for index in range(3):
                await pair.equal(index)

    play(story, partitions=3)
    said = [
        one.getMessage()
        for one in caplog.records
        if one.name == "headrace.replication.fetch_responses"
    ]
    assert len(said) == 2, said
    assert "does not know this broker's present registration" in said[0]
    assert "Fetches resume after the next session" in said[0]
