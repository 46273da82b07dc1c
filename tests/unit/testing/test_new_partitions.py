"""The first records of a new topic are committed without a wait for fetches under way."""

import asyncio

from headrace.client.producer.producer import Producer
from headrace.cluster.topics.creation import NewTopic
from headrace.model.nouns import BrokerId
from headrace.server.assembly import Server
from headrace.testing.sim.cluster import SimCluster
from tests.support.sim.cluster import play, until

BROKERS = (1, 2, 3)
TOPICS = 20
SECONDS = 0.1
"""Some ten times the time that the messages of a creation, a produce and two fetches take."""


async def started(cluster: SimCluster) -> None:
    """Start the brokers, and have each fetch from each other for a topic that nobody writes to."""
    for number in BROKERS:
        await cluster.start(number)
    assert all(each.broker.config.replica_fetch_wait_max_ms == 500 for each in servers(cluster))
    await until(lambda: all(len(each.broker.image.brokers) == 3 for each in servers(cluster)))
    ids = [BrokerId(number) for number in BROKERS]
    rotated = {index: (*ids[index:], *ids[:index]) for index in range(len(ids))}
    await cluster.controller().create_topics([NewTopic("idle", assignment=rotated)])
    await asyncio.sleep(5.0)


def servers(cluster: SimCluster) -> list[Server]:
    return [cluster.brokers[number] for number in BROKERS]


def test_first_record_of_a_new_topic_waits_for_no_fetch_under_way() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster)
        client = cluster.client("producer")
        producer = Producer(client)
        for number in range(TOPICS):
            await asyncio.sleep(0.137)  # at another time of the fetches that wait
            leader = BrokerId(BROKERS[number % 3])
            replicas = (leader, *(BrokerId(each) for each in BROKERS if each != leader))
            topic = f"new-{number}"
            await cluster.controller().create_topics([NewTopic(topic, assignment={0: replicas})])
            began = cluster.loop.time()
            await producer.send(topic, b"value", timestamp=0, partition=0)
            await producer.flush()
            assert cluster.loop.time() - began < SECONDS, topic
        client.close()

    play(story)
