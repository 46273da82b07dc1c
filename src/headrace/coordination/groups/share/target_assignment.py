"""The input of a share group's assignor."""

from functools import partial

from headrace.broker.metadata_image import MetadataImage
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern import target_assignment
from headrace.coordination.groups.modern.group_change import Turn
from headrace.coordination.groups.modern.target_assignment import Question
from headrace.coordination.groups.share.assignor import Part, assign
from headrace.coordination.groups.share.group import ShareGroup
from headrace.coordination.groups.share.model import Assigned


def update(turn: Turn[ShareGroup]) -> None:
    """Bring the target assignment to the group epoch, now or after the minimum interval."""
    target_assignment.update(turn, question)


def question(shard: ShardContext, group: ShareGroup) -> Question[Assigned]:
    """Return the work for the assignor: each member's subscribed partitions, and the targets.

    Members with equal subscriptions share one set.
    """
    image = shard.image()
    wanted = {member.member_id: member.subscription.topics for member in group.members.values()}
    parts_of = {
        topics: frozenset(part for name in topics for part in _parts_with_state(group, image, name))
        for topics in set(wanted.values())
    }
    asked = {member_id: parts_of[topics] for member_id, topics in wanted.items()}
    size = len(asked) + sum(map(len, set(asked.values())))
    return Question(size, partial(assign, asked, dict(group.target)))


def _parts_with_state(group: ShareGroup, image: MetadataImage, name: str) -> list[Part]:
    topic = image.topics.get(name)
    if topic is None:
        return []
    return [(topic.topic_id, index) for index in group.with_state(topic.topic_id)]
