"""What ShareFetch and ShareAcknowledge do alike: who asks, and what becomes of records."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.coordination.share.acknowledgements import acks_of
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.sessions import SessionKey, TopicPart
from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.kafka.hot.share_common import AskedTopic

if TYPE_CHECKING:
    from headrace.coordination.share.share_service import ShareService

MEMBER_ID_CHARS_MAX = 36
AcksDone = Callable[[dict[TopicPart, ApiError | None]], None]


def session_key(group_id: str | None, member_id: str | None) -> SessionKey:
    """Who asks. ApiError INVALID_REQUEST, in Kafka's words."""
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
    done: AcksDone,
) -> None:
    """Do what a request says of records: each partition for itself; `done` once all is durable."""
    outcomes: dict[TopicPart, ApiError | None] = {}
    left = 1

    def settled(part: TopicPart, error: ApiError | None) -> None:
        nonlocal left
        outcomes[part] = error
        left -= 1
        if left == 0:
            done(outcomes)

    for topic in topics:
        for asked in topic.partitions:
            if not asked.acks:
                continue
            left += 1
            part = (topic.topic_id, asked.partition)
            answered = partial(settled, part)
            share_partition = service.partitions.known(ShareKey(key.group, *part))
            try:
                if share_partition is None:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                acks = acks_of(asked.acks, renew=renew)
            except ApiError as error:
                answered(error)
                continue
            share_partition.acknowledge(key.member, acks, answered)
    left -= 1
    if left == 0:
        done(outcomes)
