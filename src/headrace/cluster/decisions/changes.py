"""Changes of topics, as store operations and orders to brokers. Pure functions."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from headrace.broker.metadata_image import NO_LEADER
from headrace.cluster.decisions.facts import Change, ClusterFacts
from headrace.cluster.decisions.orders import Follow, Lead, Order, Replication, Stop
from headrace.cluster.store import znodes
from headrace.cluster.store.stored_topic import NEVER_LED, StoredTopic, first_state
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.ports.store import Create, Operation, Set

PARTITIONS_PER_CHANGE = 400
"""Partitions in one change. More are created by several changes, as ZooKeeper accepts 1 MiB in one
request, whatever the length of the topic's name."""
DELETED_EPOCH = LeaderEpoch(-2)
"""Leader epoch of orders about a topic that is being deleted; no later one follows (as in
Kafka)."""


def creations(facts: ClusterFacts, topic: StoredTopic) -> list[Change]:
    """Return the changes that create a topic; one with many partitions needs several.

    The first creates the topic with all its partitions. If `facts` have the topic, the result is
    the rest. If its controller stops before the last change, the next controller elects leaders of
    the partitions without a state.
    """
    known = facts.topics.get(topic.name)
    if known is not None and topic.name in facts.deleting:
        return []
    states = [
        (index, state)
        for index, state in topic.states.items()
        if known is None or index not in known.states
    ]
    parts = [
        states[at : at + PARTITIONS_PER_CHANGE]
        for at in range(0, len(states), PARTITIONS_PER_CHANGE)
    ]
    found = [_more_partitions(facts, topic, some) for some in parts]
    if known is None:
        first = parts[0] if parts else []
        begun = replace(topic, states=dict(first), versions={index: 0 for index, _ in first})
        found[:1] = [creation(facts, begun)]
    return found


def _more_partitions(
    facts: ClusterFacts, topic: StoredTopic, states: Sequence[tuple[int, PartitionState]]
) -> Change:
    operations: list[Operation] = []
    orders: list[tuple[BrokerId, Order]] = []
    for index, state in states:
        operations += _new_partition(facts, topic.name, index, state)
        orders += orders_of(topic, index, state, 0, is_new=True)
    return Change(topic.name, tuple(operations), states=tuple(states), orders=tuple(orders))


def creation(facts: ClusterFacts, topic: StoredTopic) -> Change:
    """Return the change that creates a topic, with the partitions that have a state."""
    path, config = znodes.topic_config_path(topic.name), znodes.encode_config(topic.config)
    left = facts.orphan_configs.get(topic.name)  # by a deletion that was cut short, or by a tool
    partitions = _more_partitions(facts, topic, tuple(topic.states.items()))
    operations = (
        Create(znodes.topic_path(topic.name), znodes.encode_topic(topic.node)),
        Create(znodes.partitions_path(topic.name), b""),
        *partitions.operations,
        Create(path, config) if left is None else Set(path, config, left),
    )
    return Change(topic.name, operations, created=topic, orders=partitions.orders)


def adoption(topic: StoredTopic, topic_id: bytes) -> Change:
    """Return the change that adopts a topic of the store, giving it `topic_id` if it has none."""
    if topic.node.topic_id is not None:
        return Change(topic.name, created=topic)
    node = topic.node._replace(topic_id=topic_id)
    named = replace(topic, node=node, version=topic.version + 1)
    return Change(topic.name, (_put_node(topic, node),), created=named)


def growths(
    facts: ClusterFacts, topic: StoredTopic, present: int, added: Sequence[tuple[BrokerId, ...]]
) -> list[Change]:
    """Return the changes that add partitions to a topic of `present` ones; `added`: replicas.

    The first change writes the node with all partitions. If it was written before, the result has
    the partitions that have no state yet.
    """
    more = dict(enumerate(added, present))
    node = topic.node._replace(partitions={**topic.node.partitions, **more})
    states = [
        (index, first_state(replicas, facts.drained))
        for index, replicas in more.items()
        if index not in topic.states
    ]
    whole = replace(topic, node=node)
    found = [
        _more_partitions(facts, whole, tuple(states[at : at + PARTITIONS_PER_CHANGE]))
        for at in range(0, len(states), PARTITIONS_PER_CHANGE)
    ]
    if found and len(topic.node.partitions) == present:
        operations = (_put_node(topic, node), *found[0].operations)
        found[0] = found[0]._replace(operations=operations, node=node)
    return [change._replace(grown=True) for change in found]


def deletion(topic: StoredTopic, *, marked: bool = False) -> Change:
    """Return the change that begins a topic's deletion; a later controller can complete it.

    `marked`: the store has the deletion already.
    """
    orders = tuple(
        (broker, Stop(TopicPartition(topic.name, index), topic.topic_id, DELETED_EPOCH, True))
        for index, replicas in topic.node.partitions.items()
        for broker in replicas
    )
    mark = Create(f"{znodes.DELETE_TOPICS}/{topic.name}", b"")
    return Change(topic.name, () if marked else (mark,), deleted=True, orders=orders)


def state_change(
    facts: ClusterFacts,
    topic: StoredTopic,
    index: int,
    state: PartitionState,
    node: TopicNode | None = None,
    dropped: Collection[BrokerId] = (),
    *,
    told: bool = True,
) -> Change:
    """Return the change of a partition's state, and of the assignment if `node` is given.

    `dropped`: replicas to delete. `told`: whether to send orders to the replicas; not after
    AlterPartition, whose response informs the leader.
    """
    operations = [] if node is None else [_put_node(topic, node)]
    version = topic.versions.get(index)
    if version is None:
        path = znodes.state_path(topic.name, index)
        operations.append(Create(path, _encoded(state, facts.controller_epoch)))
    else:
        path = znodes.state_path(topic.name, index)
        operations.append(Set(path, _encoded(state, facts.controller_epoch), version))
    orders: list[tuple[BrokerId, Order]] = []
    if told:
        after = topic if node is None else replace(topic, node=node)
        epoch = 0 if version is None else version + 1
        orders += orders_of(after, index, state, epoch, is_new=version is None)
    key = TopicPartition(topic.name, index)
    before = topic.states.get(index, NEVER_LED)
    elected = state.leader != NO_LEADER and state.leader_epoch > before.leader_epoch
    sure = state.leader in before.isr and (state.leader, key) not in facts.doubts
    orders += ((broker, Stop(key, topic.topic_id, state.leader_epoch, True)) for broker in dropped)
    return Change(
        topic.name,
        tuple(operations),
        node=node,
        states=((index, state),),
        unclean=elected and state.recovering and not sure,
        orders=tuple(orders),
    )


def node_change(topic: StoredTopic, node: TopicNode) -> Change:
    """Return the change of a topic's node; partition states stay."""
    return Change(topic.name, (_put_node(topic, node),), node=node)


def reminder(
    topic: StoredTopic,
    indexes: Collection[int],
    brokers: Collection[BrokerId],
    *,
    is_new: bool = False,
) -> Change:
    """Return a change without store operations that repeats the orders to `brokers`."""
    states, versions = topic.states, topic.versions
    orders = tuple(
        pair
        for index in indexes
        for pair in orders_of(topic, index, states[index], versions[index], is_new=is_new)
        if pair[0] in brokers
    )
    return Change(topic.name, shown=tuple(indexes), orders=orders)


def orders_of(
    topic: StoredTopic, index: int, state: PartitionState, partition_epoch: int, *, is_new: bool
) -> Iterator[tuple[BrokerId, Order]]:
    """Yield (broker, order to lead or follow) for each replica of a partition in this state."""
    replicas = topic.node.partitions[index]
    replication = Replication(
        TopicPartition(topic.name, index),
        topic.topic_id,
        state.leader,
        state.leader_epoch,
        state.isr,
        replicas,
        partition_epoch,
        is_new,
        state.recovering,
        topic.node.adding.get(index, ()),
    )
    for broker in replicas:
        leads = broker == state.leader != NO_LEADER
        yield broker, (Lead(replication) if leads else Follow(replication))


def _put_node(topic: StoredTopic, node: TopicNode) -> Operation:
    return Set(znodes.topic_path(topic.name), znodes.encode_topic(node), topic.version)


def _new_partition(
    facts: ClusterFacts, name: str, index: int, state: PartitionState
) -> list[Operation]:
    return [
        Create(znodes.partition_path(name, index), b""),
        Create(znodes.state_path(name, index), _encoded(state, facts.controller_epoch)),
    ]


@lru_cache(maxsize=16)  # a start gives most partitions the same state
def _encoded(state: PartitionState, controller_epoch: int) -> bytes:
    return znodes.encode_state(state._replace(controller_epoch=controller_epoch))
