"""The next leader and ISR of a partition. Pure: read the facts, return a new state."""

from collections.abc import Sequence

from headrace.broker.metadata_image import NO_LEADER
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.store.stored_doubts import GONE
from headrace.cluster.store.stored_topic import NEVER_LED, StoredTopic
from headrace.cluster.store.znodes import PartitionState
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition


def elected(
    facts: ClusterFacts, topic: StoredTopic, index: int, *, unclean: bool | None = None
) -> PartitionState:
    """Return the partition's state after an election, under the next leader epoch.

        1  the first assigned replica that may lead, is in the ISR and not in doubt (never led: any)
           (brokers that seem to be dead last, damaged replicas and drained brokers before them).
           The ISR keeps the served members not in doubt; the first one has no other broker that
           seems to be dead
        2  if all ISR members are back and in doubt: the one with the greatest epoch and end offset
        3  if `unclean` (None: as configured): the first that may lead; last those changed by hand
        4  if `unclean` is True and all replicas' logs are gone: the first, with an empty log
        5  else no leader, and the ISR stays: one of its members has the acknowledged records

    In cases 2 to 4 the leader is the only ISR member and may lack committed records.
    """
    partition = TopicPartition(topic.name, index)
    state = topic.states.get(index, NEVER_LED)
    replicas = topic.node.partitions[index]
    able = [broker for broker in replicas if facts.may_lead(broker, partition)]
    isr = tuple(broker for broker in state.isr if broker in replicas)
    # A partition that was never led has no records: any of its replicas may lead.
    candidates = [
        broker
        for broker in able
        if state is NEVER_LED or (broker in isr and (broker, partition) not in facts.doubts)
    ]
    epoch = LeaderEpoch(state.leader_epoch + 1)
    if candidates:
        rank = facts.rank_of(partition)
        leader = min(candidates, key=lambda each: (facts.is_suspected(each), rank(each)))
        if state is NEVER_LED:
            served = tuple(
                broker
                for broker in replicas
                if facts.serves(broker, partition)
                and (broker == leader or not facts.is_suspected(broker))
            )
        else:
            served = _trusted(facts, partition, isr)
        recovering = state.recovering and not set(replicas) <= set(served)
        return state._replace(leader=leader, leader_epoch=epoch, isr=served, recovering=recovering)
    most = _with_doubts(facts, topic, index, able, unclean=unclean)
    if most is not None:
        return state._replace(leader=most, leader_epoch=epoch, isr=(most,), recovering=True)
    return state._replace(leader=NO_LEADER, leader_epoch=epoch, isr=isr or state.isr)


def _trusted(
    facts: ClusterFacts, partition: TopicPartition, members: tuple[BrokerId, ...]
) -> tuple[BrokerId, ...]:
    """Return the ISR members that are served and not in doubt."""
    return tuple(
        broker
        for broker in members
        if facts.serves(broker, partition) and (broker, partition) not in facts.doubts
    )


def _with_doubts(
    facts: ClusterFacts,
    topic: StoredTopic,
    index: int,
    able: Sequence[BrokerId],
    *,
    unclean: bool | None,
) -> BrokerId | None:
    """Return the replica of `able` that may lead although it may lack committed records."""
    partition = TopicPartition(topic.name, index)
    doubts = {
        broker: doubt
        for broker in topic.node.partitions[index]
        if (doubt := facts.doubts.get((broker, partition))) is not None
    }
    left = [broker for broker in able if broker not in doubts or not doubts[broker].is_lost]
    most = _with_most(facts, topic, index, left)
    if most is None and (facts.unclean(topic) if unclean is None else unclean):
        last = [broker for broker in left if broker in doubts and doubts[broker].is_by_hand]
        first = [broker for broker in left if broker not in last]
        most = next(iter((*first, *last)), None)
    if unclean and all(
        broker in doubts and doubts[broker].cause == GONE for broker in topic.node.partitions[index]
    ):
        most = next(iter(able), None)
    return most


def _with_most(
    facts: ClusterFacts, topic: StoredTopic, index: int, left: Sequence[BrokerId]
) -> BrokerId | None:
    """Return the replica of `left` with the greatest end, if all ISR members are in doubt.

    None if a member's log was changed by hand and there are replicas outside of the ISR, as these
    may have more records.
    """
    partition, replicas = TopicPartition(topic.name, index), topic.node.partitions[index]
    isr = [broker for broker in topic.states.get(index, NEVER_LED).isr if broker in replicas]
    if not all(
        facts.serves(broker, partition) and (broker, partition) in facts.doubts for broker in isr
    ):
        return None
    doubts = {broker: facts.doubts[broker, partition] for broker in isr}
    if any(doubt.is_by_hand for doubt in doubts.values()) and len(isr) < len(replicas):
        return None
    members = [broker for broker in left if broker in isr]
    return max(members, key=lambda broker: doubts[broker][:2], default=None)


def returned(facts: ClusterFacts, topic: StoredTopic, index: int) -> PartitionState | None:
    """Return the partition's state after replicas have come back; None: unchanged.

    Without a leader, one is elected. Replicas in doubt leave the ISR if another member leads; a
    leader in doubt is replaced (`elected`).
    """
    partition = TopicPartition(topic.name, index)
    state = topic.states.get(index, NEVER_LED)
    if state.leader == NO_LEADER:
        after = elected(facts, topic, index)
        return None if after.leader == NO_LEADER else after
    doubted = [broker for broker in state.isr if (broker, partition) in facts.doubts]
    if not doubted:
        return None
    if state.leader in doubted:
        return elected(facts, topic, index)
    isr = tuple(broker for broker in state.isr if broker not in doubted)
    return state._replace(isr=isr, leader_epoch=LeaderEpoch(state.leader_epoch + 1))


def without(
    facts: ClusterFacts, topic: StoredTopic, index: int, gone: frozenset[BrokerId]
) -> PartitionState | None:
    """Return the partition's state once brokers `gone` no longer serve it; None: unchanged.

    They leave the ISR, except the last member; their leadership moves to another member.
    """
    state = topic.states.get(index, NEVER_LED)
    partition = TopicPartition(topic.name, index)
    if state.leader in gone or (state.leader, partition) in facts.doubts:
        return elected(facts, topic, index)
    isr = tuple(
        broker
        for broker in state.isr
        if broker not in gone and (broker, partition) not in facts.doubts
    )
    if state.leader == NO_LEADER or len(isr) == len(state.isr):  # the leader is never removed here
        return None
    return state._replace(isr=isr, leader_epoch=LeaderEpoch(state.leader_epoch + 1))


def led_by_sound(facts: ClusterFacts, topic: StoredTopic, index: int) -> PartitionState | None:
    """Return the partition's state with a sound in-sync leader in place of a damaged one.

    None: unchanged, as the leader is sound or no sound member can lead.
    """
    damaged = facts.damage_of(TopicPartition(topic.name, index))
    state = topic.states.get(index, NEVER_LED)
    if not damaged(state.leader):
        return None
    after = elected(facts, topic, index, unclean=False)
    return None if after.leader == NO_LEADER or damaged(after.leader) else after


def moved_from(
    facts: ClusterFacts, topic: StoredTopic, index: int, leaving: BrokerId
) -> PartitionState | None:
    """Return the partition's state after controlled shutdown of broker `leaving`.

    None: unchanged, as no other in-sync replica can lead, or there is no leader.
    """
    partition = TopicPartition(topic.name, index)
    state = topic.states.get(index, NEVER_LED)
    others = tuple(broker for broker in state.isr if broker != leaving)
    if state.leader == NO_LEADER or leaving not in state.isr or not others:
        return None
    if state.leader != leaving:
        return state._replace(isr=others, leader_epoch=LeaderEpoch(state.leader_epoch + 1))
    order = topic.node.partitions[index]
    heirs = [
        replica
        for replica in order
        if replica in others
        and facts.may_lead(replica, partition)
        and (replica, partition) not in facts.doubts
    ]
    if not heirs:
        return None
    heirs.sort(key=facts.rank_of(partition))
    served = tuple(broker for broker in others if facts.serves(broker, partition))
    epoch = LeaderEpoch(state.leader_epoch + 1)
    return state._replace(leader=heirs[0], leader_epoch=epoch, isr=served)


def preferred(facts: ClusterFacts, topic: StoredTopic, index: int) -> PartitionState | None:
    """Return the partition's state with its preferred replica as leader; None: it cannot lead."""
    first = topic.node.partitions[index][0]
    state = topic.states.get(index, NEVER_LED)
    partition = TopicPartition(topic.name, index)
    if first not in state.isr or not facts.may_lead(first, partition):
        return None
    if (first, partition) in facts.doubts:
        return None
    rank = facts.rank_of(partition)
    if rank(first) > min(map(rank, state.isr)):
        return None
    return state._replace(leader=first, leader_epoch=LeaderEpoch(state.leader_epoch + 1))


def led_undrained(facts: ClusterFacts, topic: StoredTopic, index: int) -> PartitionState | None:
    """Return the partition's state with an in-sync leader in place of one on a drained broker.

    None: unchanged, as the leader is not drained, or no sound member on another broker can lead.
    The former leader stays in the ISR.
    """
    partition = TopicPartition(topic.name, index)
    state = topic.states.get(index, NEVER_LED)
    if state.leader not in facts.drained:
        return None
    heirs = [
        replica
        for replica in topic.node.partitions[index]
        if replica in state.isr
        and facts.may_lead(replica, partition)
        and (replica, partition) not in facts.doubts
        and not facts.is_suspected(replica)
        and not any(facts.rank_of(partition)(replica))
    ]
    if not heirs:
        return None
    return state._replace(leader=heirs[0], leader_epoch=LeaderEpoch(state.leader_epoch + 1))
