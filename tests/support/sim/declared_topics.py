"""Topics of the queues that `declared`'s clients use, as the metadata store has them."""

import asyncio

from headrace.cluster.peers.queue_topic_calls import QueueTopicChanges
from headrace.cluster.store import znodes
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError, ErrorCode
from headrace.queues.queue_names import queue_topic
from headrace.server.assembly import Server
from headrace.testing.sim.cluster import SimCluster


async def use(cluster: SimCluster, server: Server, queue: str) -> bool:
    """Have a broker create the topic of a queue; return False if it is in doubt."""
    links = server.cluster_links
    assert links is not None
    brokers = sorted(server.broker.image.brokers)
    topic = NewTopic(queue_topic("/", queue), assignment={0: brokers})
    asking = asyncio.ensure_future(links.link.change_queue_topics(QueueTopicChanges([topic])))
    while not asking.done() and server in cluster.brokers.values():
        await asyncio.wait([asking], timeout=0.2)
    if not asking.done():
        asking.cancel()
        return False
    try:
        (refused,) = asking.result()
    except ApiError:
        return False
    return refused is None or refused.code in (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    )


def has_topic(cluster: SimCluster, queue: str) -> bool:
    """Return whether the store has a queue's topic, and its deletion has not begun."""
    topic = queue_topic("/", queue)
    paths = [znodes.topic_path(topic), f"{znodes.DELETE_TOPICS}/{topic}"]
    present, deleted = cluster.ensemble.tree.get_all(paths)
    return present is not None and deleted is None
