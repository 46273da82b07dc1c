"""Who leads a partition next. Pure: asks the facts, changes nothing."""

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

    The first in the order of the assignment that may lead, is in the ISR and in no doubt; the ISR
    keeps those that are served and in no doubt either. Without one, where all of the ISR are back
    and in doubt, the one with most of the log; or if `unclean` (by default as configured), the
    first that may lead, those last whose log was changed by hand. Where `unclean` was asked for,
    and all replicas are here and gone, the first of them leads an empty log. Such a leader
    is the whole ISR, and may lack committed records. Else nobody, and the ISR stays: one of them
    has what was acknowledged.
    """
    partition = TopicPartition(topic.name, index)
    state = topic.states.get(index, NEVER_LED)
    replicas = topic.node.partitions[index]
    able = [broker for broker in replicas if facts.may_lead(broker, partition)]
    isr = tuple(broker for broker in state.isr if broker in replicas)
    # A partition that nobody has led yet has no records: any of its replicas will do.
    candidates = [
        broker
        for broker in able
        if state is NEVER_LED or (broker in isr and (broker, partition) not in facts.doubts)
    ]
    epoch = LeaderEpoch(state.leader_epoch + 1)
    if candidates:
        leader = min(candidates, key=facts.damage_of(partition))  # the first that is sound
        if state is NEVER_LED:
            served = tuple(broker for broker in replicas if facts.serves(broker, partition))
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
    """Return those of the ISR that are served, and have what was committed."""
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
    """Return the replica of `able` that may lead though it may lack committed records."""
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
    """Return the replica of `left` with the greatest end, if all of the ISR are in doubt.

    None where the log of one was changed by hand and there are replicas outside of the ISR: these
    may have more.
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
    """Return the partition's state now that replicas have come back; None: it stays as it is.

    Who is in doubt leaves the ISR, which has another leader then; the last of it stays, and leads
    where all of the ISR are back.
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
    """Return the partition's state once `gone` serve it no longer; None: it stays as it is.

    Their leadership goes to another, they leave the ISR; the last of the ISR stays in it.
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
    if state.leader == NO_LEADER or len(isr) == len(state.isr):  # a leader stays in it
        return None
    return state._replace(isr=isr, leader_epoch=LeaderEpoch(state.leader_epoch + 1))


def led_by_sound(facts: ClusterFacts, topic: StoredTopic, index: int) -> PartitionState | None:
    """Return the partition's state once a damaged leader has handed it to a sound in-sync replica.

    None: it stays as it is; a damaged leader leads on where there is no other.
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
    """Return the partition's state once a broker that shuts down has handed it over.

    None: it stays as it is; so does what nobody else in sync could lead, and what nobody leads:
    the last of its ISR have what was acknowledged.
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
    heirs.sort(key=facts.damage_of(partition))
    served = tuple(broker for broker in others if facts.serves(broker, partition))
    epoch = LeaderEpoch(state.leader_epoch + 1)
    return state._replace(leader=heirs[0], leader_epoch=epoch, isr=served)


def preferred(facts: ClusterFacts, topic: StoredTopic, index: int) -> PartitionState | None:
    """Return the partition's state with its preferred replica as leader.

    None where that cannot be.
    """
    first = topic.node.partitions[index][0]
    state = topic.states.get(index, NEVER_LED)
    partition = TopicPartition(topic.name, index)
    if first not in state.isr or not facts.may_lead(first, partition):
        return None
    if (first, partition) in facts.doubts:
        return None
    damaged = facts.damage_of(partition)
    if damaged(first) and not all(map(damaged, state.isr)):
        return None
    return state._replace(leader=first, leader_epoch=LeaderEpoch(state.leader_epoch + 1))
