"""Taking up at start what the store and the log directories hold.

* Every topic of the store is ours to serve; its leader epochs grow by one with each start, and are
  never below what a log has seen, so a client can tell that a leadership ended.
* A directory that the store knows nothing of (a real Kafka's, or a store that was lost) becomes a
  topic: its id from `partition.metadata`, its partitions from the directories' names.
* Topics without an id (from before Kafka 2.8, or made by old tools in ZooKeeper) are given one.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from headrace.broker.broker import Broker
from headrace.broker.producer_ids import PRODUCER_ID_BLOCK_SIZE
from headrace.cluster.catalog import Catalog, StateKey
from headrace.cluster.settings.internal_topics import internal_config
from headrace.cluster.stored_topic import FIRST_EPOCH, StoredTopic
from headrace.cluster.znodes import PartitionState, TopicNode
from headrace.log.log import Log
from headrace.log.text_files import NO_TOPIC_ID
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition

_logger = logging.getLogger(__name__)


async def adopt(
    catalog: Catalog, broker: Broker, known: Mapping[str, StoredTopic]
) -> list[StoredTopic]:
    """All topics with ids and this start's leader epochs, as the store now holds them.

    `known` are the store's; the broker's directories are loaded.
    """
    logs = {log.topic_partition: log for log in broker.logs()}
    topics = dict(known)
    await _identify(catalog, topics, broker.random.uuid)
    found = broker.found()
    strangers = [
        replace(topic, config=internal_config(topic.name, broker.config))
        for topic in found_topics(found, logs, topics, broker.broker_id, broker.random.uuid)
    ]
    if strangers:
        _logger.info(
            "adopted from the log directories: %s", ", ".join(topic.name for topic in strangers)
        )
        if any(one.loader.used_before for one in broker.directories):
            _logger.error(
                "the metadata store does not know the topics %s that were served from here: their "
                "settings are lost, from now on they have the broker's (retention included)",
                ", ".join(topic.name for topic in strangers),
            )
        await catalog.add_topics(strangers)
        await _pass_producer_ids(catalog, broker, logs.values())
    return await _bump(catalog, [*topics.values(), *strangers], logs, broker.broker_id)


def found_topics(
    found: Iterable[TopicPartition],
    logs: Mapping[TopicPartition, Log],
    known: Mapping[str, StoredTopic],
    broker: BrokerId,
    new_id: Callable[[], bytes],
) -> list[StoredTopic]:
    """Topics of the directories that the store does not know, by name; all partitions are ours.

    `found` are all partitions with a directory, `logs` those of them that are sound.
    """
    by_name: dict[str, list[TopicPartition]] = {}
    for key in found:
        if key.topic not in known:
            by_name.setdefault(key.topic, []).append(key)
    topics = []
    for name, keys in sorted(by_name.items()):
        keys.sort()
        given = [logs[key].topic_id for key in keys if key in logs]
        ids = [topic_id for topic_id in given if topic_id != NO_TOPIC_ID]
        topic_id = ids[0] if ids else new_id()
        count = keys[-1].partition + 1
        states = {index: PartitionState(broker, FIRST_EPOCH, (broker,)) for index in range(count)}
        node = TopicNode(dict.fromkeys(range(count), (broker,)), topic_id)
        topics.append(StoredTopic(name, node, {}, states))
    return topics


async def _identify(
    catalog: Catalog, topics: dict[str, StoredTopic], new_id: Callable[[], bytes]
) -> None:
    """Give an id to the topics of the store that have none."""
    nameless = [
        replace(topic, node=replace(topic.node, topic_id=new_id()))
        for topic in topics.values()
        if topic.node.topic_id is None
    ]
    if nameless:
        await catalog.give_topic_ids(nameless)
        topics.update((topic.name, topic) for topic in nameless)


async def _bump(
    catalog: Catalog,
    topics: Iterable[StoredTopic],
    logs: Mapping[TopicPartition, Log],
    broker: BrokerId,
) -> list[StoredTopic]:
    """Begin a new leadership of every partition that we hold a replica of."""
    written: dict[StateKey, tuple[PartitionState, bool]] = {}
    bumped = []
    for topic in topics:
        states: dict[int, PartitionState] = {}
        for index, replicas in topic.node.partitions.items():
            former = topic.states.get(index)
            if broker not in replicas:
                if former is not None:
                    states[index] = former
                continue
            log = logs.get(TopicPartition(topic.name, index))
            seen = -1 if log is None else int(log.epochs.latest)
            epoch = max(seen, -1 if former is None else former.leader_epoch) + 1
            states[index] = PartitionState(broker, LeaderEpoch(epoch), (broker,))
            written[StateKey(topic.name, index)] = (states[index], former is not None)
        bumped.append(replace(topic, states=states))
    await catalog.put_states(written)
    return bumped


async def _pass_producer_ids(catalog: Catalog, broker: Broker, logs: Iterable[Log]) -> None:
    """Never give out an id that adopted logs know: its old sequences would meet the new ones."""
    used = [entry.producer_id for log in logs for entry in log.producers.kept.entries()]
    if used:
        block = await catalog.reserve_producer_ids(
            broker.broker_id, PRODUCER_ID_BLOCK_SIZE, above=max(used)
        )
        broker.producer_ids.refill(block.first, block.last)
