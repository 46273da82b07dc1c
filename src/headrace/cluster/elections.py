"""Who leads a partition next. Pure: asks the facts, changes nothing."""

from headrace.broker.metadata_image import NO_LEADER
from headrace.cluster.cluster_facts import ClusterFacts
from headrace.cluster.stored_topic import NEVER_LED, StoredTopic
from headrace.cluster.znodes import PartitionState
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition


def elected(
    facts: ClusterFacts, topic: StoredTopic, index: int, *, unclean: bool | None = None
) -> PartitionState:
    """Return the partition's state after an election, under the next leader epoch.

    The first in the order of the assignment that may lead and is in the ISR; the ISR keeps those
    that are served. Without one, if `unclean` (by default as configured), the first that may lead,
    which then is the whole ISR; else nobody, and the ISR stays: one of them has what was
    acknowledged.
    """
    partition = TopicPartition(topic.name, index)
    state = topic.states.get(index, NEVER_LED)
    replicas = topic.node.partitions[index]
    able = [broker for broker in replicas if facts.may_lead(broker, partition)]
    isr = tuple(broker for broker in state.isr if broker in replicas)
    # A partition that nobody has led yet has no records: any of its replicas will do.
    candidates = [broker for broker in able if broker in isr or state is NEVER_LED]
    epoch = LeaderEpoch(state.leader_epoch + 1)
    if candidates:
        leader = candidates[0]
        members = replicas if state is NEVER_LED else isr
        served = tuple(broker for broker in members if facts.serves(broker, partition))
        return state._replace(leader=leader, leader_epoch=epoch, isr=served)
    if able and (facts.unclean(topic) if unclean is None else unclean):
        return state._replace(leader=able[0], leader_epoch=epoch, isr=(able[0],))
    return state._replace(leader=NO_LEADER, leader_epoch=epoch, isr=isr or state.isr)


def without(
    facts: ClusterFacts, topic: StoredTopic, index: int, gone: frozenset[BrokerId]
) -> PartitionState | None:
    """Return the partition's state once `gone` serve it no longer; None: it stays as it is.

    Their leadership goes to another, they leave the ISR; the last of the ISR stays in it.
    """
    state = topic.states.get(index, NEVER_LED)
    if state.leader in gone:
        return elected(facts, topic, index)
    isr = tuple(broker for broker in state.isr if broker not in gone)
    if state.leader == NO_LEADER or len(isr) == len(state.isr):  # a leader stays in it
        return None
    return state._replace(isr=isr, leader_epoch=LeaderEpoch(state.leader_epoch + 1))


def moved_from(
    facts: ClusterFacts, topic: StoredTopic, index: int, leaving: BrokerId
) -> PartitionState | None:
    """Return the partition's state once a broker that shuts down has handed it over.

    None: it stays as it is; so does what nobody else in sync could lead.
    """
    partition = TopicPartition(topic.name, index)
    state = topic.states.get(index, NEVER_LED)
    others = tuple(broker for broker in state.isr if broker != leaving)
    if leaving not in state.isr or not others:
        return None
    if state.leader != leaving:
        return state._replace(isr=others, leader_epoch=LeaderEpoch(state.leader_epoch + 1))
    order = topic.node.partitions[index]
    heirs = [
        replica for replica in order if replica in others and facts.may_lead(replica, partition)
    ]
    if not heirs:
        return None
    served = tuple(broker for broker in others if facts.serves(broker, partition))
    epoch = LeaderEpoch(state.leader_epoch + 1)
    return state._replace(leader=heirs[0], leader_epoch=epoch, isr=served)


def preferred(facts: ClusterFacts, topic: StoredTopic, index: int) -> PartitionState | None:
    """Return the partition's state with its preferred replica as leader.

    None where that cannot be.
    """
    first = topic.node.partitions[index][0]
    state = topic.states.get(index, NEVER_LED)
    if first not in state.isr or not facts.may_lead(first, TopicPartition(topic.name, index)):
        return None
    return state._replace(leader=first, leader_epoch=LeaderEpoch(state.leader_epoch + 1))
