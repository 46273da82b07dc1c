"""ShareAcknowledge (key 79, v1-v2): acknowledge records for a share group member (KIP-932).

- Answered once the outcome is durable in `__share_group_state`.
- The session's last request (epoch -1) releases all records that the member still holds.

Versions: v2 renewals (KIP-1222)
"""

from functools import partial
from typing import TYPE_CHECKING

from headrace.coordination.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, TopicPart
from headrace.frontends.kafka.authentication.authorisation import READ_GROUP, require
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.groups import member_owners
from headrace.frontends.kafka.share.share_answers import reading_check, session_key, settle
from headrace.model.errors import ApiError, ErrorCode
from headrace.net.pending import Pending
from headrace.wire.kafka.hot.share_acknowledge import (
    SettledPartition,
    SettledTopic,
    ShareAcknowledgeResponse,
    decode_request,
    encode_response,
)

if TYPE_CHECKING:
    from headrace.coordination.share.sessions import ShareSession
    from headrace.coordination.share.share_service import ShareService


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Execute the acknowledgements of a ShareAcknowledge request; answer once they are durable."""
    version, service = context.version, context.coordinators.share
    request = decode_request(version, body)
    try:
        key = session_key(request.group_id, request.member_id)
        require(context, READ_GROUP, key.group)
        if member_owners.is_anothers(context, *key):
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if request.session_epoch == INITIAL_EPOCH:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = service.sessions.resume(key, request.session_epoch)
    except ApiError as error:
        return encode_response(version, ShareAcknowledgeResponse(error.code, error.message))
    pending = Pending()
    final = session if request.session_epoch == FINAL_EPOCH else None
    if final is not None:
        context.on_close.pop(key, None)
    lock_ms = service.settings.lock_ms(key.group)
    settled = partial(_settled, service, version, lock_ms, final, pending)
    check = reading_check(context)
    settle(service, key, request.topics, renew=request.is_renew_ack, check=check, done=settled)
    return pending


def _settled(
    service: "ShareService",
    version: int,
    lock_ms: int,
    final: "ShareSession | None",
    pending: Pending,
    outcomes: dict[TopicPart, ApiError | None],
) -> None:
    topics: dict[bytes, list[SettledPartition]] = {}
    for (topic_id, index), error in outcomes.items():
        settled = (
            SettledPartition(index)
            if error is None
            else SettledPartition(index, error.code, error.message)
        )
        topics.setdefault(topic_id, []).append(settled)
    response = ShareAcknowledgeResponse(
        lock_timeout_ms=lock_ms, topics=[SettledTopic(*topic) for topic in topics.items()]
    )
    answer = encode_response(version, response)
    if final is None:
        pending.resolve(answer)
    else:
        service.end_session(final, partial(pending.resolve, answer))
