"""ConsumerGroupDescribe."""

from collections.abc import Mapping

from headrace.broker.metadata_image import MetadataImage
from headrace.coordination.groups.consumer import find_members
from headrace.coordination.groups.consumer.group import NOTHING, ConsumerGroup
from headrace.coordination.groups.consumer.messages import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopic,
)
from headrace.coordination.groups.consumer.model import Member
from headrace.coordination.groups.context import ShardContext
from headrace.model.errors import ErrorCode


def describe(shard: ShardContext, group_id: str) -> DescribedConsumerGroup:
    """Describe a consumer group; ApiError GROUP_ID_NOT_FOUND, also for groups of other types."""
    group = find_members.find(shard, group_id)
    return DescribedConsumerGroup(
        group_id,
        ErrorCode.NONE,
        None,
        group.state.value,
        group.epoch,
        group.target_epoch,
        group.assignor(shard.limits.consumer_assignors[0]),
        tuple(_member(shard.image(), group, member) for member in group.members.values()),
    )


def _member(image: MetadataImage, group: ConsumerGroup, member: Member) -> DescribedConsumer:
    subscription = member.subscription
    return DescribedConsumer(
        member.member_id,
        subscription.instance_id,
        subscription.rack_id,
        member.standing.epoch,
        subscription.client_id,
        subscription.client_host,
        tuple(sorted(subscription.topics)),
        subscription.regex,
        _topics(image, member.standing.assigned),
        _topics(image, group.target.get(member.member_id, NOTHING)),
        member.is_classic,
    )


def _topics(
    image: MetadataImage, partitions: Mapping[bytes, Mapping[int, int] | frozenset[int]]
) -> tuple[DescribedTopic, ...]:
    """Return the partitions by topic; deleted topics are left out, as they have no name."""
    found = []
    for topic_id, parts in partitions.items():
        topic = image.topics_by_id.get(topic_id)
        if topic is not None:
            found.append(DescribedTopic(topic_id, topic.name, tuple(sorted(parts))))
    return tuple(found)
