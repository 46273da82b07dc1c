"""ShareGroupDescribe (key 77, v1): return share groups' members and assignments (KIP-932)."""

from headrace.coordination.groups.share.model import ShareMember, by_topic
from headrace.coordination.share.share_service import DescribedShareGroup
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
    uuid_of,
)
from headrace.frontends.kafka.groups.consumer_group_describe import HIDDEN_TOPICS
from headrace.model.errors import ErrorCode
from headrace.security.authorizer import ResourceType

DEAD = "Dead"


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer ShareGroupDescribe with each group's members and assignments."""
    make = maker(context)
    asked = request.include_authorized_operations
    groups = tuple(
        _group(context, make, _described(context, group_id), asked)
        for group_id in dict.fromkeys(request.group_ids)
    )
    return make(None, groups=groups)


def _described(context: RequestContext, group_id: str) -> DescribedShareGroup:
    """Return a group as the client may see it: nothing if one of its topics is not permitted."""
    if not permits(context, DESCRIBE_GROUP, group_id):
        error = authorization_failed(ResourceType.GROUP)
        return DescribedShareGroup(group_id, error.code, error.message)
    described = context.coordinators.share.describe(group_id)
    if described.group is None:
        return described
    topics = context.broker.image.topics_by_id
    names: set[str] = set()
    for member in described.group.members.values():
        names.update(member.subscription.topics)
        assigned = by_topic(member.standing.assigned)
        names.update(topics[topic_id].name for topic_id in assigned if topic_id in topics)
    if refused(context, DESCRIBE_TOPIC, names):
        return DescribedShareGroup(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS)
    return described


def _group(
    context: RequestContext, make: Make, described: DescribedShareGroup, operations_asked: bool
) -> Entity:
    group = described.group
    may = OPERATIONS_UNKNOWN
    if operations_asked and described.error is ErrorCode.NONE:
        may = operations(context, ResourceType.GROUP, described.group_id)
    members = () if group is None else tuple(group.members.values())
    return make(
        "DescribedGroup",
        error_code=described.error,
        error_message=described.message,
        group_id=described.group_id,
        group_state=DEAD if group is None else group.state,
        group_epoch=0 if group is None else group.epoch,
        assignment_epoch=0 if group is None else group.target_epoch,
        assignor_name="" if group is None else described.assignor,
        members=tuple(_member(context, make, member) for member in members),
        authorized_operations=may,
    )


def _member(context: RequestContext, make: Make, member: ShareMember) -> Entity:
    topics, wants = context.broker.image.topics_by_id, member.subscription
    return make(
        "Member",
        member_id=member.member_id,
        rack_id=wants.rack_id,
        member_epoch=member.standing.epoch,
        client_id=wants.client_id,
        client_host=wants.client_host,
        subscribed_topic_names=wants.topics,
        assignment=make(
            "Assignment",
            topic_partitions=tuple(
                make(
                    "TopicPartitions",
                    topic_id=uuid_of(topic_id),
                    topic_name=topics[topic_id].name,
                    partitions=indexes,
                )
                for topic_id, indexes in by_topic(member.standing.assigned).items()
                if topic_id in topics
            ),
        ),
    )
