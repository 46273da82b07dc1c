"""ConsumerGroupHeartbeat (key 68, v0-v1): join, stay in, or leave a group of the consumer protocol.

- Member epoch 0 joins, -1 leaves, -2 leaves temporarily (static members); KIP-848.
- Answered when the member's new state is committed in `__consumer_offsets`.

Versions: v1 member ids made by clients, subscriptions by regular expression
"""

import uuid
from collections.abc import Iterable, Mapping
from datetime import timedelta

from headrace.coordination.groups.assignors.spec import Partitions
from headrace.coordination.groups.consumer.messages import HeartbeatRequest, Permissions
from headrace.coordination.groups.consumer.model import LEAVE_EPOCH, OwnedPartitions
from headrace.coordination.groups.modern.heartbeat import HeartbeatAnswer
from headrace.frontends.kafka.authentication.authorisation import (
    DESCRIBE_TOPIC,
    READ_GROUP,
    permits,
    refusal,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, maker
from headrace.frontends.kafka.groups import member_owners
from headrace.model.errors import ErrorCode
from headrace.net.pending import Pending
from headrace.wire.kafka import kio_codec

_CLIENT_IDS_SINCE = 1
_MILLISECOND = timedelta(milliseconds=1)


def handle(context: RequestContext, request: Entity) -> Pending:
    """Answer a heartbeat once its change is committed, or at once with an error."""
    pending = Pending()
    topics = request.subscribed_topic_names
    forbidden = refusal(context, READ_GROUP, request.group_id)
    for name in topics or ():
        forbidden = forbidden or refusal(context, DESCRIBE_TOPIC, name)
    if forbidden is not None:
        _answer(context, pending, HeartbeatAnswer(forbidden.code, forbidden.message))
        return pending
    if member_owners.is_anothers(context, request.group_id, request.member_id):
        _answer(context, pending, HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        return pending
    heartbeat = HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        client_id=context.client_id or "",
        client_host=f"/{context.identity.host}",
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout // _MILLISECOND,
        topics=None if topics is None else frozenset(topics),
        regex=getattr(request, "subscribed_topic_regex", None),
        assignor=request.server_assignor,
        owned=_owned(request.topic_partitions),
        needs_member_id=context.version >= _CLIENT_IDS_SINCE,
        permissions=_permissions(context),
    )

    def beaten(answer: HeartbeatAnswer[OwnedPartitions]) -> None:
        if answer.error is ErrorCode.NONE:
            owns = (
                member_owners.forget if request.member_epoch == LEAVE_EPOCH else member_owners.learn
            )
            owns(context, request.group_id, answer.member_id or request.member_id)
        _answer(context, pending, answer)

    context.coordinators.groups.consumer_heartbeat(heartbeat, beaten)
    return pending


def _permissions(context: RequestContext) -> Permissions | None:
    authorizer = context.broker.authorizer
    if authorizer.allows_all:
        return None
    return Permissions(
        authorizer.version, lambda topic: permits(context, DESCRIBE_TOPIC, topic, told=False)
    )


def _owned(topics: Iterable[Entity] | None) -> Partitions | None:
    if topics is None:
        return None
    return {
        topic.topic_id.bytes: frozenset(topic.partitions)
        for topic in topics
        if topic.topic_id is not None
    }


def _answer(
    context: RequestContext, pending: Pending, answer: HeartbeatAnswer[OwnedPartitions]
) -> None:
    if pending.done:
        return
    make = maker(context)
    response = make(
        None,
        error_code=answer.error,
        error_message=answer.message,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval=answer.interval_ms * _MILLISECOND,
        assignment=None if answer.assigned is None else _assignment(make, answer.assigned),
    )
    pending.resolve(kio_codec.encode_body(response))


def _assignment(make: Make, assigned: Mapping[bytes, Iterable[int]]) -> Entity:
    topics = tuple(
        make("TopicPartitions", topic_id=uuid.UUID(bytes=topic_id), partitions=tuple(sorted(parts)))
        for topic_id, parts in assigned.items()
    )
    return make("Assignment", topic_partitions=topics)
