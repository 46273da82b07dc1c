"""A queue that another broker begins to lead while its former leader lives, with its consumers."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from headrace.queues.queue_names import queue_topic
from tests.support.cluster.queue_home import HOME, LEADER, Home, played
from tests.support.queues.port_place import persistent
from tests.support.sim.cluster import until

if TYPE_CHECKING:
    from headrace.queues.awaited import Awaited
    from headrace.testing.sim.cluster import SimCluster
    from headrace.wire.amqp.field_table import FieldTable

QUORUM: "FieldTable" = {"x-queue-type": "quorum"}
DIES: "FieldTable" = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
OTHER = 2
TOPIC = queue_topic("/", "q")
MESSAGES = 60


async def published(at: Home, *bodies: str) -> None:
    """Publish messages, and wait until they are stored."""
    told: list[object] = []
    awaited: Awaited = {}
    for body in bodies:
        assert at.host.publish(["q"], persistent(body), awaited)
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
