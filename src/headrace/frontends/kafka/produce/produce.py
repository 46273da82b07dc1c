"""Produce (key 0, v3-v13): append batches, and respond when `acks` is satisfied.

- acks=0: no answer; a failure closes the connection, as no error can be sent. acks=1: answered once
  written. acks=-1: answered once the high watermark has passed the batch, by default when it is on
  disk on every in-sync replica; after `timeout_ms` REQUEST_TIMED_OUT, and the batch stays in the
  log: the outcome is unknown.
- Each partition has its own error; no part of a refused batch is written.
- A repeated (producer id, epoch, sequence) gets the first answer again, once that is valid.
- A compacted topic refuses batches with keyless records (INVALID_RECORD, each record named from v8
  on); a thread checks large and compressed batches, and the answer waits for it. So do batches that
  `compression.type` stores with another codec. Records with invalid timestamps are named in small
  uncompressed batches.
- A transactional batch is accepted while its producer has an open transaction with the partition;
  from v12 on the first batch adds the partition (KIP-890). Without a transactional id, or if the id
  is not permitted, the whole request is refused.

v3 transactional id · v5 log start offset · v8 error message · v9 flexible v11 TRANSACTION_ABORTABLE
· v12 partitions are added to transactions implicitly · v13 topic ids
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.kafka.authentication.authorisation import authorization_failed
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.produce import (
    record_validation,
    transaction_begin,
    write_permissions,
)
from headrace.frontends.kafka.produce.batch_results import BatchResults
from headrace.frontends.kafka.produce.request_batches import (
    first_ones,
    partition_of,
    to_check,
    view_of,
)
from headrace.frontends.kafka.produce.transaction_begin import NONE_BEGUN, Begun
from headrace.frontends.kafka.produce.write_permissions import NONE_REFUSED
from headrace.log.producers.producer_states import Begins
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.net.pending import Pending
from headrace.net.session import CloseConnection
from headrace.record.batch import TRANSACTIONAL, check_produced, parse_header
from headrace.record.batch_layout import ATTRIBUTES, RECORD_COUNT
from headrace.security.authorizer import ResourceType
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot.produce import (
    TOPIC_IDS_FROM,
    PartitionData,
    PartitionResponse,
    ProduceRequest,
    ProduceResponse,
    TopicData,
    TopicResponse,
    decode_request,
    encode_appended,
    encode_response,
)

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.ports.callbacks import Done

    Checked = dict[record_validation.Place, record_validation.Outcome]

ACKS_ALL = -1
ACKS_NONE = 0
_ACKS = (0, 1, -1)
_TIMEOUT_SECONDS_MAX = 3600.0


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Append the batches of a Produce request; answer when `acks` is satisfied."""
    version = context.version
    request, forbidden = decode_request(version, body), NONE_REFUSED
    transactional_id, acks, timeout_ms, topics = request
    alone = len(topics) == 1 and len(topics[0][2]) == 1
    if not (alone and context.broker.authorizer.allows_all):
        request, forbidden = write_permissions.allowed(context, request)
        topics, alone = request.topics, alone and not forbidden
    if not alone or (transactional_id is not None and _may_begin(context, topics[0])):
        todo = list(to_check(context, request))
        if any(
            not record_validation.in_passing(task, parse_header(view)) for _, view, task in todo
        ):
            return _later(context, body)
        checked = record_validation.check_all(todo, len(body)) if todo else {}
        checked |= forbidden
        if transactional_id is None:
            return _several(context, request, checked, NONE_BEGUN, Pending())
        return _in_transaction(context, body, request, checked)
    # The usual request: one batch, outside of a transaction or in one open there already. The code
    # below is the whole cost of this API for small batches.
    name, topic_id, ((index, records),) = topics[0]
    broker, present = context.broker, context.shared.request_pass
    present.begin()
    try:
        if acks not in _ACKS:
            raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
        if version >= TOPIC_IDS_FROM:
            partition = broker.partition_by_id(topic_id, index)
        else:
            partition = broker.partition(name, index)
        view = records if isinstance(records, memoryview) else memoryview(records or b"")
        header = check_produced(view, version)
        if header[ATTRIBUTES] & TRANSACTIONAL and transactional_id is None:
            raise authorization_failed(ResourceType.TRANSACTIONAL_ID)
        if partition.inspected:
            task = record_validation.task_of(partition, header)
            if task is not None:
                if not record_validation.in_passing(task, header):
                    return _later(context, body)
                record_validation.check(view, header, task, len(view))
        base_offset, _, append_time, commit_offset, _ = partition.append(
            view, header, now_ms=broker.clock.wall_ms(), required_acks=acks
        )
    except ApiError as error:
        return _refused(context, request, error)
    broker.metrics.records_in += header[RECORD_COUNT]
    if acks == ACKS_NONE:
        present.promise()
        return None
    answer = encode_appended(
        version, name, topic_id, index, base_offset, append_time, partition.log.start_offset
    )
    if acks == 1 or commit_offset <= partition.log.high_watermark:
        present.promise()
        return answer
    group = present.group or present.open_group()
    group.take(partition, commit_offset, timeout_ms, answer)
    return group


def _may_begin(context: RequestContext, topic: TopicData) -> bool:
    """Tell whether the request's batch may be the first of its transaction in its partition."""
    try:
        partition = partition_of(context, topic, topic.partitions[0].partition)
        header = parse_header(view_of(topic.partitions[0]))
    except ApiError:
        return True  # answered when it is appended
    if not header.attributes & TRANSACTIONAL:
        return False
    return not partition.log.producers.is_open(header.producer_id, header.producer_epoch)


def _seconds(timeout_ms: int) -> float:
    return min(max(timeout_ms, 0) / 1000, _TIMEOUT_SECONDS_MAX)


def _refused(context: RequestContext, request: ProduceRequest, error: ApiError) -> Answer:
    """Return the answer to a Produce request whose single batch was refused."""
    name, topic_id, (data,) = request.topics[0]
    if write_permissions.is_unnamed(request):  # precedes all other errors
        error = authorization_failed(ResourceType.TRANSACTIONAL_ID)
    if request.acks == ACKS_NONE:
        raise CloseConnection(f"a batch with acks=0 was refused: {error}")
    result = _result_of(context, data.partition, _named(context, request.topics[0], data, error))
    response = ProduceResponse([TopicResponse(name, topic_id, [result])])
    return encode_response(context.version, response)


def _result_of(context: RequestContext, index: int, error: ApiError) -> PartitionResponse:
    context.broker.metrics.api(ApiKey.PRODUCE).failed(error.code)
    named = error.record_errors if isinstance(error, record_validation.RecordsRefused) else ()
    return PartitionResponse(index, error.code, record_errors=named, error_message=error.message)


def _named(
    context: RequestContext, topic: TopicData, data: PartitionData, error: ApiError
) -> ApiError:
    """Return the error with the affected records, if they are found quickly."""
    if error.code is not ErrorCode.INVALID_TIMESTAMP:
        return error
    partition = partition_of(context, topic, data.partition)
    now_ms = context.broker.clock.wall_ms()
    return record_validation.named(error, view_of(data), partition, now_ms)


def _later(context: RequestContext, body: memoryview) -> Pending:
    """Append after a thread has checked the records and the coordinator the transaction.

    No further request of the connection is handled until then: its batches stay in order, and only
    one request of a client is copied.
    """
    broker = context.broker
    postponed = _Postponed(context, body)
    limit = broker.config.record_batch_inflated_bytes_max
    todo = list(to_check(postponed.context, postponed.request))

    def checked(result: "Checked | BaseException") -> None:
        if isinstance(result, Exception):
            postponed.pending.fail(result)
        elif isinstance(result, BaseException):
            raise result
        elif not postponed.pending.done:
            _begin(postponed.context, postponed.request, partial(postponed.append, result))

    if todo:
        broker.disk.run(lambda: record_validation.check_all(todo, limit), checked)
    else:
        checked({})
    if postponed.problem is not None:  # raised before anybody waits for the answer
        raise postponed.problem
    return postponed.pending


def _in_transaction(
    context: RequestContext, body: memoryview, request: ProduceRequest, checked: "Checked"
) -> Answer:
    """Append the batches once the coordinator has confirmed that all are in the transaction.

    A coordinator on this broker confirms at once; then nothing is copied.
    """
    first = list(first_ones(context, request))
    if not first:
        return _several(context, request, checked, NONE_BEGUN, Pending())
    if context.version >= transaction_begin.ADDS_SINCE:
        return _later(context, body)
    told: list[Begun] = []
    postponed: list[_Postponed] = []

    def verified(begun: Begun) -> None:
        if postponed:
            postponed[0].append(checked, begun)
        else:
            told.append(begun)

    coordinator, name = context.coordinators.all_transactions, request.transactional_id or ""
    transaction_begin.verify(coordinator, context.version, name, first, verified)
    if told:
        return _several(context, request, checked, told[0], Pending())
    postponed.append(_Postponed(context, body))
    return postponed[0].pending


class _Postponed:
    """A copy of a request, appended when a thread or the coordinator has finished."""

    def __init__(self, context: RequestContext, body: memoryview) -> None:
        self.context = replace(context)
        asked = decode_request(context.version, memoryview(bytearray(body)))
        self.request, self.forbidden = write_permissions.allowed(context, asked)
        self.pending = Pending(alone=True)
        self.problem: CloseConnection | None = None

    def append(self, checked: "Checked", begun: Begun) -> None:
        """Append the postponed request's batches, unless the client has disconnected."""
        if self.pending.done:
            return
        try:
            outcomes = {**checked, **self.forbidden}
            answer = _several(self.context, self.request, outcomes, begun, self.pending)
        except CloseConnection as closed:
            self.pending.fail(closed)
            self.problem = closed
            return
        if not isinstance(answer, Pending):
            self.pending.resolve(answer)


def _begin(context: RequestContext, request: ProduceRequest, done: "Done[Begun]") -> None:
    """Ask the coordinator about batches that would open a transaction in their partitions."""
    transactional_id = request.transactional_id
    first = list(first_ones(context, request)) if transactional_id is not None else []
    if not first or transactional_id is None:
        done(NONE_BEGUN)
        return
    version = context.version
    ask = transaction_begin.add
    if version < transaction_begin.ADDS_SINCE:
        ask = transaction_begin.verify
    ask(context.coordinators.all_transactions, version, transactional_id, first, done)


def _several(
    context: RequestContext,
    request: ProduceRequest,
    checked: "Checked",
    begun: Begun,
    pending: Pending,
) -> Answer:
    """Append all batches; `checked` has the results of those that were checked before."""
    batches = BatchResults(context.version, request, pending)
    waits: list[tuple[Partition, Offset, int, int]] = []
    failed: ApiError | None = None
    for topic_at, topic in enumerate(request.topics):
        results: list[PartitionResponse] = []
        batches.results.append(results)
        for data in topic.partitions:
            try:
                place = (topic_at, len(results))
                known = checked.get(place)
                refused = known if isinstance(known, ApiError) else begun.refused.get(place)
                if refused is not None:
                    raise refused
                if isinstance(known, bytearray):
                    data = data._replace(records=memoryview(known))
                begins = begun.begins.get(place, Begins.NO)
                result, partition, commit_offset = _append(context, request, topic_at, data, begins)
            except ApiError as error:
                failed = error
                result = _result_of(context, data.partition, _named(context, topic, data, error))
            else:
                waits.append((partition, commit_offset, topic_at, len(results)))
            results.append(result)
    if waits and request.acks != ACKS_ALL:
        context.shared.request_pass.promise()
    if request.acks == ACKS_NONE:
        if failed is not None:
            raise CloseConnection(f"a batch with acks=0 was refused: {failed}")
        return None
    if request.acks != ACKS_ALL or not waits:
        return batches.encoded()
    return _wait_for_all(context, batches, waits)


def _append(
    context: RequestContext,
    request: ProduceRequest,
    topic_at: int,
    data: PartitionData,
    begins: Begins,
) -> tuple[PartitionResponse, "Partition", Offset]:
    if request.acks not in _ACKS:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    broker = context.broker
    index = data.partition
    partition = partition_of(context, request.topics[topic_at], index)
    view = view_of(data)
    header = check_produced(view, context.version)
    appended = partition.append(
        view,
        header,
        now_ms=broker.clock.wall_ms(),
        required_acks=request.acks,
        begins=begins,
    )
    broker.metrics.records_in += header.record_count
    result = PartitionResponse(
        index, 0, appended.base_offset, appended.append_time_ms, partition.log.start_offset
    )
    return result, partition, appended.commit_offset


def _wait_for_all(
    context: RequestContext,
    batches: BatchResults,
    waits: "list[tuple[Partition, Offset, int, int]]",
) -> Pending:
    # One more than there are, so that no callback below, called at once or later, is the last.
    batches.waiting = len(waits) + 1
    for partition, commit_offset, topic_at, at in waits:
        partition.when_committed(commit_offset, partial(batches.committed, topic_at, at), True)
    pending = batches.pending
    batches.waiting -= 1
    if batches.waiting == 0:
        context.shared.request_pass.promise()
        pending.resolve(batches.encoded())
        return pending

    def timed_out() -> None:
        for partition, commit_offset, topic_at, at in waits:
            before = batches.results[topic_at][at]
            if before.error_code == 0 and partition.log.high_watermark < commit_offset:
                batches.results[topic_at][at] = PartitionResponse(
                    before.partition, ErrorCode.REQUEST_TIMED_OUT, before.base_offset
                )
        pending.resolve(batches.encoded())

    context.shared.deadlines.add(pending, _seconds(batches.request.timeout_ms), timed_out)
    return pending
