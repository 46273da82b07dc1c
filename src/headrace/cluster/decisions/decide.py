"""`decide`: from an event and the facts to store operations and orders. Pure.

Facts change and orders are sent only once the store has the change (`controller.writer`). Decided
again on facts that contain the outcome, an event leads to no change.

The rules and error codes are those of Kafka 3.9's controller with ZooKeeper.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import singledispatch

from headrace.broker.metadata_image import NO_LEADER
from headrace.cluster.decisions import changes, elections, isr_requests, reassignment
from headrace.cluster.decisions.events import (
    BrokersDrained,
    BrokersJoined,
    BrokersLeft,
    BrokerSuspected,
    DirectoriesFailed,
    ElectionAsked,
    ElectionType,
    Event,
    IsrAsked,
    LeadersRestarted,
    ReassignmentAdvanced,
    ReassignmentAsked,
    ReplicasDamaged,
    ReplicasFailed,
    ShutdownAsked,
    TopicGrown,
    TopicsCreated,
    TopicsDeleted,
    TopicsFound,
)
from headrace.cluster.decisions.facts import Change, ClusterFacts, Decision
from headrace.cluster.store.stored_topic import NEVER_LED, StoredTopic
from headrace.cluster.store.znodes import PartitionState
from headrace.model.errors import ErrorCode
from headrace.model.invariant import InvariantError
from headrace.model.nouns import BrokerId, TopicPartition


def decide(facts: ClusterFacts, event: Event) -> Decision:
    """Return the changes and refusals that follow from an event."""
    return _decide(event, facts)


@singledispatch
def _decide(event: Event, facts: ClusterFacts) -> Decision:
    raise InvariantError(f"nobody decides what follows from {event}")


@_decide.register
def _(event: TopicsCreated, facts: ClusterFacts) -> Decision:
    """Create topics.

    Refuse names that exist, are being deleted, or are malformed (partition -1).
    """
    found: list[Change] = []
    refused: dict[TopicPartition, ErrorCode] = {}
    for topic in event.topics:
        known = facts.topics.get(topic.name)
        is_same = known is None or known.node.topic_id == topic.node.topic_id
        if is_same and topic.name not in facts.passed_over:
            found += changes.creations(facts, topic)
        else:
            refused[TopicPartition(topic.name, -1)] = ErrorCode.TOPIC_ALREADY_EXISTS
    return Decision(tuple(found), refused)


@_decide.register
def _(event: TopicsDeleted, facts: ClusterFacts) -> Decision:
    there = [name for name in event.names if name in facts.topics]
    return Decision(
        tuple(
            changes.deletion(facts.topics[name], marked=event.marked)
            for name in there
            if name not in facts.deleting
        ),
        {
            TopicPartition(name, -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for name in event.names
            if name not in facts.topics
        },
    )


@_decide.register
def _(event: TopicsFound, facts: ClusterFacts) -> Decision:
    """Adopt topics and partitions that a tool wrote: give ids to topics, leaders to partitions."""
    found: list[Change] = []
    for read in event.topics:
        if read.name in facts.deleting:
            continue
        topic = facts.topics.get(read.name)
        if topic is None or _has_more(read, topic):
            if topic is not None:  # the facts may have newer states than this read
                read = replace(topic, node=read.node, version=read.version)
            taken = changes.adoption(read, event.ids[read.name])
            topic = taken.created or read
            found.append(taken)
        for index in sorted(topic.node.partitions.keys() - topic.states.keys()):
            after = elections.elected(facts, topic, index)
            if after.leader != NO_LEADER:
                found.append(changes.state_change(facts, topic, index, after))
    return Decision(tuple(found))


def _has_more(read: StoredTopic, known: StoredTopic) -> bool:
    return (
        read.version > known.version and read.node.partitions.keys() > known.node.partitions.keys()
    )


@_decide.register
def _(event: TopicGrown, facts: ClusterFacts) -> Decision:
    topic = facts.topics.get(event.name)
    if topic is None or event.name in facts.deleting:
        refused = {TopicPartition(event.name, -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        return Decision(refused=refused)
    if len(topic.node.partitions) != event.present and not _is_begun(event, topic):
        return Decision(refused={TopicPartition(event.name, -1): ErrorCode.INVALID_PARTITIONS})
    return Decision(tuple(changes.growths(facts, topic, event.present, event.added)))


def _is_begun(event: TopicGrown, topic: StoredTopic) -> bool:
    """Return whether the new partitions are written and some of them have no state yet."""
    more = dict(enumerate(event.added, event.present))
    held = topic.node.partitions
    return (
        len(held) == event.present + len(more)
        and all(held.get(index) == replicas for index, replicas in more.items())
        and any(index not in topic.states for index in more)
    )


@_decide.register
def _(event: BrokersJoined, facts: ClusterFacts) -> Decision:
    """Elect leaders where there are none, and remove replicas in doubt from ISRs.

    Orders for all other replicas on the joined brokers are sent again.
    """
    found: list[Change] = []
    told: dict[str, list[int]] = {}
    for topic, index in facts.partitions_of(event.brokers):
        after = elections.returned(facts, topic, index)
        if after is not None:
            found.append(changes.state_change(facts, topic, index, after))
        elif index in topic.states:
            told.setdefault(topic.name, []).append(index)
    reminders = (
        changes.reminder(facts.topics[name], indexes, event.brokers, is_new=event.logs_made)
        for name, indexes in told.items()
    )
    return Decision((*reminders, *found))


@_decide.register
def _(event: BrokersLeft, facts: ClusterFacts) -> Decision:
    gone = frozenset(event.brokers)
    return Decision(tuple(_without(facts, facts.partitions_of(gone), gone)))


@_decide.register
def _(event: BrokerSuspected, facts: ClusterFacts) -> Decision:
    """Move leadership and ISR from the broker, as for a shutdown; the last member stays."""
    known = facts.brokers.get(event.broker)
    if known is None or known.epoch != event.broker_epoch:
        return Decision()
    return Decision(decide(facts, ShutdownAsked(event.broker)).changes)


@_decide.register
def _(event: ReplicasFailed, facts: ClusterFacts) -> Decision:
    hit = (
        (facts.topics[name], index)
        for name, index in event.partitions
        if name in facts.topics and name not in facts.deleting
    )
    return Decision(tuple(_without(facts, hit, frozenset((event.broker,)))))


@_decide.register
def _(event: ReplicasDamaged, facts: ClusterFacts) -> Decision:
    """Elect sound replicas in place of damaged leaders; show which replicas are damaged."""
    found: list[Change] = []
    for partition in event.partitions:
        topic = _topic_of(facts, partition)
        if topic is not None:
            after = elections.led_by_sound(facts, topic, partition.partition)
            found.append(
                changes.reminder(topic, [partition.partition], ())
                if after is None
                else changes.state_change(facts, topic, partition.partition, after)
            )
    return Decision(tuple(found))


@_decide.register
def _(event: DirectoriesFailed, facts: ClusterFacts) -> Decision:
    """Send the orders for all replicas on these brokers again."""
    return decide(facts, BrokersJoined([who for who in event.brokers if who in facts.brokers]))


@_decide.register
def _(event: LeadersRestarted, facts: ClusterFacts) -> Decision:
    """Elect a leader, perhaps the same, under a new epoch.

    The restarted leader may have lost unflushed records that followers have.
    """
    found: list[Change] = []
    for partition in event.partitions:
        topic = _topic_of(facts, partition)
        if topic is not None:
            after = elections.elected(facts, topic, partition.partition)
            found.append(changes.state_change(facts, topic, partition.partition, after))
    return Decision(tuple(found))


@_decide.register
def _(event: ShutdownAsked, facts: ClusterFacts) -> Decision:
    """Move leadership from the broker; NOT_ENOUGH_REPLICAS: no other replica can lead."""
    found: list[Change] = []
    refused: dict[TopicPartition, ErrorCode] = {}
    for topic, index in facts.partitions_of((event.broker,)):
        after = elections.moved_from(facts, topic, index, event.broker)
        if after is not None:
            found.append(changes.state_change(facts, topic, index, after))
        elif topic.states.get(index, NEVER_LED).leader == event.broker:
            refused[TopicPartition(topic.name, index)] = ErrorCode.NOT_ENOUGH_REPLICAS
    return Decision(tuple(found), refused)


@_decide.register
def _(event: BrokersDrained, facts: ClusterFacts) -> Decision:
    """Move leadership from drained brokers where another in-sync replica can lead."""
    found: list[Change] = []
    for topic, index in facts.partitions_of(facts.drained):
        after = elections.led_undrained(facts, topic, index)
        if after is not None:
            found.append(changes.state_change(facts, topic, index, after))
    return Decision(tuple(found))


@_decide.register
def _(event: ElectionAsked, facts: ClusterFacts) -> Decision:
    found: list[Change] = []
    refused: dict[TopicPartition, ErrorCode] = {}
    for partition in event.partitions:
        topic = _topic_of(facts, partition)
        if topic is None:
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            continue
        after = _asked_leader(facts, topic, partition.partition, event.kind)
        if isinstance(after, ErrorCode):
            refused[partition] = after
        else:
            found.append(changes.state_change(facts, topic, partition.partition, after))
    return Decision(tuple(found), refused)


def _asked_leader(
    facts: ClusterFacts, topic: StoredTopic, index: int, kind: ElectionType
) -> PartitionState | ErrorCode:
    state = topic.states.get(index, NEVER_LED)
    if kind is ElectionType.UNCLEAN:
        if state.leader != NO_LEADER:
            return ErrorCode.ELECTION_NOT_NEEDED
        after = elections.elected(facts, topic, index, unclean=True)
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if after.leader == NO_LEADER else after
    if state.leader == topic.node.partitions[index][0]:
        return ErrorCode.ELECTION_NOT_NEEDED
    first = elections.preferred(facts, topic, index)
    return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if first is None else first


@_decide.register
def _(event: ReassignmentAsked, facts: ClusterFacts) -> Decision:
    partition, target = event.partition, event.target
    topic = _topic_of(facts, partition)
    if topic is None:
        return Decision(refused={partition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    if target is None and not reassignment.runs(topic.node, partition.partition):
        return Decision(refused={partition: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS})
    if reassignment.is_under_way(topic.node, partition.partition, target):
        return Decision()
    change = _reassigned(facts, topic, partition.partition, target)
    if change is None:
        return Decision(refused={partition: ErrorCode.INVALID_REPLICA_ASSIGNMENT})
    return Decision((change,))


def _reassigned(
    facts: ClusterFacts, topic: StoredTopic, index: int, target: tuple[BrokerId, ...] | None
) -> Change | None:
    if target is None:
        step = reassignment.cancelled(facts, topic, index)
    elif not target or len(set(target)) < len(target):
        return None
    elif not set(target) <= facts.brokers.keys() | set(topic.node.partitions[index]):
        return None  # a present replica may be offline, a new one may not
    else:
        step = reassignment.begun(facts, topic, index, target)
    if step is None:
        return None
    return changes.state_change(facts, topic, index, step.state, step.node, step.dropped)


@_decide.register
def _(event: ReassignmentAdvanced, facts: ClusterFacts) -> Decision:
    """Advance one reassignment of each topic; the next is decided on the changed node."""
    found: dict[str, Change] = {}
    for partition in event.partitions:
        topic = _topic_of(facts, partition)
        if topic is not None and topic.name not in found:
            step = reassignment.completed(facts, topic, partition.partition)
            if step is not None:
                found[topic.name] = changes.state_change(
                    facts, topic, partition.partition, step.state, step.node, step.dropped
                )
    return Decision(tuple(found.values()))


@_decide.register
def _(event: IsrAsked, facts: ClusterFacts) -> Decision:
    known = facts.brokers.get(event.broker)
    if known is None or known.epoch != event.broker_epoch:
        stale = (asked.topic_partition for asked in event.asked)
        return Decision(refused=dict.fromkeys(stale, ErrorCode.STALE_BROKER_EPOCH))
    found: list[Change] = []
    refused: dict[TopicPartition, ErrorCode] = {}
    for asked in event.asked:
        topic = _topic_of(facts, asked.topic_partition)
        index = asked.topic_partition.partition
        code = isr_requests.refusal(facts, topic, event.broker, asked)
        if code is not ErrorCode.NONE:
            refused[asked.topic_partition] = code
            if code in isr_requests.OUTDATED and topic is not None:
                # Its orders may have been lost with an answer: repeat them.
                found.append(changes.reminder(topic, [index], [event.broker]))
        elif topic is not None:
            found += isr_requests.changed(facts, topic, index, asked)
    return Decision(tuple(found), refused)


def _without(
    facts: ClusterFacts, partitions: Iterable[tuple[StoredTopic, int]], gone: frozenset[BrokerId]
) -> Iterator[Change]:
    for topic, index in partitions:
        after = elections.without(facts, topic, index, gone)
        if after is not None and _differs(topic.states.get(index, NEVER_LED), after):
            yield changes.state_change(facts, topic, index, after)


def _differs(before: PartitionState, after: PartitionState) -> bool:
    return (before.leader, before.isr) != (after.leader, after.isr)


def _topic_of(facts: ClusterFacts, partition: TopicPartition) -> StoredTopic | None:
    topic = facts.topics.get(partition.topic)
    if topic is None or topic.name in facts.deleting:
        return None
    return topic if partition.partition in topic.node.partitions else None
