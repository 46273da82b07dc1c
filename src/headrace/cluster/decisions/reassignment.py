"""Partition reassignment: the steps from a partition's replicas to others. Pure.

begun ──► node: new and old replicas, `adding`, `removing` ──► all new ones in the ISR
             │                                                        │
             └► cancelled: back to the original replicas              └► completed: new ones
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from headrace.broker.metadata_image import NO_LEADER
from headrace.cluster.decisions.elections import elected
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.store.stored_topic import NEVER_LED, StoredTopic
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.model.nouns import BrokerId, LeaderEpoch

Replicas = tuple[BrokerId, ...]


class Step(NamedTuple):
    """A step of a reassignment: the topic's new node and the partition's new state."""

    node: TopicNode
    state: PartitionState
    dropped: Replicas
    """Replicas that are removed and whose logs are deleted."""


def runs(node: TopicNode, index: int) -> bool:
    """Return whether the partition is being reassigned."""
    return bool(node.adding.get(index) or node.removing.get(index))


def is_under_way(node: TopicNode, index: int, target: Replicas | None) -> bool:
    """Return whether `target` is the partition's assignment after a running reassignment."""
    going = node.removing.get(index, ())
    return target == tuple(replica for replica in node.partitions[index] if replica not in going)


def begun(facts: ClusterFacts, topic: StoredTopic, index: int, target: Replicas) -> Step | None:
    """Return the step that begins a reassignment to `target`, in place of a running one.

    If all of `target` are in sync it is the last step: only these replicas remain.

    None: no ISR member, or no possible leader, would remain.
    """
    node = topic.node
    if set(target) <= set(topic.states.get(index, NEVER_LED).isr):
        return _step(facts, topic, index, target, (), ())
    coming = node.adding.get(index, ())
    originals = [replica for replica in node.partitions[index] if replica not in coming]
    adding = tuple(replica for replica in target if replica not in originals)
    removing = tuple(replica for replica in originals if replica not in target)
    return _step(facts, topic, index, (*target, *removing), adding, removing)


def cancelled(facts: ClusterFacts, topic: StoredTopic, index: int) -> Step | None:
    """Return the step back to the original replicas; None: none of them is in sync."""
    coming = topic.node.adding.get(index, ())
    originals = tuple(replica for replica in topic.node.partitions[index] if replica not in coming)
    return _step(facts, topic, index, originals, (), ())


def completed(facts: ClusterFacts, topic: StoredTopic, index: int) -> Step | None:
    """Return the last step once all remaining replicas are in the ISR.

    None: not yet, or none runs.
    """
    node = topic.node
    if not runs(node, index):
        return None
    going = node.removing.get(index, ())
    target = tuple(replica for replica in node.partitions[index] if replica not in going)
    if not set(target) <= set(topic.states.get(index, NEVER_LED).isr):
        return None
    return _step(facts, topic, index, target, (), ())


def _step(
    facts: ClusterFacts,
    topic: StoredTopic,
    index: int,
    replicas: Replicas,
    adding: Replicas,
    removing: Replicas,
) -> Step | None:
    node, state = topic.node, topic.states.get(index, NEVER_LED)
    members = tuple(replica for replica in state.isr if replica in replicas)
    if not members and state.isr:
        return None
    dropped = tuple(replica for replica in node.partitions[index] if replica not in replicas)
    changed = TopicNode(
        {**node.partitions, index: replicas},
        node.topic_id,
        _with(node.adding, index, adding),
        _with(node.removing, index, removing),
    )
    after = state._replace(isr=members, leader_epoch=LeaderEpoch(state.leader_epoch + 1))
    if state.leader not in replicas:
        moved = replace(
            topic, node=changed, states={**topic.states, index: state._replace(isr=members)}
        )
        after = elected(facts, moved, index, unclean=False)
        if after.leader == NO_LEADER != state.leader:
            return None
    return Step(changed, after, dropped)


def _with(replicas: Mapping[int, Replicas], index: int, found: Replicas) -> dict[int, Replicas]:
    kept = {partition: some for partition, some in replicas.items() if partition != index}
    return {**kept, index: found} if found else kept
