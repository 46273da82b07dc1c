"""Messages by key (12), by id (33), and the entries of a queue (321).

Messages are found by key or unique key by a bounded scan.
RocketMQ has an index of keys; Headrace reads the newest records of the topic. A query reads
`SCANNED_RECORDS_MAX` records at most, the newest ones of each queue, within the client's times.
"""

from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.administration.group_state import subscription_json
from headrace.frontends.rocketmq.answers import NO_CODE_SET, RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.held.lookup import find_message
from headrace.frontends.rocketmq.offsets import first_offset_from
from headrace.frontends.rocketmq.pulling.plans import queue_of
from headrace.frontends.rocketmq.pulling.reading import ReadLimits, read_messages
from headrace.model.errors import ApiError
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import Operation
from headrace.shards.group_partition import java_string_hash
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.fastjson import FastJson, encode_body
from headrace.wire.rocketmq.properties import KEYS, TAGS, UNIQUE_KEY, find_property
from headrace.wire.rocketmq.requests import Fields, InvalidField
from headrace.wire.rocketmq.stored_messages import decode_message

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedTopic
    from headrace.log.log import Log
    from headrace.wire.rocketmq.pulled_messages import PulledQueue, Wanted

SCANNED_RECORDS_MAX = 200_000
"""Records of one query, over all queues."""
FOUND_MAX = 64
"""Messages of one answer."""
FOUND_BYTES_MAX = 4 * 1024 * 1024
_BY_TAG = "T"


def query_messages(call: "RemotingCall") -> None:
    """Answer QUERY_MESSAGE (12): the messages with a key, oldest of each queue first.

    `indexType` T: those with a tag.
    """
    fields = Fields(call.command)
    has_key = _has_tag if fields.text("indexType", "") == _BY_TAG else _has_key
    key = fields.text("key").encode("utf-8", "replace")
    if not key:
        raise InvalidField("field key is empty")
    begin_ms, end_ms = fields.long("beginTimestamp", 0), fields.long("endTimestamp", -1)
    count = min(max(fields.number("maxNum", FOUND_MAX), 1), FOUND_MAX)
    topic = call.broker.topic(fields.text("topic"))
    call.broker.require_topic(call.identity, Operation.READ, topic)
    call.work(_queried(call, topic, partial(has_key, key), (begin_ms, end_ms), count))


async def _queried(
    call: "RemotingCall",
    topic: "ServedTopic",
    wanted: "Wanted",
    times: tuple[int, int],
    count: int,
) -> RemotingAnswer:
    broker = call.broker
    numbers = await broker.numbered(topic)
    budget = max(SCANNED_RECORDS_MAX // topic.queues, 1)
    parts: list[bytes] = []
    found = 0
    for queue_id in range(topic.queues):
        partition = broker.partition(topic, queue_id)
        queue = queue_of(call, topic, queue_id, numbers[queue_id])
        scan = partial(
            _scan, partition.log, queue, wanted, times, (partition.readable_end(True), budget),
            count - found,
        )  # fmt: skip
        more, matched = await called_back(partial(broker.broker.disk.run, scan))
        parts += more
        found += matched
        if found >= count or sum(map(len, parts)) >= FOUND_BYTES_MAX:
            break
    fields = {"indexLastUpdatePhyoffset": "0", "indexLastUpdateTimestamp": "0"}
    if not found:
        text = "can not find message, maybe time range not correct"
        return RemotingAnswer(ResponseCode.QUERY_NOT_FOUND, fields, b"", text)
    return RemotingAnswer(fields=fields, body=b"".join(parts))


def _scan(
    log: "Log",
    queue: "PulledQueue",
    wanted: "Wanted",
    times: tuple[int, int],
    bounds: tuple[int, int],
    count: int,
) -> tuple[list[bytes], int]:
    """Return up to `count` wanted messages among the newest of a queue. On any thread."""
    (begin_ms, end_ms), (end, budget) = times, bounds
    first = first_offset_from(log, max(begin_ms, 0))
    if end_ms >= 0 and (behind := first_offset_from(log, end_ms + 1)) is not None:
        end = min(end, behind)
    if first is None:
        return [], 0
    at = max(first, end - budget, log.start_offset)
    parts: list[bytes] = []
    found = 0
    while at < end and found < count:
        try:
            read = read_messages(log, queue, at, end, ReadLimits(count - found), wanted)
        except ApiError:
            if log.start_offset <= at:
                raise
            at = log.start_offset  # retention has deleted the records since
            continue
        parts += read.parts
        found += read.message_count
        if read.next_offset <= at:
            break
        at = read.next_offset
    return parts, found


def _has_key(key: bytes, properties: bytes) -> bool:
    """Return whether a message has a key: its unique key, or one of KEYS between spaces."""
    if find_property(properties, UNIQUE_KEY) == key:
        return True
    keys = find_property(properties, KEYS)
    return keys is not None and key in keys.split(b" ")


def _has_tag(tag: bytes, properties: bytes) -> bool:
    """Return whether a message has a tag."""
    return find_property(properties, TAGS) == tag


def view_message(call: "RemotingCall") -> None:
    """Answer VIEW_MESSAGE_BY_ID (33): the message at a physical offset."""
    call.work(_viewed(call, Fields(call.command).long("offset")))


async def _viewed(call: "RemotingCall", physical_offset: int) -> RemotingAnswer:
    return RemotingAnswer(body=await viewed_message(call, physical_offset))


async def viewed_message(call: "RemotingCall", physical_offset: int) -> bytes:
    """Return the message at a physical offset as pulls deliver it. Raises RequestRefused."""
    found = await find_message(call.broker, physical_offset)
    if found is None:
        text = f"can not find message by the offset, {physical_offset}"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)
    call.broker.require_topic(call.identity, Operation.READ, found.topic)
    queue = queue_of(call, found.topic, found.queue_id, found.number)
    pulled = queue.pulled([found.record], found.record.offset, count_max=1, bytes_max=1)
    return b"".join(pulled.parts)


# Entries of a queue


def query_queue(call: "RemotingCall") -> None:
    """Answer QUERY_CONSUME_QUEUE (321): places, sizes and codes of tags of a queue's messages."""
    fields = Fields(call.command)
    queue_id, first = fields.number("queueId"), fields.long("index")
    count = min(max(fields.number("count"), 0), FOUND_MAX)
    group = fields.text("consumerGroup", "")
    topic = call.broker.topic(fields.text("topic"))
    call.broker.require_topic(call.identity, Operation.READ, topic)
    if not 0 <= queue_id < topic.queues:
        raise InvalidField(f"topic {topic.name} has no queue {queue_id}")
    call.work(_entries(call, topic, queue_id, (first, count), group))


async def _entries(
    call: "RemotingCall", topic: "ServedTopic", queue_id: int, span: tuple[int, int], group: str
) -> RemotingAnswer:
    (first, count), broker = span, call.broker
    partition = broker.partition(topic, queue_id)
    start, end = partition.log_start_offset, partition.readable_end(True)
    if not start <= first < end:
        text = f"Index {first} of {queue_id}@{topic.name} is not exist!"
        return RemotingAnswer(remark=text)
    numbers = await broker.numbered(topic)
    queue = queue_of(call, topic, queue_id, numbers[queue_id])
    read = partial(read_messages, partition.log, queue, first, end, ReadLimits(max(count, 1)))
    found = await called_back(partial(broker.broker.disk.run, read))
    data, at = b"".join(found.parts), 0
    entries: list[FastJson] = []
    while at < len(data) and len(entries) < count:
        message, following = decode_message(data, at)
        tag = find_property(message.properties, TAGS)
        entries.append(
            {
                "eval": False,
                "physicOffset": message.physical_offset,
                "physicSize": following - at,
                "tagsCode": java_string_hash(tag.decode("utf-8", "replace")) if tag else 0,
            }
        )
        at = following
    body: dict[str, FastJson] = {
        "filterData": "null", "maxQueueIndex": end, "minQueueIndex": start, "queueData": entries,
    }  # fmt: skip
    subscription = broker.members.subscription(group, topic.name) if group else None
    if subscription is not None:
        body["subscriptionData"] = {**subscription_json(subscription)}
    elif group:
        body["filterData"] = f"{group}@{topic.name} is not online!"
    return RemotingAnswer(body=encode_body(body), remark=NO_CODE_SET)
