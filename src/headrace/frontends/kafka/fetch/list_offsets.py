"""ListOffsets (key 2, v1-v11): return offsets by timestamp, or the first and end offsets.

- -1 is the end that this client may read, -2 the log start offset, -3 the record with the greatest
  timestamp (v7). Without tiered storage -4 is the log start offset (v8), and -5 (v9) and -6 (v11)
  have no offset: -1.
- A timestamp is answered with the first record at or after it, or -1 if this client may not read
  that record yet. Timestamps are looked up on a thread, as they may need the disk.
- Records acknowledged with acks=1 become readable with the next flush. If only this broker's flush
  is missing, the answer waits for it, so that the end includes what the producer knows to be
  written.
- A debugging client (replica id -2) gets the log end offset, from followers too, as in Kafka.
- OFFSET_NOT_AVAILABLE if a new leader does not know its high watermark yet (KIP-207); before v5
  LEADER_NOT_AVAILABLE. A follower gets the log end offset, which is always known.
"""

from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.kafka.authentication.authorisation import DESCRIBE_TOPIC, require
from headrace.frontends.kafka.authentication.between_brokers import may_be_replica
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import LeaderEpoch
from headrace.net.pending import Pending
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import list_offsets as wire
from headrace.wire.kafka.hot.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    PartitionRequest,
    PartitionResponse,
    TopicResponse,
)

if TYPE_CHECKING:
    from headrace.broker.partition import Partition

READ_COMMITTED = 1
DEBUGGING = -2
"""The replica id of a client that compares replicas (Kafka's DEBUGGING_REPLICA_ID)."""
_NOT_AVAILABLE_SINCE = 5
_STARTS = (wire.EARLIEST, wire.EARLIEST_LOCAL)
_SINCE = {
    wire.MAX_TIMESTAMP: 7,
    wire.EARLIEST_LOCAL: 8,
    wire.LATEST_TIERED: 9,
    wire.EARLIEST_PENDING_UPLOAD: 11,
}
_Found = tuple[int, int, LeaderEpoch] | None
FLUSH_SECONDS_MAX = 5.0
"""Seconds to wait for a flush; then the end is answered as known."""


class _Lookup(NamedTuple):
    """An answer that needs a flush or a search: its place in the response, and the request."""

    topic: int
    at: int
    partition: "Partition"
    asked: PartitionRequest


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer ListOffsets, at once or after flushes and searches on a thread."""
    version = context.version
    request = wire.decode_request(version, body)
    committed = request.isolation_level == READ_COMMITTED
    for_replica = request.replica_id >= 0 and may_be_replica(context, request.replica_id)
    end_of_all = for_replica or request.replica_id == DEBUGGING
    answers: list[list[PartitionResponse]] = []
    lookups: list[_Lookup] = []
    for topic in request.topics:
        answers.append([])
        for asked in topic.partitions:
            answer: PartitionResponse | None
            try:
                if not for_replica:
                    require(context, DESCRIBE_TOPIC, topic.name)
                partition = _partition(context, request.replica_id, topic.name, asked)
                partition.check_epoch(asked.current_leader_epoch)
                if end_of_all and asked.timestamp == wire.LATEST:
                    answer = _end_for_replica(partition, asked)
                elif asked.timestamp not in _STARTS and partition.role.awaits_own_flush:
                    answer = None
                else:
                    answer = _end_of_log(version, partition, asked, committed)
            except ApiError as error:
                context.broker.metrics.api(ApiKey.LIST_OFFSETS).failed(error.code)
                answer = _refusal(version, asked.partition, error.code)
            if answer is None:
                lookups.append(_Lookup(len(answers) - 1, len(answers[-1]), partition, asked))
                answer = PartitionResponse(asked.partition)
            answers[-1].append(answer)
    if not lookups:
        return _encode(version, request, answers)
    return _Postponed(context, request, answers, lookups, committed).begin()


def _partition(
    context: RequestContext, replica_id: int, topic: str, asked: PartitionRequest
) -> "Partition":
    """Return a partition led by this broker, or a followed one for a debugging client."""
    broker = context.broker
    if replica_id == DEBUGGING and asked.timestamp == wire.LATEST:
        followed = broker.followed.get((topic, asked.partition))
        if followed is not None:
            return followed
    return broker.partition(topic, asked.partition)


def _refusal(version: int, index: int, code: ErrorCode) -> PartitionResponse:
    if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_SINCE:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    return PartitionResponse(index, code)


def _end_for_replica(partition: "Partition", asked: PartitionRequest) -> PartitionResponse:
    if partition.refusal is not None and partition.role.follower is None:
        raise ApiError(partition.refusal)
    end = partition.log.end_offset
    return PartitionResponse(asked.partition, 0, -1, end, partition.leader_epoch)


def _end_of_log(
    version: int, partition: "Partition", asked: PartitionRequest, committed: bool
) -> PartitionResponse | None:
    """Return the answer for a special timestamp, such as EARLIEST or LATEST; None: search by time.

    Raises ApiError: UNSUPPORTED_VERSION, INVALID_REQUEST, or the end offset is not known yet.
    """
    index, timestamp, _ = asked
    since = _SINCE.get(timestamp)
    if since is not None and version < since:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if timestamp == wire.LATEST:
        partition.check_end_known()
        end = partition.readable_end(committed)
        return PartitionResponse(index, 0, -1, end, partition.leader_epoch)
    if timestamp in _STARTS:
        start = partition.log.start_offset
        return PartitionResponse(index, 0, -1, start, _epoch_of_start(partition))
    if timestamp in (wire.LATEST_TIERED, wire.EARLIEST_PENDING_UPLOAD):
        return PartitionResponse(index)
    if timestamp < wire.EARLIEST_PENDING_UPLOAD:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return None


def _epoch_of_start(partition: "Partition") -> int:
    entries = partition.log.epochs.entries
    start = partition.log.start_offset
    if entries and entries[0][1] <= start:
        return entries[0][0]
    return -1


class _Postponed:
    """A request with partitions that wait for a flush, a search on the disk, or both."""

    def __init__(
        self,
        context: RequestContext,
        request: ListOffsetsRequest,
        answers: list[list[PartitionResponse]],
        lookups: list[_Lookup],
        committed: bool,
    ) -> None:
        self._broker = context.broker
        self._deadlines = context.shared.deadlines
        self._version = context.version
        self._request = request
        self._answers = answers
        self._lookups = lookups
        self._committed = committed
        self._flushing = 0
        self._looking = False
        self._pending = Pending()

    def begin(self) -> Pending:
        """Wait for each partition's flush once, then search; return the pending answer."""
        partitions = {lookup.partition: None for lookup in self._lookups}
        awaited = [partition for partition in partitions if partition.role.awaits_own_flush]
        self._flushing = len(awaited)
        for partition in awaited:
            partition.role.when_flushed(self._flushed)
        if not awaited:
            self._look_up()
        elif not self._pending.done:
            self._deadlines.add(self._pending, FLUSH_SECONDS_MAX, self._look_up)
        return self._pending

    def _flushed(self, _: ApiError | None) -> None:
        # The partition reports an error itself, when it is asked for its end.
        self._flushing -= 1
        if self._flushing == 0:
            self._look_up()

    def _look_up(self) -> None:
        if self._looking or self._pending.done:
            return
        self._looking = True
        searches = [lookup for lookup in self._lookups if not self._answer_end(lookup)]
        if not searches:
            self._resolve()
            return

        def work() -> "list[_Found | ApiError]":
            return [_search(lookup.partition, lookup.asked.timestamp) for lookup in searches]

        def done(outcome: "list[_Found | ApiError] | BaseException") -> None:
            if isinstance(outcome, BaseException):
                # The segment was deleted during the search: by retention, or with its topic.
                outcome = [ApiError(ErrorCode.KAFKA_STORAGE_ERROR)] * len(searches)
            for lookup, found in zip(searches, outcome, strict=True):
                self._answer_search(lookup, found)
            self._resolve()

        self._broker.disk.run(work, done)

    def _answer_end(self, lookup: _Lookup) -> bool:
        """Answer a lookup that needs no search; return whether it was answered."""
        partition, asked = lookup.partition, lookup.asked
        try:
            if partition.refusal is not None:
                raise ApiError(partition.refusal)
            answer = _end_of_log(self._version, partition, asked, self._committed)
        except ApiError as error:
            self._broker.metrics.api(ApiKey.LIST_OFFSETS).failed(error.code)
            answer = _refusal(self._version, asked.partition, error.code)
        if answer is None:
            return False
        self._answers[lookup.topic][lookup.at] = answer
        return True

    def _answer_search(self, lookup: _Lookup, found: "_Found | ApiError") -> None:
        partition, index = lookup.partition, lookup.asked.partition
        answers = self._answers[lookup.topic]
        if isinstance(found, ApiError):
            answers[lookup.at] = PartitionResponse(index, found.code)
        elif found is not None and found[1] < partition.readable_end(self._committed):
            answers[lookup.at] = PartitionResponse(index, 0, *found)
        elif not partition.role.knows_end:
            code = ErrorCode.OFFSET_NOT_AVAILABLE
            answers[lookup.at] = _refusal(self._version, index, code)

    def _resolve(self) -> None:
        self._pending.resolve(_encode(self._version, self._request, self._answers))


def _search(partition: "Partition", timestamp: int) -> "_Found | ApiError":
    """Search the log for a timestamp; return the offset, None or the error. Blocking."""
    try:
        if timestamp == wire.MAX_TIMESTAMP:
            return partition.log.max_timestamp_offset()
        return partition.log.offset_for_time(timestamp)
    except ApiError as error:
        return error


def _encode(
    version: int, request: ListOffsetsRequest, answers: list[list[PartitionResponse]]
) -> bytes:
    topics = [
        TopicResponse(topic.name, partitions)
        for topic, partitions in zip(request.topics, answers, strict=True)
    ]
    return wire.encode_response(version, ListOffsetsResponse(topics))
