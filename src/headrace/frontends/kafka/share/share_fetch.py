"""ShareFetch (key 78, v1-v2): acquire records for a share group's member (KIP-932).

- Acquired records belong to the member for the duration of the lock. Whole batches are returned,
  with the ranges of acquired records.
- Acknowledgements in the request are executed first; the answer waits for both.
- A request for no bytes or no records gets none, and is answered without waiting.
- With less than `min_bytes` available the answer waits up to `max_wait_ms`; any error is answered
  at once.
- A client over its consumer_byte_rate is throttled, and acquires no records meanwhile.
- A session's last request (epoch -1) releases all records that the member still holds, and so does
  the end of its connection.

Versions: v2 acquire modes (KIP-1206), renewals (KIP-1222)
"""

from functools import partial
from typing import TYPE_CHECKING

from headrace.coordination.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionKey,
    ShareSession,
    TopicPart,
)
from headrace.frontends.kafka.authentication.authorisation import READ_GROUP, require
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.groups import member_owners
from headrace.frontends.kafka.share.share_answers import reading_check, session_key, settle
from headrace.frontends.kafka.share.share_reading import Fetched, ShareReading
from headrace.model.errors import ApiError, ErrorCode
from headrace.net.pending import Pending
from headrace.wire.kafka.hot.share_fetch import (
    SharedPartition,
    SharedTopic,
    ShareFetchRequest,
    ShareFetchResponse,
    decode_request,
    encode_response,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.coordination.share.share_service import ShareService
    from headrace.ports.file_ranges import Part
    from headrace.wire.kafka.hot.share_common import AskedTopic

RECORD_LIMIT_MODE = 1
_NOTHING: dict[TopicPart, Fetched] = {}


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer ShareFetch with acquired records, at once or when enough exist."""
    version, service = context.version, context.coordinators.share
    request = decode_request(version, body)
    try:
        key = session_key(request.group_id, request.member_id)
        require(context, READ_GROUP, key.group)
        if member_owners.is_anothers(context, *key):
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        _check_renewal(request)
        session = _session(context, key, request)
    except ApiError as error:
        answer = encode_response(version, ShareFetchResponse(error.code, error.message))
        if error.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return answer
        # There may be room later, and an immediate retry would not help.
        pending = Pending()
        wait = max(request.max_wait_ms, 0) / 1000
        context.shared.deadlines.add(pending, wait, partial(pending.resolve, answer))
        return pending
    final = request.session_epoch == FINAL_EPOCH
    check = reading_check(context)
    fetch = _ShareFetch(service, version, key, session, final=final)
    if not final and request.max_bytes > 0 and request.max_records > 0:
        fetch.reading = ShareReading(
            context.broker,
            service.partitions,
            context.shared.deadlines,
            fetch.pending,
            key,
            tuple(session.partitions),
            bytes_min=request.min_bytes,
            bytes_max=min(request.max_bytes, context.broker.config.fetch_max_bytes),
            records_max=request.max_records,
            exactly=request.acquire_mode == RECORD_LIMIT_MODE,
            wait_seconds=max(request.max_wait_ms, 0) / 1000,
            done=fetch.fetched,
            throttle=context.throttle if context.broker.quotas.active else None,
            check=check,
        )
    fetch.begin(request.topics, renew=request.is_renew_ack, check=check)
    return fetch.pending


def _check_renewal(request: ShareFetchRequest) -> None:
    """Raise ApiError if a request that renews locks also fetches (KIP-1222)."""
    asks = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    if request.is_renew_ack and any(asks):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "max bytes, min bytes, max records and max wait must be 0 where locks are renewed",
        )


def _session(context: RequestContext, key: SessionKey, request: ShareFetchRequest) -> ShareSession:
    """Return the session that a request opens, continues or ends; raise ApiError."""
    service = context.coordinators.share
    if request.session_epoch == INITIAL_EPOCH:
        if any(partition.acks for topic in request.topics for partition in topic.partitions):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        session = service.sessions.open(key, service.limits.sessions_max)
        context.on_close[key] = partial(_connection_ended, service, session)
    else:
        session = service.sessions.resume(key, request.session_epoch)
        if request.session_epoch == FINAL_EPOCH:
            context.on_close.pop(key, None)
            return session
    asked = [
        (topic.topic_id, partition.partition)
        for topic in request.topics
        for partition in topic.partitions
    ]
    forgotten = [
        (topic.topic_id, index) for topic in request.forgotten for index in topic.partitions
    ]
    session.update(asked, forgotten)
    return session


def _connection_ended(service: "ShareService", session: ShareSession) -> None:
    """Release a member's records when its connection ends, unless it has another session."""
    if service.sessions.close(session):
        service.end_session(session)


class _ShareFetch:
    """A ShareFetch request in progress: its acknowledgements and its fetch."""

    def __init__(
        self,
        service: "ShareService",
        version: int,
        key: SessionKey,
        session: ShareSession,
        *,
        final: bool,
    ) -> None:
        self.service = service
        self.version = version
        self.key = key
        self.session = session
        self.final = final
        self.pending = Pending(alone=True)
        self.reading: ShareReading | None = None
        self._settled: dict[TopicPart, ApiError | None] | None = None
        self._fetched: dict[TopicPart, Fetched] | None = None

    def begin(
        self,
        topics: "Sequence[AskedTopic]",
        *,
        renew: bool,
        check: "Callable[[bytes], None] | None",
    ) -> None:
        """Execute acknowledgements and begin the fetch; `check`: as in `share_answers.settle`."""
        settle(self.service, self.key, topics, renew=renew, check=check, done=self._acks_done)
        if self.reading is None:
            self.fetched(_NOTHING)
        else:
            self.reading.begin()

    def _acks_done(self, outcomes: dict[TopicPart, ApiError | None]) -> None:
        self._settled = outcomes
        self._answer()

    def fetched(self, found: dict[TopicPart, Fetched]) -> None:
        """Take the fetch's result, and answer once the acknowledgements are done, too."""
        self._fetched = found
        self._answer()

    def _answer(self) -> None:
        if self._settled is None or self._fetched is None:
            return
        answer = self._encode(self._settled, self._fetched)
        self.reading = None  # breaks a reference cycle
        if self.final:
            self.service.end_session(self.session, partial(self.pending.resolve, answer))
        else:
            self.pending.resolve(answer)

    def _encode(
        self, settled: dict[TopicPart, ApiError | None], fetched: dict[TopicPart, Fetched]
    ) -> "list[Part]":
        topics: dict[bytes, list[SharedPartition]] = {}
        for part in dict.fromkeys((*settled, *fetched)):
            found = fetched.get(part)
            if part not in settled and (found is None or found.is_nothing):
                continue
            topics.setdefault(part[0], []).append(_partition(part, settled.get(part), found))
            if found is not None and found.taken is not None and found.taken.acquired:
                self.session.had_turn(part)
        response = ShareFetchResponse(
            lock_timeout_ms=self.service.settings.lock_ms(self.key.group),
            throttle_ms=0 if self.reading is None else self.reading.wait_ms,
            topics=[SharedTopic(*topic) for topic in topics.items()],
        )
        return encode_response(self.version, response)


def _partition(
    part: TopicPart, ack_error: ApiError | None, found: Fetched | None
) -> SharedPartition:
    error = None if found is None else found.error
    taken = None if found is None else found.taken
    return SharedPartition(
        part[1],
        ErrorCode.NONE if error is None else error.code,
        None if error is None else error.message,
        ErrorCode.NONE if ack_error is None else ack_error.code,
        None if ack_error is None else ack_error.message,
        records=() if taken is None else taken.records,
        acquired=() if taken is None else taken.acquired,
    )
