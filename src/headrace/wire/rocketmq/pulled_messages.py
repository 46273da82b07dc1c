"""Record batches as the stored messages that pulls deliver.

A record that a RocketMQ client sent has its facts in one header (`record_header`), from which its
stored message is put together: the properties are copied, not read. Records of Kafka's and AMQP's
producers get properties instead: the key as KEYS, and each header whose value is text. A record
without a value is delivered with an empty body.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from itertools import repeat
from operator import and_
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from headrace.record.record import Header, Record
from headrace.record.record_cursor import RecordCursor
from headrace.wire.rocketmq.hot.sent_records import SentRecord, cut_alike, cut_sent
from headrace.wire.rocketmq.message_ids import (
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    OFFSET_MAX,
    PlaceInCluster,
    physical_offset,
)
from headrace.wire.rocketmq.properties import (
    ENTRY_END,
    KEYS,
    NAME_END,
    PROPERTIES_BYTES_MAX,
    closed,
)
from headrace.wire.rocketmq.record_header import (
    FACTS_V4,
    NAME,
    READ_FLAGS,
    MessageFacts,
    decode_facts,
)
from headrace.wire.rocketmq.stored_messages import (
    CRC_MASK,
    HEAD,
    SIZE_I16,
    STORED_AT,
    TAIL,
    SystemFlag,
    body_crc,
    topic_field,
)

Wanted = Callable[[bytes], bool]
"""Whether a consumer wants a message with these properties."""
_NO_TEXT = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Bytes that a property's name or value does not have, its separators among them."""
_UNKNOWN_HOST = bytes(8)
"""The born host of a record that no RocketMQ client sent: 0.0.0.0, port 0."""


_TOTAL_AND_MAGIC, _QUEUE_ID = Struct(">iI"), Struct(">i")
_PREPARED_AND_SIZE = Struct(">qi")
"""Prepared transaction offset, body length: `TAIL` without the first of its fields."""


@lru_cache(64)
def _form_of_alike(fixed: int, body: int, tail: int, properties: int, added: int) -> Struct:
    """Return the fields of messages that are alike, neighbours that are the same as one.

    `fixed`: from the born host to the body; `tail`: topic and size of the properties.
    """
    return Struct(f">8si8sqqi8s{fixed}s{body}s{tail}s{properties}s{added}s")


@cache
def _forms(store_host_bytes: int, topic_bytes: int) -> tuple[Struct, Struct]:
    """Return the fields before a body, with a born host of IPv4, and those before properties."""
    head, stored_at, tail = HEAD.format[1:], STORED_AT.format[1:], TAIL.format[1:]
    front = f">{head}{HOST_V4_BYTES}s{stored_at}{store_host_bytes}s{tail}"
    return Struct(front), Struct(f">{topic_bytes}s{SIZE_I16.format[1:]}")


class PulledBatch(NamedTuple):
    """The messages of some records, to be joined."""

    parts: list[bytes]
    message_count: int
    size: int
    """Bytes of all parts."""
    next_offset: int
    """The offset from which the next pull should read."""
    is_full: bool
    """Whether a bound was reached, so that later records are left."""
    seen_count: int
    """Records looked at, wanted or not."""


class PulledQueue:
    """The fields that all messages of one queue have in common."""

    def __init__(
        self,
        topic: bytes,
        queue_id: int,
        partition_number: int,
        store_host: bytes,
        broker_properties: bytes,
    ) -> None:
        """`topic`: as the consumer named it, which for a retry topic is not Kafka's name.
        `broker_properties`: those that the broker adds to each message, each with its end.
        ValueError: the partition's number is no such number."""
        self._magic, self._topic = topic_field(topic)
        self._queue_id = queue_id
        self._physical_base = physical_offset(PlaceInCluster(partition_number, 0))
        self._store_host = store_host
        self._store_flag = SystemFlag.STORE_HOST_V6 if len(store_host) == HOST_V6_BYTES else 0
        self._added = broker_properties
        self._front, self._tail = _forms(len(store_host), len(self._topic))
        self._fixed_bytes = HEAD.size + STORED_AT.size + len(store_host) + TAIL.size
        self._fixed_bytes += len(self._topic) + SIZE_I16.size

    def pulled(
        self,
        records: Iterable[Record],
        begin: int,
        *,
        count_max: int,
        bytes_max: int,
        seen_max: int = 1 << 31,
        wanted: Wanted | None = None,
    ) -> PulledBatch:
        """Return the messages of `records` from offset `begin` on, in their order.

        Stops before the message that would pass `count_max` or `bytes_max`, but for the first one,
        which may have any size, and after `seen_max` records. `wanted`: None takes all. Records
        that are not wanted are passed over: the next offset is behind them.
        """
        parts: list[bytes] = []
        count = size = seen = 0
        following = begin
        for record in records:
            if record.offset < begin:
                continue
            if count >= count_max or seen >= seen_max:
                return PulledBatch(parts, count, size, following, True, seen)
            seen += 1
            facts, properties = self._facts(record)
            if wanted is None or wanted(properties):
                body = record.value or b""
                more = self._fixed_bytes + len(facts.born_host) + len(body) + len(properties)
                if count and size + more > bytes_max:
                    return PulledBatch(parts, count, size, following, True, seen)
                parts += self._parts(more, record, body, facts, properties)
                count += 1
                size += more
            following = record.offset + 1
        return PulledBatch(parts, count, size, following, size >= bytes_max, seen)

    def take(
        self,
        cursor: RecordCursor,
        begin: int,
        *,
        count_max: int,
        bytes_max: int,
        seen_max: int = 1 << 31,
        wanted: Wanted | None = None,
        any_size: bool = True,
    ) -> PulledBatch:
        """Return messages of a batch's records, as `pulled`; the cursor stays before those left.

        `any_size`: whether the first message may have any size. Raises CorruptBatch.
        """
        parts: list[bytes] = []
        count = size = seen = 0
        following = begin
        if cursor.delta < begin - cursor.base_offset:
            cursor.skip_to(begin)
        while cursor.left:
            if count >= count_max or seen >= seen_max:
                return PulledBatch(parts, count, size, following, True, seen)
            start, left, delta = cursor.at, cursor.left, cursor.delta
            record = cut_sent(cursor)
            if record is not None and wanted is None and cursor.left:
                room = min(count_max - count, seen_max - seen)
                alike = self._alike(cursor, start, record, bytes_max - size, room)
                if alike is not None:
                    messages, more = alike
                    parts.append(messages)
                    count += more
                    seen += more
                    size += len(messages)
                    following = record.offset + more
                    continue
            offset, message = (
                self._read(cursor) if record is None else self._spliced(cursor, record)
            )
            more = sum(map(len, message))
            if wanted is None or wanted(message[-1]):
                if (count or not any_size) and size + more > bytes_max:
                    cursor.at, cursor.left, cursor.delta = start, left, delta
                    return PulledBatch(parts, count, size, following, True, seen)
                parts += message
                count += 1
                size += more
            seen += 1
            following = offset + 1
        return PulledBatch(parts, count, size, following, size >= bytes_max, seen)

    def _read(self, cursor: RecordCursor) -> tuple[int, Sequence[bytes]]:
        """Return offset and parts of the next record's message; properties are the last part."""
        record = cursor.read()
        facts, properties = self._facts(record)
        body = record.value or b""
        size = self._fixed_bytes + len(facts.born_host) + len(body) + len(properties)
        return record.offset, self._parts(size, record, body, facts, properties)

    def _spliced(self, cursor: RecordCursor, record: SentRecord) -> tuple[int, Sequence[bytes]]:
        """Return the same of a record that was cut; its properties are not looked at."""
        offset, timestamp, body_at, body_end, facts_at, end = record
        data = cursor.data
        _, flag, system_flag, born_at_ms, reconsume_times, born_host = FACTS_V4.unpack_from(
            data, facts_at
        )
        body, properties = data[body_at:body_end], data[facts_at + FACTS_V4.size : end]
        if len(properties) + len(self._added) < PROPERTIES_BYTES_MAX:
            properties = closed(properties) + self._added
        if offset > OFFSET_MAX:
            raise ValueError(f"offset {offset} has more than 40 bits")
        front = self._front.pack(
            self._fixed_bytes + HOST_V4_BYTES + len(body) + len(properties), self._magic,
            crc32(body) & CRC_MASK, self._queue_id, flag, offset, self._physical_base | offset,
            system_flag & READ_FLAGS | self._store_flag, born_at_ms, born_host, timestamp,
            self._store_host, reconsume_times, 0, len(body),
        )  # fmt: skip
        return offset, (front, body, self._tail.pack(self._topic, len(properties)), properties)

    def _alike(
        self, cursor: RecordCursor, start: int, record: SentRecord, bytes_max: int, count_max: int
    ) -> tuple[bytes, int] | None:
        """Return the messages of the records alike from `record` on, and their number.

        None: there are none, and the cursor stays behind `record`.
        """
        body_size = record.body_end - record.body_at
        sent = record.end - record.facts_at - FACTS_V4.size
        size = sent + len(self._added)
        if size >= PROPERTIES_BYTES_MAX or record.offset + cursor.left > OFFSET_MAX:
            return None
        total = self._fixed_bytes + HOST_V4_BYTES + body_size + size
        alike = cut_alike(cursor, start, record, min(count_max, bytes_max // total))
        if alike is None:
            return None
        count, first, physical = (
            alike.record_count,
            record.offset,
            self._physical_base | record.offset,
        )
        again, born_host = alike.again_from[:4], alike.again_from[4:]
        stored = STORED_AT.pack(record.timestamp) + self._store_host
        fixed = b"".join((born_host, stored, again, _PREPARED_AND_SIZE.pack(0, body_size)))
        tail = self._tail.pack(self._topic, size)
        form = _form_of_alike(len(fixed), body_size, len(tail), sent, len(self._added))
        messages = map(
            form.pack, repeat(_TOTAL_AND_MAGIC.pack(total, self._magic)),
            map(and_, map(crc32, alike.bodies), repeat(CRC_MASK)),
            repeat(_QUEUE_ID.pack(self._queue_id) + alike.flag),
            range(first, first + count), range(physical, physical + count),
            repeat(alike.system_flag & READ_FLAGS | self._store_flag), alike.born,
            repeat(fixed), alike.bodies, repeat(tail), alike.properties, repeat(self._added),
        )  # fmt: skip
        return b"".join(messages), count

    def _facts(self, record: Record) -> tuple[MessageFacts, bytes]:
        """Return a record's facts, and its properties with those that the broker adds."""
        headers = record.headers
        for name, value in headers:
            if name == NAME and (facts := decode_facts(value)) is not None:
                properties = closed(facts.properties) + self._added
                if len(properties) > PROPERTIES_BYTES_MAX:
                    properties = facts.properties
                return facts, properties
        properties = record_properties(record.key, headers, PROPERTIES_BYTES_MAX - len(self._added))
        return MessageFacts(0, 0, record.timestamp, 0, _UNKNOWN_HOST, b""), properties + self._added

    def _parts(
        self, total: int, record: Record, body: bytes, facts: MessageFacts, properties: bytes
    ) -> Sequence[bytes]:
        flag, system_flag, born_at_ms, reconsume_times, born_host, _, prepared_offset = facts
        if record.offset > OFFSET_MAX:
            raise ValueError(f"offset {record.offset} has more than 40 bits")
        return (
            HEAD.pack(
                total,
                self._magic,
                body_crc(body),
                self._queue_id,
                flag,
                record.offset,
                self._physical_base | record.offset,
                system_flag | self._store_flag,
                born_at_ms,
            ),
            born_host,
            STORED_AT.pack(record.timestamp),
            self._store_host,
            TAIL.pack(reconsume_times, prepared_offset, len(body)),
            body,
            self._topic,
            SIZE_I16.pack(len(properties)),
            properties,
        )


def facts_of(record: Record) -> MessageFacts:
    """Return a record's facts; those of a record that no RocketMQ client sent are made up."""
    for name, value in record.headers:
        if name == NAME and (facts := decode_facts(value)) is not None:
            return facts
    properties = record_properties(record.key, record.headers, PROPERTIES_BYTES_MAX)
    return MessageFacts(0, 0, record.timestamp, 0, _UNKNOWN_HOST, properties)


def record_properties(key: bytes | None, headers: Sequence[Header], bytes_max: int) -> bytes:
    """Return the properties of a record that no RocketMQ client sent.

    Its key as KEYS, then its headers. Names and values that are no UTF-8 text or have control
    characters are left out, and so are those behind `bytes_max`.
    """
    parts: list[bytes] = []
    size = 0
    named = [] if key is None else [(KEYS, key)]
    named += [(name.encode(), value or b"") for name, value in headers if name != NAME]
    for name, value in named:
        size += len(name) + len(value) + 2
        if size > bytes_max:
            break
        if name and _is_text(name) and _is_text(value):
            parts += (name, NAME_END, value, ENTRY_END)
        else:
            size -= len(name) + len(value) + 2
    return b"".join(parts)


def _is_text(value: bytes) -> bool:
    if _NO_TEXT.search(value):
        return False
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
