"""ShareGroupHeartbeat (key 76, v1): join, stay in, or leave a share group (KIP-932).

- `__consumer_offsets` and `__share_group_state` are created with the first join.
- Answered once the change is committed. The state of new partitions is initialized afterwards; they
  are assigned then, in the answer to a later heartbeat.
"""

from functools import partial

from headrace.coordination.groups.modern.heartbeat import HeartbeatAnswer
from headrace.coordination.groups.share.heartbeat import Heartbeat
from headrace.coordination.groups.share.model import JOIN_EPOCH, Assigned, by_topic
from headrace.frontends.kafka.authentication.authorisation import (
    DESCRIBE_TOPIC,
    READ_GROUP,
    refusal,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    maker,
    milliseconds,
    uuid_of,
)
from headrace.frontends.kafka.groups import member_owners
from headrace.frontends.kafka.share import share_topics
from headrace.model.errors import ApiError, ErrorCode
from headrace.posix.awaiting import called_back


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer a member's heartbeat once its change is committed, or at once with an error."""
    topics = request.subscribed_topic_names
    forbidden = refusal(context, READ_GROUP, request.group_id)
    for name in topics or ():
        forbidden = forbidden or refusal(context, DESCRIBE_TOPIC, name)
    if forbidden is not None:
        return _answer(context, HeartbeatAnswer(forbidden.code, forbidden.message))
    if member_owners.is_anothers(context, request.group_id, request.member_id):
        return _answer(context, HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
    heartbeat = Heartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.rack_id,
        None if topics is None else tuple(topics),
        context.client_id or "",
        f"/{context.identity.host}",
    )
    if heartbeat.epoch == JOIN_EPOCH:
        try:
            await share_topics.ensure(context)
        except ApiError as error:
            return _answer(context, HeartbeatAnswer(error.code, error.message))

    ask = partial(context.coordinators.share.heartbeat, heartbeat)
    answer = await called_back(ask)
    if answer.error is ErrorCode.NONE:
        owns = member_owners.forget if heartbeat.epoch < JOIN_EPOCH else member_owners.learn
        owns(context, request.group_id, answer.member_id or request.member_id)
    return _answer(context, answer)


def _answer(context: RequestContext, answer: HeartbeatAnswer[Assigned]) -> Entity:
    make = maker(context)
    assignment = None
    if answer.assigned is not None:
        parts = by_topic(answer.assigned)
        assignment = make(
            "Assignment",
            topic_partitions=tuple(
                make("TopicPartitions", topic_id=uuid_of(topic_id), partitions=indexes)
                for topic_id, indexes in parts.items()
            ),
        )
    return make(
        None,
        error_code=answer.error,
        error_message=answer.message,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval=milliseconds(answer.interval_ms),
        assignment=assignment,
    )
