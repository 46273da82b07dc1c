"""A leader alone in the ISR acknowledges nothing in a session that began after its order."""

import asyncio

from headrace.client.client import Client
from headrace.client.producer.producer import Producer
from headrace.client.transport.events import EventTransport
from headrace.client.transport.port import Address, ClientError
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError
from headrace.testing.sim.cluster import PORT, SimCluster
from headrace.testing.sim.ensemble import SESSION_SECONDS
from tests.support.sim.cluster import play, until

LEADER = 2
OTHERS = (1, 3)


def committed(cluster: SimCluster, number: int) -> int:
    """The high watermark that a broker has as the leader."""
    broker = cluster.broker(number)
    assert broker is not None
    return broker.partitions["t", 0].log.high_watermark


async def leader_alone(cluster: SimCluster) -> None:
    """Have `LEADER` lead a topic of three replicas alone in the ISR, and alone in the cluster."""
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    await cluster.controller().create_topics(
        [NewTopic("t", assignment={0: (LEADER, *OTHERS)}, config=config)]
    )
    for number in OTHERS:
        cluster.kill(number)
    leads = cluster.brokers[LEADER].broker
    await until(lambda: leads.partition("t", 0).role.term.in_sync == {LEADER})  # type: ignore[union-attr]


async def written(cluster: SimCluster, seconds: float) -> bool:
    """Write a record to `LEADER` with acks=all; return whether it was acknowledged."""
    transport = EventTransport(cluster.network.machine("writer").connect)
    address = Address(f"broker-{LEADER}", PORT)
    client = Client(transport, [address], client_id="writer", retry_seconds=seconds)
    producer = Producer(client, idempotent=False)
    try:
        async with asyncio.timeout(seconds):
            await producer.send("t", b"v", timestamp=cluster.worlds[LEADER].clock.wall_ms())
            await producer.flush()
    except (TimeoutError, ApiError, ClientError):
        return False
    return True


def test_leader_alone_acknowledges_nothing_in_a_new_session_before_its_orders() -> None:
    async def story(cluster: SimCluster) -> None:
        await leader_alone(cluster)
        for number in OTHERS:
            cluster.network.cut(f"broker-{number}", f"broker-{LEADER}")  # they fetch nothing
            await cluster.start_again(number)
        assert await written(cluster, 2.0)
        before = committed(cluster, LEADER)
        world = cluster.worlds[LEADER]
        world.lose_touch()
        await asyncio.sleep(SESSION_SECONDS)
        others = [cluster.brokers[number].broker for number in OTHERS]
        await until(lambda: any(("t", 0) in broker.partitions for broker in others))  # uncleanly
        world.regain_touch()
        await asyncio.sleep(1)  # it has registered, and has no orders
        assert not await written(cluster, 3.0)
        assert committed(cluster, LEADER) == before
        for number in OTHERS:
            cluster.network.mend(f"broker-{number}", f"broker-{LEADER}")
        await until(lambda: ("t", 0) in cluster.brokers[LEADER].broker.followed)

    play(story, *OTHERS[:1], LEADER, *OTHERS[1:])


def test_leader_alone_acknowledges_again_once_it_is_ordered_in_its_new_session() -> None:
    async def story(cluster: SimCluster) -> None:
        await leader_alone(cluster)
        cluster.worlds[LEADER].expire()
        assert await written(cluster, 3.0)
        for number in OTHERS:
            await cluster.start_again(number)

    play(story, *OTHERS[:1], LEADER, *OTHERS[1:])
