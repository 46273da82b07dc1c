"""ListOffsets (key 2, v1-v11): offsets for times, or for the ends of the log.

* -1 is the end of what this reader may see, -2 the log's start, -3 the record with the greatest
  timestamp (v7). Without tiered storage -4 is the log's start (v8), and -5 (v9) and -6 (v11) name
  nothing: offset -1.
* A time is answered with the first record not older; one that this reader may not see yet counts as
  none. Times are looked up on a thread: they may need the disk.
* OFFSET_NOT_AVAILABLE where that needs an end that a new leader does not know yet (KIP-207); before
  v5 LEADER_NOT_AVAILABLE. For a follower the end is the log's, which is known always.
"""

from typing import TYPE_CHECKING

from headrace.frontends.kafka.connection.authorisation import DESCRIBE_TOPIC, require
from headrace.frontends.kafka.connection.between_brokers import may_be_replica
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
_NOT_AVAILABLE_SINCE = 5
_SINCE = {
    wire.MAX_TIMESTAMP: 7,
    wire.EARLIEST_LOCAL: 8,
    wire.LATEST_TIERED: 9,
    wire.EARLIEST_PENDING_UPLOAD: 11,
}
_Found = tuple[int, int, LeaderEpoch] | None
_Lookup = tuple[int, int, "Partition", int]
"""Where the answer belongs (topic, place), and what to look for in which partition."""


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer one ListOffsets request."""
    version = context.version
    request = wire.decode_request(version, body)
    committed = request.isolation_level == READ_COMMITTED
    for_replica = request.replica_id >= 0 and may_be_replica(context, request.replica_id)
    answers: list[list[PartitionResponse]] = []
    lookups: list[_Lookup] = []
    for topic in request.topics:
        answers.append([])
        for asked in topic.partitions:
            answer: PartitionResponse | None
            try:
                if not for_replica:
                    require(context, DESCRIBE_TOPIC, topic.name)
                partition = context.broker.partition(topic.name, asked.partition)
                partition.check_epoch(asked.current_leader_epoch)
                if for_replica and asked.timestamp == wire.LATEST:
                    answer = _end_for_replica(partition, asked)
                else:
                    answer = _end_of_log(version, partition, asked, committed)
            except ApiError as error:
                context.broker.metrics.api(ApiKey.LIST_OFFSETS).failed(error.code)
                answer = _refusal(version, asked.partition, error.code)
            if answer is None:
                lookups.append((len(answers) - 1, len(answers[-1]), partition, asked.timestamp))
                answer = PartitionResponse(asked.partition)
            answers[-1].append(answer)
    if not lookups:
        return _encode(version, request, answers)
    return _look_up(context, request, answers, lookups, committed)


def _refusal(version: int, index: int, code: ErrorCode) -> PartitionResponse:
    if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_SINCE:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    return PartitionResponse(index, code)


def _end_for_replica(partition: "Partition", asked: PartitionRequest) -> PartitionResponse:
    if partition.refusal is not None:
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
    if timestamp in (wire.EARLIEST, wire.EARLIEST_LOCAL):
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


def _look_up(
    context: RequestContext,
    request: ListOffsetsRequest,
    answers: list[list[PartitionResponse]],
    lookups: list[_Lookup],
    committed: bool,
) -> Pending:
    version = context.version
    pending = Pending()

    def work() -> "list[_Found | ApiError]":
        found: list[_Found | ApiError] = []
        for _, _, partition, timestamp in lookups:
            log = partition.log
            try:
                if timestamp == wire.MAX_TIMESTAMP:
                    found.append(log.max_timestamp_offset())
                else:
                    found.append(log.offset_for_time(timestamp))
            except ApiError as error:
                found.append(error)
        return found

    def done(outcome: "list[_Found | ApiError] | BaseException") -> None:
        if isinstance(outcome, BaseException):
            # The segment went while it was read: retention, or the topic's deletion.
            outcome = [ApiError(ErrorCode.KAFKA_STORAGE_ERROR)] * len(lookups)
        for (topic, at, partition, _), found in zip(lookups, outcome, strict=True):
            index = answers[topic][at].partition
            if isinstance(found, ApiError):
                answers[topic][at] = PartitionResponse(index, found.code)
            elif found is not None and found[1] < partition.readable_end(committed):
                answers[topic][at] = PartitionResponse(index, 0, *found)
            elif not partition.role.knows_end:
                code = ErrorCode.OFFSET_NOT_AVAILABLE
                answers[topic][at] = _refusal(version, index, code)
        pending.resolve(_encode(version, request, answers))

    context.broker.disk.run(work, done)
    return pending


def _encode(
    version: int, request: ListOffsetsRequest, answers: list[list[PartitionResponse]]
) -> bytes:
    topics = [
        TopicResponse(topic.name, partitions)
        for topic, partitions in zip(request.topics, answers, strict=True)
    ]
    return wire.encode_response(version, ListOffsetsResponse(topics))
