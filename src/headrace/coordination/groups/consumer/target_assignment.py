"""The input of a consumer group's assignor."""

from functools import partial

from headrace.coordination.groups.assignors import ASSIGNORS
from headrace.coordination.groups.assignors.spec import GroupSpec, MemberSpec, Partitions
from headrace.coordination.groups.consumer.group import NOTHING, ConsumerGroup
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern import target_assignment
from headrace.coordination.groups.modern.group_change import Turn
from headrace.coordination.groups.modern.target_assignment import Question


def update(turn: Turn[ConsumerGroup]) -> None:
    """Bring the target assignment to the group epoch, now or after the minimum interval."""
    target_assignment.update(turn, question)


def question(shard: ShardContext, group: ConsumerGroup) -> Question[Partitions]:
    """Return the assignor that most members request, with its input."""
    spec = group_spec(shard, group)
    subscribed = sum(len(member.topics) for member in spec.members.values())
    assignor = ASSIGNORS[group.assignor(shard.limits.consumer_assignors[0])]
    return Question(subscribed + sum(spec.partitions.values()), partial(assignor, spec))


def group_spec(shard: ShardContext, group: ConsumerGroup) -> GroupSpec:
    """Convert the group to an assignor's input; equal subscriptions share one set of topics."""
    topics = shard.image().topics
    ids: dict[frozenset[str], frozenset[bytes]] = {}
    counts: dict[bytes, int] = {}
    members: dict[str, MemberSpec] = {}
    for member in group.members.values():
        names = group.topics_of(member.subscription)
        subscribed = ids.get(names)
        if subscribed is None:
            found = [topic for topic in map(topics.get, names) if topic is not None]
            counts.update((topic.topic_id, len(topic.partitions)) for topic in found)
            subscribed = ids[names] = frozenset(topic.topic_id for topic in found)
        members[member.member_id] = MemberSpec(
            subscribed,
            group.target.get(member.member_id, NOTHING),
            member.subscription.instance_id,
        )
    return GroupSpec(members, counts)
