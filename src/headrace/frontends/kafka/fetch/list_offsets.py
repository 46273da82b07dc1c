"""ListOffsets (key 2, v1-v11): return offsets by timestamp, or the first and end offsets.

* -1 is the end of what this reader may see, -2 the log's start, -3 the record with the greatest
  timestamp (v7). Without tiered storage -4 is the log's start (v8), and -5 (v9) and -6 (v11) name
  nothing: offset -1.
* A time is answered with the first record not older; one that this reader may not see yet counts as
  none. Times are looked up on a thread: they may need the disk.
* Records that were acknowledged with acks=1 become readable with the next flush. Where only the own
  flush is missing the answer waits for it, so that the end has what the client knows to be written.
* A debugging client (replica id -2) gets the end of the log itself, from followers too, like Kafka.
* OFFSET_NOT_AVAILABLE where that needs an end that a new leader does not know yet (KIP-207); before
  v5 LEADER_NOT_AVAILABLE. For a follower the end is the log's, which is known always.
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
"""A disk that takes longer has the end told as it is known."""


class _Lookup(NamedTuple):
    """Where an answer that is not known yet belongs, and what to look for in which partition."""

    topic: int
    at: int
    partition: "Partition"
    asked: PartitionRequest


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer one ListOffsets request."""
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
    """Return the partition that is led here, or followed if a debugging client asks for its end."""
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
    """Return the answer that needs no search, or None."""
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
    """A request some of whose partitions wait for their flush, for the disk, or for both."""

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
        """Wait for the flushes, each partition's once; then look up."""
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
        # An error is told again by the partition itself, when it is asked where it ends.
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
                # The segment went while it was read: retention, or the topic's deletion.
                outcome = [ApiError(ErrorCode.KAFKA_STORAGE_ERROR)] * len(searches)
            for lookup, found in zip(searches, outcome, strict=True):
                self._answer_search(lookup, found)
            self._resolve()

        self._broker.disk.run(work, done)

    def _answer_end(self, lookup: _Lookup) -> bool:
        """Answer one that needs no search; whether it was."""
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
    """Look a time up. Blocking."""
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
