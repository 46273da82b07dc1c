"""ConsumerGroupDescribe (key 69, v0-v1): groups of the newer protocol, their members and targets.

* A classic group is GROUP_ID_NOT_FOUND here: DescribeGroups knows it.
v1 whether a member speaks the classic protocol
"""

import uuid
from collections.abc import Iterable

from headrace.coordination.groups.consumer.messages import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopic,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import (
    OPERATIONS_UNKNOWN,
    Entity,
    Make,
    maker,
)
from headrace.frontends.kafka.groups.describe_groups import ALL_OPERATIONS
from headrace.model.errors import ErrorCode

_CLASSIC, _CONSUMER = 0, 1


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer at once, for each group."""
    make = maker(context)
    asked = request.include_authorized_operations
    groups = context.coordinators.groups
    return make(
        None,
        groups=tuple(
            _group(make, groups.describe_consumer(group_id), asked)
            for group_id in request.group_ids
        ),
    )


def _group(make: Make, group: DescribedConsumerGroup, operations_asked: bool) -> Entity:
    known = operations_asked and group.error is ErrorCode.NONE
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
        authorized_operations=ALL_OPERATIONS if known else OPERATIONS_UNKNOWN,
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
