"""INVOKE_BROKER_TO_RESET_OFFSET (222): an operator moves a group's offsets, by time or by offset.

On the server (rocketmq.server.side.reset=true, as RocketMQ 5):

    1  the target of each queue: an offset, or the first one at a time (negative: the end)
    2  all are stored as pending resets; clients' own offsets are ignored from now on
    3  on disk: parked pulls of the group are woken, the request is answered
    4  the next pull of each queue is answered OFFSET_RESET with the target, once

By push (false, as RocketMQ 4.9): the members that are online get RESET_CONSUMER_CLIENT_OFFSET (220)
and store the offsets themselves.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.rocketmq.answers import NO_CODE_SET, RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.offsets import first_offset_from
from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.audit import shortened
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.fastjson import FastJson, Keyed, encode_body
from headrace.wire.rocketmq.requests import Fields

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic

_ALL = -1
_UNSET = -1
_CPP = "CPP"


class _Reset(NamedTuple):
    """The target of a request."""

    group: str
    queue_id: int
    """The queue, or -1 for all."""
    offset: int
    """The target in that queue, or -1: `timestamp` says it."""
    timestamp: int
    """In ms since 1970; negative: the end."""
    is_forced: bool
    """Whether offsets may move forwards, by push."""


def reset_offset(call: "RemotingCall") -> None:
    """Answer INVOKE_BROKER_TO_RESET_OFFSET (222) with the offsets by queue."""
    fields = Fields(call.command)
    asked = _Reset(
        fields.text("group"),
        fields.number("queueId", _ALL),
        fields.long("offset", _UNSET),
        fields.long("timestamp", _UNSET),
        fields.boolean("isForce"),
    )
    broker, name = call.broker, fields.text("topic")
    broker.require_group(call.identity, asked.group)
    broker.check_group_is_free(asked.group)
    topic = broker.topic_if_any(name)
    if topic is None:
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {name} does not exist")
    broker.require_topic(call.identity, Operation.READ, topic)
    work = _reset_here if broker.settings.resets_on_server else _push
    call.work(work(call, asked, topic))


async def _reset_here(call: "RemotingCall", asked: _Reset, topic: "ServedTopic") -> RemotingAnswer:
    broker = call.broker
    targets = await _targets(broker, asked, topic)
    name = topic.info.name
    reset = partial(broker.offsets.reset, asked.group, name)
    codes = await asyncio.gather(
        *(called_back(partial(reset, queue, offset)) for queue, offset in targets.items())
    )
    failed = {
        queue: code
        for queue, code in zip(targets, codes, strict=True)
        if code is not ErrorCode.NONE
    }
    error = None
    if failed:
        queues = ", ".join(map(str, failed))
        text = f"the offsets of queues {queues} of {topic.name} are not reset; repeat the request"
        error = ApiError(next(iter(failed.values())), text)
    _audit(call, asked, topic, targets, error)
    broker.parked.wake(asked.group)
    if error is not None:
        raise error
    return RemotingAnswer(body=encode_body(_table(broker, topic, targets)))


async def _targets(broker: "ServedBroker", asked: _Reset, topic: "ServedTopic") -> dict[int, int]:
    """Return the target of each queue. Raises RequestRefused, ApiError."""
    if asked.queue_id == _ALL:
        queues = range(topic.read_queues)
    elif 0 <= asked.queue_id < topic.queues:
        queues = range(asked.queue_id, asked.queue_id + 1)
    else:
        text = f"topic {topic.name} has no queue {asked.queue_id}, its queues are 0 to"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{text} {topic.queues - 1}")
    if asked.offset != _UNSET and asked.queue_id != _ALL:
        partition = broker.partition(topic, asked.queue_id)
        start, end = partition.log_start_offset, partition.readable_end(True)
        if not start <= asked.offset <= end:
            # RocketMQ allows the offset behind the end: that message would be skipped.
            text = f"Target offset {asked.offset} not in consume queue range [{start}-{end}]"
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)
        return {asked.queue_id: asked.offset}
    return {queue: await offset_at(broker, topic, queue, asked.timestamp) for queue in queues}


async def offset_at(
    broker: "ServedBroker", topic: "ServedTopic", queue_id: int, timestamp: int
) -> int:
    """Return a queue's first offset at or after a time, its end without one."""
    partition = broker.partition(topic, queue_id)
    if timestamp < 0:
        return partition.readable_end(True)
    search = partial(first_offset_from, partition.log, timestamp)
    found = await called_back(partial(broker.broker.disk.run, search))
    end = partition.readable_end(True)
    return end if found is None else min(found, end)


async def _push(call: "RemotingCall", asked: _Reset, topic: "ServedTopic") -> RemotingAnswer:
    broker, group = call.broker, asked.group
    targets: dict[int, int] = {}
    for queue in range(topic.write_queues):
        stored = broker.offsets.read(group, topic.info.name, queue)
        if stored is None:
            text = f"THe consumer group <{group}> not exist"
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)
        target = await offset_at(broker, topic, queue, asked.timestamp)
        targets[queue] = target if asked.is_forced else min(target, stored)
    members = list(broker.members.members(group))
    if not members:
        text = (
            f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic.name}"
            f" Timestamp: {asked.timestamp}"
        )
        raise RequestRefused(ResponseCode.CONSUMER_NOT_ONLINE, text)
    fields = {
        "queueId": str(_ALL),
        "topic": topic.name,
        "isForce": "false",
        "group": group,
        "timestamp": str(asked.timestamp),
    }
    table = encode_body(_table(broker, topic, targets))
    rows = encode_body(_rows(broker, topic, targets))
    for member in members:
        body = rows if member.connection.language == _CPP else table
        member.connection.request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
    _audit(call, asked, topic, targets, None)
    return RemotingAnswer(body=table, remark=NO_CODE_SET)


def _audit(
    call: "RemotingCall",
    asked: _Reset,
    topic: "ServedTopic",
    targets: Mapping[int, int],
    error: ApiError | None,
) -> None:
    offsets = ",".join(f"{queue}:{offset}" for queue, offset in targets.items())
    detail = {"group": asked.group, "topic": topic.info.name, "offsets": shortened(offsets)}
    call.context().changed(error, detail)


def _table(broker: "ServedBroker", topic: "ServedTopic", targets: Mapping[int, int]) -> FastJson:
    pairs: list[tuple[FastJson, FastJson]] = [
        ({"brokerName": broker.name, "queueId": queue, "topic": topic.name}, offset)
        for queue, offset in targets.items()
    ]
    return {"offsetTable": Keyed(tuple(pairs))}


def _rows(broker: "ServedBroker", topic: "ServedTopic", targets: Mapping[int, int]) -> FastJson:
    """Return the offsets as the C++ client reads them, which has no maps with objects as keys."""
    rows: list[FastJson] = [
        {"brokerName": broker.name, "offset": offset, "queueId": queue, "topic": topic.name}
        for queue, offset in targets.items()
    ]
    return {"offsetTable": rows}
