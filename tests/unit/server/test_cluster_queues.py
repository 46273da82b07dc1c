"""Queues of a cluster over the simulated network: channels of each broker use those of another."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.nouns import BrokerId, TopicPartition
from headrace.queues.queue_names import queue_topic
from headrace.queues.refusals import Refused
from headrace.remote_queues.home.remote_queue import HomeFigures, RemoteQueue
from headrace.server.cluster.queue_figures import RemoteSurvey
from headrace.testing.sim.cluster import SimCluster
from tests.support.cluster.queue_home import HOME, LEADER, Home, played
from tests.support.queues.port_place import persistent
from tests.support.sim.cluster import until

if TYPE_CHECKING:
    from headrace.wire.amqp.field_table import FieldTable


def test_queue_in_the_memory_of_another_broker_is_published_to_and_consumed() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        await leader.declare("q")
        assert isinstance(home.host.queue("q", None), RemoteQueue)
        assert not isinstance(leader.host.queue("q", None), RemoteQueue)
        home.consume("q")
        told: list[Any] = []
        awaited: Any = {}
        assert home.host.publish(["q"], persistent("a"), awaited)
        home.host.when_stored(awaited, told.append)
        assert leader.host.publish(["q"], persistent("b"))
        await until(lambda: sorted(home.bodies) == ["a", "b"])
        home.channel.ack(0, multiple=True)
        await until(lambda: not leader.host.queues["q"].unacked)
        assert [*map(bool, told)] == [False]

    played(story)


def test_deleted_queue_cancels_its_consumers_on_other_brokers() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        await leader.declare("q")
        home.consume("q")
        await until(lambda: len(leader.host.queues["q"].consumers) == 1)
        await home.delete("q")
        await until(lambda: home.cancelled == ["c"])
        assert "q" not in home.host.targets.elsewhere
        assert "q" not in home.host.targets
        await leader.declare("q")
        home.consume("q", "again")
        assert home.host.publish(["q"], persistent("a"))
        await until(lambda: home.bodies == ["a"])

    played(story)


def test_queue_ends_with_the_broker_that_has_it_in_memory() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        await leader.declare("q")
        home.consume("q")
        await until(lambda: len(leader.host.queues["q"].consumers) == 1)
        cluster.kill(LEADER)
        await until(lambda: home.cancelled == ["c"])
        await until(lambda: "q" not in home.host.targets.elsewhere)

    played(story, 2)


def test_queue_of_a_broker_that_is_suspected_to_be_dead_is_not_used() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        await leader.declare("q")
        home.consume("q")
        await until(lambda: len(leader.host.queues["q"].consumers) == 1)
        image = cluster.brokers[HOME].broker.image
        epoch = image.brokers[BrokerId(LEADER)].epoch
        image.suspect(BrokerId(LEADER), epoch)
        assert home.cancelled == ["c"]
        assert not home.host.publish(["q"], persistent("a"))
        image.believe(BrokerId(LEADER), epoch)
        await until(lambda: home.host.publish(["q"], persistent("b")))
        await until(lambda: leader.host.queues["q"].ready == 1)

    played(story)


def test_durable_queue_without_a_leader_waits_for_one() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        await leader.declare("q", durable=True)
        remote = home.host.queue("q", None)
        assert isinstance(remote, RemoteQueue)
        assert not remote.in_session
        told: list[Any] = []
        awaited: Any = {}
        assert home.host.publish(["q"], persistent("a"), awaited)
        home.host.when_stored(awaited, told.append)
        assert told == []
        await home.delete("q")
        await until(lambda: len(told) == 1)
        assert not told[0]

    played(story)


def test_leader_names_the_homes_of_a_queue_and_waits_for_them() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        await leader.declare("q")
        home.consume("q")
        await until(lambda: len(leader.host.queues["q"].consumers) == 1)
        partition = TopicPartition(queue_topic("/", "q"), 0)
        assert leader.queues.homes_of(partition) == {BrokerId(HOME)}
        assert home.queues.homes_of(partition) == frozenset()
        attached: list[int] = []
        topic = partition.topic
        leader.queues.wait_for_homes(topic, [BrokerId(HOME)], lambda: attached.append(1))
        assert attached == [1]
        leader.queues.wait_for_homes(topic, [BrokerId(7)], lambda: attached.append(2))
        await until(lambda: attached == [1, 2])
        leader.queues.wait_for_homes("other", [BrokerId(7)], lambda: attached.append(3))
        assert attached == [1, 2, 3]

    played(story)


def test_publishes_keep_their_order_when_their_broker_begins_to_lead() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        await leader.declare("q", durable=True)
        next_leader = Home(cluster, 2)
        bodies: list[str] = []

        def publish() -> None:
            bodies.append(str(len(bodies)))
            assert next_leader.host.publish(["q"], persistent(bodies[-1]), {})

        publish()
        await until(lambda: leader.host.queues.get("q"))
        cluster.kill(LEADER)
        while "q" not in next_leader.host.queues:
            publish()
            await asyncio.sleep(0.01)
        for _ in range(100):
            publish()
            await asyncio.sleep(0.001)
        home.consume("q", prefetch=0)
        await until(lambda: len(home.bodies) >= len(bodies))
        assert home.bodies == bodies

    played(story, 2)


def test_queue_with_one_replica_is_refused_while_its_broker_is_down() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        await leader.declare("q", durable=True, arguments={"x-max-priority": 2})
        home.consume("q")
        told: list[Any] = []
        awaited: Any = {}
        assert home.host.publish(["q"], persistent("a"), awaited)
        home.host.when_stored(awaited, told.append)
        await until(lambda: home.bodies == ["a"] and len(told) == 1)
        home.channel.ack(0, multiple=True)
        await asyncio.sleep(3)  # its settlement is on the disk
        cluster.kill(LEADER)
        await until(lambda: home.cancelled == ["c"])
        await asyncio.sleep(1)
        assert not home.host.publish(["q"], persistent("b"))
        known = home.host.targets.known_counts
        assert known is not None
        with pytest.raises(Refused, match="failed to perform operation on queue 'q'"):
            known("q")
        await cluster.start_again(LEADER)
        await until(lambda: home.host.publish(["q"], persistent("c")))
        home.consume("q", "again")
        await until(lambda: home.bodies == ["a", "c"])
        assert known("q") is None

    played(story, 2)


def test_single_active_consumer_stays_when_a_follower_dies() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        single: FieldTable = {"x-queue-type": "quorum", "x-single-active-consumer": True}
        await leader.declare("q", durable=True, arguments=single)
        home.consume("q", prefetch=2)
        await until(lambda: "q" in leader.host.queues and leader.host.queues["q"].consumers)
        leader.consume("q", "waiting", prefetch=2)
        for body in "abcd":
            assert leader.host.publish(["q"], persistent(body))
        await until(lambda: home.bodies == ["a", "b"])
        epoch = leader_epoch(home, "q")
        cluster.kill(2)
        await until(lambda: leader_epoch(home, "q") > epoch)
        await asyncio.sleep(1)
        assert leader.bodies == []
        home.channel.ack(0, multiple=True)
        await until(lambda: home.bodies == ["a", "b", "c", "d"])
        assert leader.bodies == []

    played(story, 2)


def test_quorum_queue_with_one_replica_waits_for_its_broker() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        arguments: FieldTable = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}
        await leader.declare("q", durable=True, arguments=arguments)
        home.consume("q")
        assert home.host.publish(["q"], persistent("a"))
        await until(lambda: home.bodies == ["a"])
        cluster.kill(LEADER)
        await asyncio.sleep(30)
        assert home.host.publish(["q"], persistent("b"))
        assert home.cancelled == []

    played(story, 2)


def leader_epoch(home: Home, queue: str) -> int:
    topic = home.declarations.tables._broker.image.topics[queue_topic("/", queue)]
    return topic.partitions[0].leader_epoch


def test_metrics_tell_which_queues_are_led_and_what_is_under_way_with_others() -> None:
    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        await leader.declare("q")
        home.consume("q")
        assert home.host.publish(["q"], persistent("a"))
        await until(lambda: home.bodies == ["a"])
        found = figures(home)
        assert (found.count, found.in_session) == (1, 1)
        assert found.sums == HomeFigures(unconfirmed_batches=0, waiting_bytes=0, credit=9)
        assert (leader.queues.sessions.count, home.queues.sessions.count) == (1, 0)
        assert (figures(leader).count, leader.queues.led_count) == (0, 0)
        await leader.declare("durable", durable=True)
        leader.consume("durable")
        await until(lambda: leader.queues.led_count + home.queues.led_count == 1)

    played(story)


def figures(home: Home) -> RemoteSurvey:
    survey = RemoteSurvey(home.queues)
    list(survey.slices())
    return survey
