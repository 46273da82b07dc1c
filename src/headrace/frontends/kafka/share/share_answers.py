"""Common code of ShareFetch and ShareAcknowledge: member, permissions, acknowledgements."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.coordination.share.acknowledgements import acks_of
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.sessions import SessionKey, TopicPart
from headrace.frontends.kafka.authentication.authorisation import READ_TOPIC, require
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done, gather
from headrace.wire.kafka.hot.share_common import AskedTopic

if TYPE_CHECKING:
    from headrace.coordination.share.share_service import ShareService
    from headrace.frontends.kafka.connection.handler import RequestContext

MEMBER_ID_CHARS_MAX = 36


def reading_check(context: "RequestContext") -> Callable[[bytes], None] | None:
    """Return a check that raises ApiError for topics, by id, that the client may not read.

    None if everything is allowed. The check may be called after the handler has returned.
    """
    if context.broker.authorizer.allows_all:
        return None
    own = replace(context)

    def check(topic_id: bytes) -> None:
        topic = own.broker.image.topics_by_id.get(topic_id)
        if topic is not None:
            require(own, READ_TOPIC, topic.name)

    return check


def session_key(group_id: str | None, member_id: str | None) -> SessionKey:
    """Return the group and member of a request; raise ApiError INVALID_REQUEST as Kafka does."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not member_id or len(member_id) > MEMBER_ID_CHARS_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return SessionKey(group_id, member_id)


def settle(
    service: "ShareService",
    key: SessionKey,
    topics: Sequence[AskedTopic],
    *,
    renew: bool,
    check: Callable[[bytes], None] | None = None,
    done: Done[dict[TopicPart, ApiError | None]],
) -> None:
    """Execute a request's acknowledgements by partition; call `done` once all are durable.

    `check` raises ApiError for topics, by id, that the client may not read.
    """
    told = [
        ((topic.topic_id, asked.partition), asked.acks)
        for topic in topics
        for asked in topic.partitions
        if asked.acks
    ]
    settled = gather(len(told), done)
    for part, acks in told:
        answered = partial(settled, part)
        share_partition = service.partitions.known(ShareKey(key.group, *part))
        try:
            if check is not None:
                check(part[0])
            if share_partition is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            meant = acks_of(acks, renew=renew)
        except ApiError as error:
            answered(error)
            continue
        share_partition.acknowledge(key.member, meant, answered)
