"""Adoption, at a start, of topics in a broker's own metadata store and in its log directories.

* This broker leads every topic of the store; leader epochs grow by one with each start, and are
  never below those in a log, so that clients can tell that a leadership ended.
* A log directory without a topic in the store (from a Kafka broker, or after loss of the store)
  becomes a topic: its id from `partition.metadata`, its partitions from the directories' names.
* Topics without an id (from before Kafka 2.8, or written to ZooKeeper by old tools) are given one.

Not done with a shared store: it would take leadership from other brokers and restore topics that
were deleted while this broker was down.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from headrace.broker.broker import Broker
from headrace.broker.producer_ids import PRODUCER_ID_BLOCK_SIZE
from headrace.cluster.controller.writer import Writer
from headrace.cluster.decisions import changes
from headrace.cluster.decisions.facts import Change, ClusterFacts
from headrace.cluster.store.catalog import OPERATIONS_PER_MULTI, Catalog
from headrace.cluster.store.stored_topic import FIRST_EPOCH, StoredTopic
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.cluster.topics.internal_topics import internal_config
from headrace.log.directory.failed_at_start import hold
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.log import Log
from headrace.log.text_files import NO_TOPIC_ID
from headrace.model.errors import ConfigError
from headrace.model.invariant import invariant
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition

_logger = logging.getLogger(__name__)


async def adopt(catalog: Catalog, facts: ClusterFacts, writer: Writer, broker: Broker) -> None:
    """Make the store and `facts` hold all topics, with ids and with this start's leader epochs.

    Call it after the broker's directories are loaded.
    """
    invariant(not catalog.store.shared, "directories are adopted with a store of our own only")
    logs = {log.topic_partition: log for log in broker.logs()}
    strangers = [
        replace(topic, config=internal_config(topic.name, broker.config))
        for topic in found_topics(
            broker.found(), logs, facts.topics, broker.broker_id, broker.random.uuid
        )
    ]
    failed = next((each for each in broker.directories if each.fenced), None)
    if failed is not None:
        _leave_to_failed(failed, strangers, facts, broker)
    if strangers:
        names = ", ".join(topic.name for topic in strangers)
        _logger.info("adopted from the log directories: %s", names)
        if any(directory.loader.used_before for directory in broker.directories):
            _logger.error(
                "the metadata store does not know the topics %s that were served from here: their "
                "settings are lost, from now on they have the broker's (retention included)",
                names,
            )
        facts.orphan_configs |= await catalog.config_versions([topic.name for topic in strangers])
        await _write(writer, [changes.creation(facts, topic) for topic in strangers])
        await _pass_producer_ids(catalog, broker, logs.values())
    anew = _led_anew(facts, logs, broker.broker_id)
    while some := list(islice(anew, OPERATIONS_PER_MULTI)):
        await _write(writer, some)


def _leave_to_failed(
    failed: LogDirectory, strangers: Sequence[StoredTopic], facts: ClusterFacts, broker: Broker
) -> None:
    """Keep partitions without a log offline while a log directory has failed: it may have them.

    ConfigError: there are topics to adopt, whose partitions or ids may be in that directory.
    """
    if strangers:
        raise ConfigError(
            f"log.dirs={failed.path}: has failed ({failed.failure}), and the metadata store does"
            f" not know the topics {', '.join(topic.name for topic in strangers)} of the other"
            " directories: they are adopted only while all log directories work"
        )
    for topic, index in facts.partitions_of((broker.broker_id,)):
        key = TopicPartition(topic.name, index)
        if not broker.has_replica(key):
            hold(failed, key)


async def identify(facts: ClusterFacts, writer: Writer, new_id: Callable[[], bytes]) -> None:
    """Give an id to each topic of the store that has none."""
    nameless = [topic for topic in facts.topics.values() if topic.node.topic_id is None]
    await _write(
        writer,
        [changes.node_change(topic, topic.node._replace(topic_id=new_id())) for topic in nameless],
    )


def found_topics(
    found: Iterable[TopicPartition],
    logs: Mapping[TopicPartition, Log],
    known: Mapping[str, StoredTopic],
    broker: BrokerId,
    new_id: Callable[[], bytes],
) -> list[StoredTopic]:
    """Return the topics of log directories that the store lacks, by name.

    All partitions are led here.

    `found`: all partitions with a directory; `logs`: those with a sound log.
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
        topics.append(StoredTopic(name, node, {}, states, 0, dict.fromkeys(states, 0)))
    return topics


def _led_anew(
    facts: ClusterFacts, logs: Mapping[TopicPartition, Log], broker: BrokerId
) -> Iterator[Change]:
    """Yield the changes that make this broker the leader of each partition assigned to it.

    A generator, as there may be many: memory used for all at once would not be returned.
    """
    states: dict[int, PartitionState] = {}  # by leader epoch: most logs are in the same
    for topic, index in facts.partitions_of((broker,)):
        former = topic.states.get(index)
        log = logs.get(TopicPartition(topic.name, index))
        seen = -1 if log is None else int(log.epochs.latest)
        epoch = max(seen, -1 if former is None else former.leader_epoch) + 1
        state = states.get(epoch)
        if state is None:
            state = states[epoch] = PartitionState(broker, LeaderEpoch(epoch), (broker,))
        yield changes.state_change(facts, topic, index, state, told=False)


async def _write(writer: Writer, wanted: list[Change]) -> None:
    done = await writer.write(wanted, [])
    invariant(done, "somebody else writes to a store that is ours alone")


async def _pass_producer_ids(catalog: Catalog, broker: Broker, logs: Iterable[Log]) -> None:
    """Reserve producer ids past those that adopted logs know: old sequences would meet new ones."""
    used = [entry.producer_id for log in logs for entry in log.producers.kept.entries()]
    if used:
        block = await catalog.reserve_producer_ids(
            broker.broker_id, PRODUCER_ID_BLOCK_SIZE, above=max(used)
        )
        broker.producer_ids.refill(block.first, block.last)
