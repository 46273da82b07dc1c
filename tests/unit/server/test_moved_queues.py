"""A queue that another broker begins to lead while its former leader lives, with its consumers."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.queues.queue_names import queue_topic
from tests.support.amqp.deliveries import getter
from tests.support.cluster.queue_home import HOME, LEADER, Home, played
from tests.support.queues.port_place import persistent
from tests.support.sim.cluster import until

if TYPE_CHECKING:
    from headrace.queues.awaited import Awaited
    from headrace.queues.queue_names import QueueName
    from headrace.testing.sim.cluster import SimCluster
    from headrace.wire.amqp.field_table import FieldTable

QUORUM: "FieldTable" = {"x-queue-type": "quorum"}
DIES: "FieldTable" = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
OTHER = 2
TOPIC = queue_topic("/", "q")
MESSAGES = 60


async def published(at: Home, *bodies: str, queue: str = "q") -> None:
    """Publish messages, and wait until they are stored."""
    told: list[object] = []
    awaited: Awaited = {}
    for body in bodies:
        assert at.host.publish([queue], persistent(body), awaited)
    at.host.when_stored(awaited, told.append)
    await until(lambda: told)
    assert not told[0]


async def led_with_consumer(leader: Home, arguments: "FieldTable") -> None:
    """Declare a queue that `LEADER` leads, and add a consumer there."""
    await leader.declare("q", durable=True, arguments=arguments)
    await published(leader, "first")
    await until(lambda: leader.host.queues.get("q"))
    leader.consume("q", prefetch=20)
    await until(lambda: leader.bodies == ["first"])
    leader.channel.ack(0, multiple=True)


def settle_some(home: Home, count: int, *, reject: bool = False) -> set[str]:
    """Settle the first deliveries that the channel holds; return their bodies."""
    bodies = {tag: message.body.decode() for _, tag, message, _, _ in home.sent}
    tags = sorted(home.channel.held)[:count]
    for tag in tags:
        if reject:
            home.channel.nack(tag, requeue=False)
        else:
            home.channel.ack(tag)
    home.wake()
    return {bodies[tag] for tag in tags}


async def drain(*homes: Home) -> None:
    """Acknowledge until nothing has been delivered for some seconds."""
    count = -1
    while count != (count := sum(len(home.sent) for home in homes)):
        for _ in range(30):
            for home in homes:
                home.channel.ack(0, multiple=True)
                home.wake()
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("reject", [False, True])
def test_settled_messages_are_not_redelivered_by_the_next_leader(reject: bool) -> None:
    async def story(cluster: "SimCluster", home: Home, leader: Home) -> None:
        await home.declare("dead", durable=True, arguments=QUORUM)
        await led_with_consumer(leader, {**QUORUM, **(DIES if reject else {})})
        bodies = [f"{number}" for number in range(MESSAGES)]
        await published(leader, *bodies)
        settled: set[str] = set()
        for next_one, at in ((HOME, leader), (LEADER, leader), (OTHER, leader)):
            others = sorted({HOME, LEADER, OTHER} - {next_one})
            await cluster.prefer(TOPIC, (next_one, *others))
            await until(lambda: len(leader.channel.held) > 5)
            electing = asyncio.create_task(cluster.elect(TOPIC))
            while not electing.done():
                settled |= settle_some(at, 1, reject=reject)
                await asyncio.sleep(0.001)
        assert len(settled) > 3
        await drain(leader)
        assert [body for body in settled if leader.bodies.count(body) > 1] == []
        assert {*leader.bodies} == {"first", *bodies}
        if reject:
            home.consume("dead", prefetch=0)
            await until(lambda: settled <= {*home.bodies})
            assert {*home.bodies} == settled

    played(story, OTHER)


def test_dead_letters_on_their_way_to_a_queue_that_moves_arrive() -> None:
    async def story(cluster: "SimCluster", home: Home, leader: Home) -> None:
        dead = queue_topic("/", "dead")
        await leader.declare("dead", durable=True, arguments=QUORUM)
        await published(leader, "first", queue="dead")
        await cluster.prefer(dead, (LEADER, HOME, OTHER))
        await cluster.elect(dead)
        await led_with_consumer(leader, {**QUORUM, **DIES})
        await until(lambda: leader.host.queues.get("dead"))
        await published(leader, *(f"{number}" for number in range(MESSAGES)))
        await cluster.prefer(dead, (HOME, LEADER, OTHER))
        electing = asyncio.create_task(cluster.elect(dead))
        rejected: set[str] = set()
        while not electing.done():
            rejected |= settle_some(leader, 1, reject=True)
            await asyncio.sleep(0.001)
        assert len(rejected) > 3
        home.consume("dead", prefetch=0)
        await until(lambda: {"first", *rejected} == {*home.bodies})
        await drain(leader)
        await until(lambda: not leader.host.queues["q"].unacked)

    played(story, OTHER)


def test_new_leader_waits_for_consumers_of_the_former_one() -> None:
    async def story(cluster: "SimCluster", home: Home, leader: Home) -> None:
        await led_with_consumer(leader, QUORUM)
        await published(leader, *"abc")
        await until(lambda: leader.bodies == ["first", *"abc"])
        home.consume("q", "next")
        await cluster.prefer(TOPIC, (HOME, LEADER, OTHER))
        await cluster.elect(TOPIC)
        await until(lambda: home.queues.led_count == 1)
        await asyncio.sleep(3)
        assert (home.bodies, leader.bodies) == ([], ["first", *"abc"])
        leader.channel.ack(0, multiple=True)
        await until(lambda: not home.host.queues["q"].unacked)
        assert home.host.queues["q"].ready == 0

    played(story, OTHER)


def test_deliveries_without_a_consumer_are_held_across_a_change_of_leader() -> None:
    async def story(cluster: "SimCluster", home: Home, leader: Home) -> None:
        await led_with_consumer(leader, QUORUM)
        queue = leader.host.queues["q"]
        (consumer,) = queue.consumers
        await published(leader, *"ab")
        await until(lambda: leader.bodies == ["first", *"ab"])
        leader.host.cancel(consumer)
        await published(leader, *"cd")
        given: list[object] = []
        queue.get(getter(queue, leader.channel, given.append, 0.0), 0.0)
        await until(lambda: given)
        assert (queue.ready, queue.unacked) == (1, 3)
        await cluster.prefer(TOPIC, (HOME, LEADER, OTHER))
        await cluster.elect(TOPIC)
        await until(lambda: home.queues.led_count == 1)
        home.consume("q", "next")
        await until(lambda: home.bodies == ["d"])
        await asyncio.sleep(2)
        tags = sorted(leader.channel.held)
        leader.channel.ack(tags[0])
        leader.channel.nack(tags[1])
        leader.channel.ack(tags[2])
        leader.wake()
        await until(lambda: home.bodies == ["d", "b"])
        home.channel.ack(0, multiple=True)
        led = home.host.queues["q"]
        await until(lambda: (led.ready, led.unacked) == (0, 0))

    played(story, OTHER)


def attach_late(home: Home) -> None:
    """Have a broker find the leaders of queues later than others do."""
    elsewhere = home.queues._elsewhere
    look = elsewhere.look

    def later(name: "QueueName") -> None:
        asyncio.get_running_loop().call_later(0.1, look, name)

    elsewhere.look = later  # type: ignore[method-assign]


@pytest.mark.parametrize("active", [HOME, LEADER])
@pytest.mark.parametrize("late", [HOME, LEADER])
def test_single_active_consumer_stays_when_the_leader_changes(active: int, late: int) -> None:
    async def story(cluster: "SimCluster", home: Home, leader: Home) -> None:
        single: FieldTable = {**QUORUM, "x-single-active-consumer": True}
        await leader.declare("q", durable=True, arguments=single)
        await published(leader, "a")
        first, second = (home, leader) if active == HOME else (leader, home)
        first.consume("q", "first")
        await until(lambda: first.bodies == ["a"])
        first.channel.ack(1)
        first.wake()
        second.consume("q", "second")
        await asyncio.sleep(1)
        attach_late(home if late == HOME else leader)
        bodies = ["a"]
        for next_one in (OTHER, HOME, LEADER, OTHER, LEADER):
            others = sorted({HOME, LEADER, OTHER} - {next_one})
            await cluster.prefer(TOPIC, (next_one, *others))
            await cluster.elect(TOPIC)
            await asyncio.sleep(2)
            bodies.append(f"{len(bodies)}")
            await published(leader, bodies[-1])
            await until(lambda: first.bodies == bodies)
            first.channel.ack(0, multiple=True)
            first.wake()
        assert second.bodies == []

    played(story, OTHER)


@pytest.mark.parametrize("late", [HOME, LEADER])
def test_single_active_consumer_stays_when_the_leader_is_killed(late: int) -> None:
    async def story(cluster: "SimCluster", home: Home, leader: Home) -> None:
        single: FieldTable = {**QUORUM, "x-single-active-consumer": True}
        await leader.declare("q", durable=True, arguments=single)
        home.consume("q", "first")
        await asyncio.sleep(1)
        leader.consume("q", "second")
        await cluster.prefer(TOPIC, (OTHER, HOME, LEADER))
        await cluster.elect(TOPIC)
        await asyncio.sleep(2)
        attach_late(home if late == HOME else leader)
        cluster.kill(OTHER)
        await asyncio.sleep(10)
        await published(leader, "a")
        await until(lambda: home.bodies == ["a"])
        assert leader.bodies == []

    played(story, OTHER)
