"""Offsets of groups (14, 15) and of queues (29 to 32)."""

from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import (
    NOT_FOUND_TEXT,
    RemotingAnswer,
    RequestRefused,
    refusal_of,
)
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.security.authorizer import Operation
from headrace.subscriptions.group_offsets import UNSET
from headrace.subscriptions.new_groups import QueueState, begins_at_zero
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.requests import (
    Fields,
    OffsetRequest,
    offset_request,
    queue_request,
)
from headrace.wire.rocketmq.topic_names import RETRY_PREFIX

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic
    from headrace.log.log import Log

_UPPER = "upper"


def query_offset(call: "RemotingCall") -> RemotingAnswer | None:
    """Answer QUERY_CONSUMER_OFFSET (14): a group's offset, or 0 by the rule for new groups."""
    asked = offset_request(call.command)
    broker = call.broker
    broker.require_group(call.identity, asked.consumer_group)
    topic = broker.topic_if_any(asked.topic)
    if topic is None or not 0 <= asked.queue_id < topic.queues:
        return _not_found(NOT_FOUND_TEXT)
    broker.require_topic(call.identity, Operation.READ, topic)
    offset = broker.offsets.read(asked.consumer_group, topic.info.name, asked.queue_id)
    if offset is not None:
        return _offset(offset)
    if not asked.zero_if_missing:
        return _not_found("Not found, do not set to zero, maybe this group boot first")
    if broker.numbers.known(topic.info) is None:
        call.work(_unset_later(call, asked, topic))
        return None
    return _unset(call, asked, topic)


async def _unset_later(
    call: "RemotingCall", asked: OffsetRequest, topic: "ServedTopic"
) -> RemotingAnswer:
    """Answer for a group without an offset, once it is known when the queue was added."""
    await call.broker.numbered(topic)
    return _unset(call, asked, topic)


def _unset(call: "RemotingCall", asked: OffsetRequest, topic: "ServedTopic") -> RemotingAnswer:
    broker, settings = call.broker, call.broker.settings
    partition = broker.partition(topic, asked.queue_id)
    if asked.topic.startswith(RETRY_PREFIX) and partition.readable_end(True) > 0:
        # Written for this group: a client that begins by time would skip what came before it did.
        return _offset(partition.log_start_offset)
    state = queue_state(broker, topic, asked.queue_id, asked.consumer_group)
    if begins_at_zero(settings.zero_offset, state, settings.memory_bytes):
        return _offset(0)
    return _not_found(NOT_FOUND_TEXT)


def queue_state(
    broker: "ServedBroker", topic: "ServedTopic", queue_id: int, group: str | None
) -> QueueState:
    """Return a queue's state for a group; None: one that is not known. Raises ApiError."""
    partition = broker.partition(topic, queue_id)
    added_ms = broker.added_ms(topic, queue_id)
    began_ms = broker.began_ms(group, topic) if added_ms and group is not None else None
    added_after = began_ms is not None and began_ms < added_ms
    log = partition.log
    size = sum(segment.size for segment in log.segments)
    return QueueState(log.start_offset, partition.readable_end(True), size, added_after)


def _offset(offset: int) -> RemotingAnswer:
    return RemotingAnswer(fields={"offset": str(offset)})


def _not_found(remark: str) -> RemotingAnswer:
    return RemotingAnswer(ResponseCode.QUERY_NOT_FOUND, {}, b"", remark)


def update_offset(call: "RemotingCall") -> None:
    """Answer UPDATE_CONSUMER_OFFSET (15) once the offset is on disk.

    A queue that does not exist is answered with success, as by RocketMQ, and so is an offset of a
    group whose operator has reset it; nothing is stored. A group that no client has used by a
    heartbeat or a pull, and that has neither settings nor offsets, is refused.
    """
    asked = offset_request(call.command)
    broker = call.broker
    broker.require_group(call.identity, asked.consumer_group)
    broker.check_group_is_free(asked.consumer_group)
    topic = broker.topic_if_any(asked.topic)
    if topic is None:
        text = f"Topic {asked.topic} not exist!"
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, text)
    broker.require_topic(call.identity, Operation.READ, topic)
    if not broker.exists(asked.consumer_group):
        text = f"Group {asked.consumer_group} not exist!"
        raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text, {})
    if not 0 <= asked.queue_id < topic.queues:
        call.answer(RemotingAnswer(fields={}))
        return
    broker.number_soon(topic)
    offset = max(asked.commit_offset, UNSET)
    place = (asked.consumer_group, topic.info.name, asked.queue_id)
    if broker.offsets.is_reset(*place):
        call.answer(RemotingAnswer(fields={}, remark="Offset has been previously reset"))
    else:
        broker.offsets.store(*place, offset, partial(_stored, call))


def _stored(call: "RemotingCall", code: ErrorCode) -> None:
    stored = RemotingAnswer(fields={})
    call.answer(stored if code is ErrorCode.NONE else refusal_of(ApiError(code)))


# Queues


def max_offset(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_MAX_OFFSET (30): the offset behind the last one that can be pulled."""
    partition = _queue(call)
    return _offset(0 if partition is None else partition.readable_end(True))


def min_offset(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_MIN_OFFSET (31): the first offset."""
    partition = _queue(call)
    return _offset(0 if partition is None else partition.log_start_offset)


def _queue(call: "RemotingCall") -> "Partition | None":
    """Return the queue of a request; None: it does not exist, and its offsets are 0."""
    asked = queue_request(call.command)
    topic = call.broker.topic_if_any(asked.topic)
    if topic is None or not 0 <= asked.queue_id < topic.queues:
        return None
    call.broker.require_topic(call.identity, Operation.DESCRIBE, topic)
    return call.broker.partition(topic, asked.queue_id)


def search_offset(call: "RemotingCall") -> None:
    """Answer SEARCH_OFFSET_BY_TIMESTAMP (29): the first offset stored at or after a time.

    With the upper boundary: the last offset stored at or before it.
    """
    fields = Fields(call.command)
    timestamp = fields.long("timestamp")
    upper = fields.text("boundaryType", "").lower() == _UPPER
    partition = _queue(call)
    if partition is None:
        call.answer(_offset(0))
        return
    log, end = partition.log, partition.readable_end(True)
    wanted = timestamp + 1 if upper else timestamp
    call.broker.broker.disk.run(
        partial(first_offset_from, log, max(wanted, 0)), partial(_found, call, end, log, upper)
    )


def first_offset_from(log: "Log", timestamp: int) -> int | None:
    """Return the first offset at or after a time, or None without one. On any thread."""
    found = log.offset_for_time(timestamp)
    return None if found is None else int(found[1])


def _found(
    call: "RemotingCall", end: int, log: "Log", upper: bool, found: "int | BaseException | None"
) -> None:
    if isinstance(found, HeadraceError):
        call.fail(found)
        return
    if isinstance(found, BaseException):
        raise found
    offset = end if found is None else min(found, end)
    call.answer(_offset(max(offset - 1, log.start_offset) if upper else offset))


def earliest_time(call: "RemotingCall") -> None:
    """Answer GET_EARLIEST_MSG_STORETIME (32): the first record's time in ms, -1 without one."""
    partition = _queue(call)
    if partition is None:
        call.answer(RemotingAnswer(fields={"timestamp": "-1"}))
        return
    log = partition.log
    call.broker.broker.disk.run(partial(first_time, log), partial(_have_time, call))


def first_time(log: "Log") -> int:
    """Return the first record's time in ms, -1 without one. On any thread."""
    found = log.offset_for_time(0)
    return -1 if found is None else int(found[0])


def _have_time(call: "RemotingCall", found: "int | BaseException") -> None:
    if isinstance(found, HeadraceError):
        call.fail(found)
    elif isinstance(found, BaseException):
        raise found
    else:
        call.answer(RemotingAnswer(fields={"timestamp": str(found)}))
