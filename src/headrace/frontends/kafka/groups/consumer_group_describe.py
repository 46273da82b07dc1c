"""ConsumerGroupDescribe (key 69, v0-v1): return consumer protocol groups, members and targets.

- A classic group is answered GROUP_ID_NOT_FOUND: it is described by DescribeGroups.

Versions: v1 whether a member speaks the classic protocol
"""

import uuid
from collections.abc import Iterable

from headrace.coordination.groups.consumer.messages import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopic,
)
from headrace.frontends.kafka.authentication.authorisation import (
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    authorization_failed,
    operations,
    permits,
    refused,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import (
    OPERATIONS_UNKNOWN,
    Entity,
    Make,
    maker,
)
from headrace.model.errors import ErrorCode
from headrace.security.authorizer import ResourceType

_CLASSIC, _CONSUMER = 0, 1
HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer ConsumerGroupDescribe with each group's members, assignments and targets."""
    make = maker(context)
    asked = request.include_authorized_operations
    groups = (_described(context, group_id) for group_id in request.group_ids)
    return make(None, groups=tuple(_group(context, make, group, asked) for group in groups))


def _described(context: RequestContext, group_id: str) -> DescribedConsumerGroup:
    """Return a group as the client may see it: nothing if one of its topics is not permitted."""
    if not permits(context, DESCRIBE_GROUP, group_id):
        error = authorization_failed(ResourceType.GROUP)
        return DescribedConsumerGroup(group_id, error.code, error.message)
    group = context.coordinators.groups.describe_consumer(group_id)
    members = group.members
    topics = (topic.name for member in members for topic in (*member.assigned, *member.target))
    subscribed = (name for member in members for name in member.topics)
    if refused(context, DESCRIBE_TOPIC, (*topics, *subscribed)):
        return DescribedConsumerGroup(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS)
    return group


def _group(
    context: RequestContext, make: Make, group: DescribedConsumerGroup, operations_asked: bool
) -> Entity:
    may = OPERATIONS_UNKNOWN
    if operations_asked and group.error is ErrorCode.NONE:
        may = operations(context, ResourceType.GROUP, group.group_id)
    return make(
        "DescribedGroup",
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=tuple(_member(make, member) for member in group.members),
        authorized_operations=may,
    )


def _member(make: Make, member: DescribedConsumer) -> Entity:
    return make(
        "Member",
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        subscribed_topic_regex=member.regex,
        assignment=_assignment(make, member.assigned),
        target_assignment=_assignment(make, member.target),
        member_type=_CLASSIC if member.is_classic else _CONSUMER,
    )


def _assignment(make: Make, topics: Iterable[DescribedTopic]) -> Entity:
    return make(
        "Assignment",
        topic_partitions=tuple(
            make(
                "TopicPartitions",
                topic_id=uuid.UUID(bytes=topic.topic_id),
                topic_name=topic.name,
                partitions=topic.partitions,
            )
            for topic in topics
        ),
    )
