"""Produce (key 0, v3-v13): append batches, answer when `acks` is met.

* acks=0: no answer; a failure closes the connection, the only way to say it. acks=1: answered once
  written. acks=-1: answered once the high watermark has passed the batch, with the default
  configuration when it is on disk on every in-sync replica; after `timeout_ms` REQUEST_TIMED_OUT,
  and the batch stays in the log: the outcome is unknown.
* Each partition has its own error; nothing of a refused batch is written.
* A repeated (producer id, epoch, sequence) gets its first answer again, when that holds.
* Transactions are not served: a request with a transactional id is refused.

v3 transactional id · v5 log start offset · v8 error message · v9 flexible · v13 topic ids
"""

from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.kafka.handler import Answer, Api, RequestContext
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.net.connection import CloseConnection
from headrace.net.pending import Pending
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.batch import check_produced
from headrace.wire.kafka.hot.produce import (
    PartitionData,
    PartitionResponse,
    ProduceRequest,
    ProduceResponse,
    TopicResponse,
    decode_request,
    encode_appended,
    encode_response,
)

if TYPE_CHECKING:
    from headrace.broker.partition import Partition

ACKS_ALL = -1
ACKS_NONE = 0
_ACKS = (0, 1, -1)
_TOPIC_IDS_FROM = 13
_TIMEOUT_SECONDS_MAX = 3600.0


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer one Produce request."""
    version = context.version
    request = decode_request(version, body)
    transactional_id, acks, timeout_ms, topics = request
    if len(topics) != 1 or len(topics[0][2]) != 1 or transactional_id is not None:
        return _several(context, request)
    # The usual request: one batch. What follows is this API's whole cost for small batches.
    name, topic_id, ((index, records),) = topics[0]
    broker, shared = context.broker, context.shared
    if shared.gather is not None:
        shared.gather()
    try:
        if acks not in _ACKS:
            raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
        if version >= _TOPIC_IDS_FROM:
            partition = broker.partition_by_id(topic_id, index)
        else:
            partition = broker.partition(name, index)
        view = records if isinstance(records, memoryview) else memoryview(records or b"")
        header = check_produced(view, version)
        base_offset, _, append_time, commit_offset, _ = partition.append(
            view, header, now_ms=broker.clock.wall_ms(), required_acks=acks
        )
    except ApiError as error:
        return _refused(context, request, error)
    broker.metrics.records_in += header[12]
    if acks == ACKS_NONE:
        shared.promised = True
        return None
    answer = encode_appended(
        version, name, topic_id, index, base_offset, append_time, partition.log.start_offset
    )
    if acks == 1 or commit_offset <= partition.high_watermark:
        shared.promised = True
        return answer
    group = shared.group or shared.open_group()
    group.take(partition, commit_offset, timeout_ms, answer)
    return group


def _seconds(timeout_ms: int) -> float:
    return min(max(timeout_ms, 0) / 1000, _TIMEOUT_SECONDS_MAX)


def _refused(context: RequestContext, request: ProduceRequest, error: ApiError) -> Answer:
    """The answer to the usual request where its one batch was not taken."""
    name, topic_id, ((index, _),) = request.topics[0]
    if request.acks == ACKS_NONE:
        raise CloseConnection(f"a batch with acks=0 was not taken: {error}")
    result = PartitionResponse(index, error.code, error_message=error.message)
    response = ProduceResponse([TopicResponse(name, topic_id, [result])])
    return encode_response(context.version, response)


class _Batches:
    """A request with several batches: their results, and how many still wait."""

    def __init__(self, version: int, request: ProduceRequest) -> None:
        self.version = version
        self.request = request
        self.results: list[list[PartitionResponse]] = []
        self.waiting = 0
        self.pending = Pending()

    def committed(self, topic: int, at: int, error: ApiError | None) -> None:
        """One batch holds for good, or it will never be known."""
        if error is not None:
            before = self.results[topic][at]
            self.results[topic][at] = PartitionResponse(
                before.partition, error.code, before.base_offset, error_message=error.message
            )
        self.waiting -= 1
        if self.waiting == 0:
            self.pending.resolve(self.encoded())

    def encoded(self) -> bytes:
        """The response's body as things stand."""
        topics = [
            TopicResponse(topic.name, topic.topic_id, results)
            for topic, results in zip(self.request.topics, self.results, strict=True)
        ]
        return encode_response(self.version, ProduceResponse(topics))


def _several(context: RequestContext, request: ProduceRequest) -> Answer:
    batches = _Batches(context.version, request)
    waits: list[tuple[Partition, Offset, int, int]] = []
    failed: ApiError | None = None
    for topic_at, topic in enumerate(request.topics):
        results: list[PartitionResponse] = []
        batches.results.append(results)
        for data in topic.partitions:
            try:
                result, partition, commit_offset = _append(context, request, topic_at, data)
            except ApiError as error:
                failed = error
                result = PartitionResponse(data.partition, error.code, error_message=error.message)
            else:
                waits.append((partition, commit_offset, topic_at, len(results)))
            results.append(result)
    if request.acks == ACKS_NONE:
        if failed is not None:
            raise CloseConnection(f"a batch with acks=0 was not taken: {failed}")
        return None
    if request.acks != ACKS_ALL or not waits:
        return batches.encoded()
    return _wait_for_all(context, batches, waits)


def _append(
    context: RequestContext, request: ProduceRequest, topic_at: int, data: PartitionData
) -> tuple[PartitionResponse, "Partition", Offset]:
    if request.acks not in _ACKS:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    if request.transactional_id is not None:
        raise ApiError(ErrorCode.INVALID_TXN_STATE, "transactions are not served")
    broker = context.broker
    topic = request.topics[topic_at]
    index, records = data
    if context.version >= _TOPIC_IDS_FROM:
        partition = broker.partition_by_id(topic.topic_id, index)
    else:
        partition = broker.partition(topic.name, index)
    view = records if isinstance(records, memoryview) else memoryview(records or b"")
    header = check_produced(view, context.version)
    appended = partition.append(
        view, header, now_ms=broker.clock.wall_ms(), required_acks=request.acks
    )
    broker.metrics.records_in += header.record_count
    result = PartitionResponse(
        index, 0, appended.base_offset, appended.append_time_ms, partition.log.start_offset
    )
    return result, partition, appended.commit_offset


def _wait_for_all(
    context: RequestContext, batches: _Batches, waits: "list[tuple[Partition, Offset, int, int]]"
) -> Pending:
    # One more than there are, so that none of the callbacks below, at once or later, is the last.
    batches.waiting = len(waits) + 1
    for partition, commit_offset, topic_at, at in waits:
        partition.when_committed(commit_offset, partial(batches.committed, topic_at, at))
    pending = batches.pending
    batches.waiting -= 1
    if batches.waiting == 0:
        pending.resolve(batches.encoded())
        return pending

    def timed_out() -> None:
        for partition, commit_offset, topic_at, at in waits:
            before = batches.results[topic_at][at]
            if before.error_code == 0 and partition.high_watermark < commit_offset:
                batches.results[topic_at][at] = PartitionResponse(
                    before.partition, ErrorCode.REQUEST_TIMED_OUT, before.base_offset
                )
        pending.resolve(batches.encoded())

    context.shared.deadlines.add(pending, _seconds(batches.request.timeout_ms), timed_out)
    return pending


API = Api(ApiKey.PRODUCE, 3, 13, handle, hot=True)
