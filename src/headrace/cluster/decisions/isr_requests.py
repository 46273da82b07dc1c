"""A leader's request for another ISR (AlterPartition): refusals, and the change. Pure."""

from collections.abc import Iterator

from headrace.cluster.decisions import changes
from headrace.cluster.decisions.facts import Change, ClusterFacts
from headrace.cluster.store.stored_topic import NEVER_LED, StoredTopic
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId
from headrace.replication.controller_calls import AskedIsr

OUTDATED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION)
"""Refusals of a leader that does not know the partition's present state."""


def refusal(
    facts: ClusterFacts, topic: StoredTopic | None, broker: BrokerId, asked: AskedIsr
) -> ErrorCode:
    """Return why broker `broker` may not change the ISR as it asks; NONE: it may."""
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = asked.topic_partition
    state = topic.states.get(partition.partition, NEVER_LED)
    version = topic.versions.get(partition.partition, -1)
    if asked.leader_epoch > state.leader_epoch or asked.partition_epoch > version:
        return ErrorCode.NOT_CONTROLLER  # the leader has orders of a later controller
    if asked.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker != state.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < version:
        # Asked again after a lost answer: what is wanted has been written.
        done = asked.isr == state.isr and asked.partition_epoch == version - 1
        return ErrorCode.NONE if done else ErrorCode.INVALID_UPDATE_VERSION
    replicas = topic.node.partitions[partition.partition]
    if state.leader not in asked.isr or not set(asked.isr) <= set(replicas):
        return ErrorCode.INVALID_REQUEST
    joining = set(asked.isr) - set(state.isr)
    if not all(facts.may_lead(replica, partition) for replica in joining):
        return ErrorCode.INELIGIBLE_REPLICA
    if not all(map(facts.is_registered_as, asked.isr, asked.epochs)):
        return ErrorCode.INELIGIBLE_REPLICA  # the replica has restarted since (KIP-903)
    return ErrorCode.NONE


def changed(
    facts: ClusterFacts, topic: StoredTopic, index: int, asked: AskedIsr
) -> Iterator[Change]:
    """Yield the change that makes the ISR as a leader has asked, unless it is so."""
    state = topic.states[index]
    if asked.isr == state.isr and asked.partition_epoch < topic.versions.get(index, -1):
        return  # else written, so that an earlier lost request is fenced
    # Whoever is in the ISR has followed the leader that was elected uncleanly.
    recovering = state.recovering and not set(topic.node.partitions[index]) <= set(asked.isr)
    after = state._replace(isr=asked.isr, recovering=recovering)
    yield changes.state_change(facts, topic, index, after, told=False)
