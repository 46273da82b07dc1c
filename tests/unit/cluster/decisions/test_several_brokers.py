"""Brokers that share a store: one decides, the others take its orders, the next takes over."""

import asyncio
from typing import Any

import pytest

from headrace.cluster.decisions.events import ElectionAsked, ElectionType
from headrace.cluster.decisions.orders import Follow, Lead, Orders, Replication, Stop
from headrace.cluster.store import znodes
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.ensemble import SESSION_SECONDS
from tests.support.sim.cluster import play, until

ZERO, ONE, TWO = (BrokerId(one) for one in range(3))


async def started(cluster: SimCluster, *numbers: int) -> None:
    for number in numbers:
        await cluster.start(number)
    there = set(cluster.brokers)
    await until(
        lambda: all(
            set(server.broker.image.brokers) == there and server.controller.applier.controller_epoch
            for server in cluster.brokers.values()
        )
    )


def test_the_first_broker_decides_and_the_others_lead_what_it_orders() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1, 2)
        servers = cluster.brokers
        assert [servers[one].controller.is_controller for one in range(3)] == [True, False, False]
        await cluster.controller().create_topics([NewTopic("t", 6, 1)])
        for server in servers.values():
            image = server.broker.image
            assert image.controller_id == ZERO
            assert set(image.brokers) == {ZERO, ONE, TWO}
            leaders = [partition.leader for partition in image.topics["t"].partitions]
            led = {(name, index) for name, index in server.broker.partitions if name == "t"}
            assert sorted(leaders) == [0, 0, 1, 1, 2, 2]
            assert led == {
                ("t", index) for index, leader in enumerate(leaders)
                if leader == server.broker.broker_id
            }  # fmt: skip
        assert await cluster.controller().delete_topics(["t"]) == {"t": None}
        for server in servers.values():
            assert "t" not in server.broker.image.topics
            assert not list(server.broker.logs())

    play(story)


def test_who_is_not_the_controller_says_so() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        other = cluster.brokers[1].controller
        (refused,) = await other.create_topics([NewTopic("t", 1, 1)])
        assert isinstance(refused, ApiError)
        assert refused.code is ErrorCode.NOT_CONTROLLER
        gone = (await other.delete_topics(["t"]))["t"]
        assert gone is not None
        assert gone.code is ErrorCode.NOT_CONTROLLER
        with pytest.raises(ApiError, match="NOT_CONTROLLER"):
            await other.create_partitions("t", 2)

    play(story)


def test_leadership_goes_to_another_in_sync_when_a_broker_stops_and_back_when_asked() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        await cluster.controller().create_topics([NewTopic("t", assignment={0: (1, 0)})])
        broker = cluster.brokers[0].broker
        assert ("t", 0) not in broker.partitions
        assert ("t", 0) in broker.followed
        await cluster.stop(1)
        await until(lambda: ("t", 0) in broker.partitions)
        (shown,) = broker.image.topics["t"].partitions
        assert (shown.leader, shown.isr, shown.leader_epoch) == (ZERO, (ZERO,), 1)
        await until(lambda: set(broker.image.brokers) == {ZERO})
        await started(cluster, 1)
        led = broker.partitions["t", 0]
        await until(lambda: led.role.term is not None and ONE in led.role.term.in_sync)
        result = await cluster.controller().carry_out(
            ElectionAsked(ElectionType.PREFERRED, [TopicPartition("t", 0)])
        )
        assert result.refused == {}
        await until(lambda: ("t", 0) in cluster.brokers[1].broker.partitions)
        assert ("t", 0) in broker.followed

    play(story)


def test_the_next_controller_takes_the_one_that_died_out_of_the_isrs_it_was_a_follower_in() -> None:
    """Though it led nothing, and may lag for long: acks=all would wait for a dead broker."""

    async def story(cluster: SimCluster) -> None:
        cluster.configure({"replica.lag.time.max.ms": "600000"})
        await started(cluster, 0, 1, 2)
        assert cluster.brokers[0].controller.is_controller
        assigned = {0: (ONE, ZERO, TWO), 1: (TWO, ONE, ZERO)}
        await cluster.controller().create_topics([NewTopic("t", assignment=assigned)])
        cluster.kill(0)
        image = cluster.brokers[1].broker.image
        wanted = [(ONE, TWO), (TWO, ONE)]
        await until(lambda: [shown.isr for shown in image.topics["t"].partitions] == wanted)

    play(story)


def test_a_replica_without_its_log_leads_nothing_and_the_isr_stays() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        await cluster.controller().create_topics([NewTopic("t", assignment={0: (1, 0)})])
        await cluster.stop(1)
        await until(lambda: ("t", 0) in cluster.brokers[0].broker.partitions)
        await cluster.stop(0)
        del cluster.worlds[0]  # its disk is replaced by an empty one
        await started(cluster, 1, 0)
        image = cluster.brokers[0].broker.image
        await until(
            lambda: (
                "t" in image.topics
                and set(image.brokers) == {ZERO, ONE}
                and image.topics["t"].partitions[0].leader == -1
            )
        )
        assert image.topics["t"].partitions[0].isr == (ZERO,)
        assert not list(cluster.brokers[0].broker.logs())

    play(story)


def test_another_broker_takes_over_when_the_controller_stops() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        await cluster.controller().create_topics([NewTopic("t", 2, 1)])
        await cluster.stop(0)
        heir = cluster.brokers[1]
        await until(lambda: heir.controller.is_controller)
        await until(lambda: heir.broker.image.controller_id == ONE)
        partitions = heir.broker.image.topics["t"].partitions
        assert sorted(partition.leader for partition in partitions) == [-1, 1]
        (made,) = await heir.controller.create_topics([NewTopic("u", 1, 1)])
        assert not isinstance(made, ApiError)
        await started(cluster, 0)
        back = cluster.brokers[0].broker
        await until(lambda: "t" in back.image.topics)
        assert back.image.controller_id == ONE
        await until(lambda: len([key for key in back.partitions if key[0] == "t"]) == 1)

    play(story)


def test_a_controller_whose_session_has_expired_decides_nothing_until_elected_again() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        first, second = cluster.brokers[0], cluster.brokers[1]
        session: Any = first.controller._store
        cluster.ensemble.expire(session)
        assert not first.controller.is_controller
        await until(lambda: first.controller.is_controller != second.controller.is_controller)
        path = znodes.broker_path(ZERO)
        await until(lambda: ZERO in cluster.controller().broker.image.brokers)
        node = await second.controller._store.get(path)
        assert node.owner == session.session
        assert first.controller.applier.broker_epoch == node.created

    play(story)


def test_a_controller_that_is_cut_off_resigns_at_once_and_goes_on_when_it_is_back() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        first, second = cluster.brokers[0], cluster.brokers[1]
        session: Any = first.controller._store
        epoch = first.controller.applier.broker_epoch
        cluster.ensemble.cut_off(session)
        assert not first.controller.is_controller
        await asyncio.sleep(SESSION_SECONDS / 2)
        assert not second.controller.is_controller
        cluster.ensemble.reach_again(session)
        await until(lambda: first.controller.is_controller)
        assert first.controller.applier.broker_epoch == epoch
        (made,) = await first.controller.create_topics([NewTopic("t", 1, 1)])
        assert not isinstance(made, ApiError)

    play(story)


def test_a_controller_that_is_cut_off_for_too_long_finds_another_and_registers_anew() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        first, second = cluster.brokers[0], cluster.brokers[1]
        session: Any = first.controller._store
        epoch = first.controller.applier.broker_epoch
        cluster.ensemble.cut_off(session)
        await until(lambda: second.controller.is_controller)
        assert not first.controller.is_controller
        cluster.ensemble.reach_again(session)
        await until(lambda: first.controller.applier.broker_epoch > epoch)
        await until(lambda: ZERO in second.broker.image.brokers)
        assert second.controller.is_controller
        assert not first.controller.is_controller

    play(story)


def replication(epoch: int, *, is_new: bool = True) -> Replication:
    key = TopicPartition("t", 0)
    return Replication(key, b"i" * 16, ZERO, LeaderEpoch(epoch), (ZERO,), (ZERO,), 0, is_new)


def test_orders_of_former_controllers_registrations_and_leaders_are_refused() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0)
        server = cluster.brokers[0]
        take, key = server.controller.applier.take, TopicPartition("t", 0)
        now, mine = 7, server.controller.applier.broker_epoch
        assert await take(Orders(now, mine, [Lead(replication(4))])) == {}
        assert server.broker.partition("t", 0).leader_epoch == 4
        with pytest.raises(ApiError, match="STALE_CONTROLLER_EPOCH"):
            await take(Orders(now - 1, mine, [Lead(replication(5))]))
        with pytest.raises(ApiError, match="STALE_BROKER_EPOCH"):
            await take(Orders(now, mine - 1, [Lead(replication(5))]))
        for order in (
            Lead(replication(3)),
            Follow(replication(3)),
            Stop(key, b"", LeaderEpoch(3), True),
        ):
            assert await take(Orders(now, mine, [order])) == {key: ErrorCode.FENCED_LEADER_EPOCH}
        assert server.broker.partition("t", 0).leader_epoch == 4
        led = server.broker.partition("t", 0)
        assert await take(Orders(now, mine, [Lead(replication(6))])) == {}
        assert server.broker.partition("t", 0) is led
        assert led.leader_epoch == 6
        assert await take(Orders(now, mine, [Follow(replication(7))])) == {}
        assert led.refusal is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [log.topic_partition for log in server.broker.logs()] == [key]
        assert await take(Orders(now, mine, [Stop(key, b"", LeaderEpoch(8), True)])) == {}
        assert not list(server.broker.logs())

    play(story)


def test_a_lost_log_is_not_led_as_if_it_were_empty() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0)
        applier = cluster.brokers[0].controller.applier
        order = Lead(replication(4, is_new=False))
        failed = await applier.take(Orders(7, applier.broker_epoch, [order]))
        assert failed == {TopicPartition("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}
        assert not list(cluster.brokers[0].broker.logs())

    play(story)


def test_a_change_that_is_heard_of_while_the_store_fails_is_looked_at() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        world = cluster.worlds[1]
        world.expire()
        world.lose_touch()  # while it registers anew
        await asyncio.sleep(10)
        assert set(cluster.brokers[0].broker.image.brokers) == {ZERO}
        world.regain_touch()
        await until(lambda: ONE in cluster.brokers[0].broker.image.brokers)

    play(story)


def test_restarted_leader_leads_another_topic_of_the_name_from_its_first_epoch() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0)
        await cluster.controller().create_topics([NewTopic("t", 1, 1)])
        await asyncio.sleep(0.1)  # its log is on the disk
        await cluster.cut_power(0)
        await started(cluster, 0)
        broker = cluster.brokers[0].broker
        await until(lambda: ("t", 0) in broker.partitions)
        await cluster.controller().delete_topics(["t"])
        (made,) = await cluster.controller().create_topics([NewTopic("t", 1, 1)])
        assert not isinstance(made, ApiError), made
        assert broker.partition("t", 0).leader_epoch == 0

    play(story)


def test_a_leader_that_was_restarted_before_anybody_noticed_begins_another_epoch() -> None:
    """What it had not flushed is lost, and followers may have it: under the former epoch it would
    give the same offsets again, and nobody could tell the records apart."""

    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0)
        await cluster.controller().create_topics([NewTopic("t", 2, 1)])
        epochs = [cluster.brokers[0].broker.partition("t", index).leader_epoch for index in (0, 1)]
        await asyncio.sleep(0.1)  # its logs are on the disk
        await cluster.cut_power(0)  # and with it the only controller
        await started(cluster, 0)
        broker = cluster.brokers[0].broker
        await until(lambda: ("t", 0) in broker.partitions and ("t", 1) in broker.partitions)
        assert [broker.partition("t", index).leader_epoch for index in (0, 1)] == [
            epoch + 1 for epoch in epochs
        ]
        shown = broker.image.topics["t"].partitions
        assert [(partition.leader, partition.leader_epoch) for partition in shown] == [
            (ZERO, 1), (ZERO, 1),
        ]  # fmt: skip

    play(story)


def test_an_unclean_election_by_a_new_controller_is_counted_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0)  # the controller
        await started(cluster, 1)
        topic = NewTopic("t", assignment={0: (ZERO, ONE)}, config=UNCLEAN)
        await cluster.controller().create_topics([topic])
        leader = cluster.brokers[0].broker
        await until(lambda: ("t", 0) in leader.partitions)
        await until(lambda: ("t", 0) in cluster.brokers[1].broker.followed)
        await cluster.cut_power(1)
        term = leader.partition("t", 0).role.term
        assert term is not None
        await until(lambda: term.in_sync == {ZERO})
        await cluster.cut_power(0)
        await cluster.start(1)
        await until(lambda: ("t", 0) in cluster.brokers[1].broker.partitions)
        assert cluster.brokers[1].metrics.unclean_elections == 1

    play(story)
    assert "t-0: unclean leader election: broker 1 leads from epoch" in caplog.text


UNCLEAN = {"unclean.leader.election.enable": "true"}
