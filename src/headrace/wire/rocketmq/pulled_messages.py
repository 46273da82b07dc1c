"""Record batches as the stored messages that pulls deliver.

A record that a RocketMQ client sent has its facts in one header (`record_header`), from which its
stored message is put together: the properties are copied, not read. Records of Kafka's and AMQP's
producers get properties instead: the key as KEYS, and each header whose value is text. A record
without a value is delivered with an empty body.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from headrace.record.record import Header, Record, short_numbers
from headrace.record.record_cursor import RecordCursor
from headrace.wire.rocketmq.hot.sent_records import SentRecord, cut_sent, shape_of
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


_END = ENTRY_END[0]


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
        count = size = seen = last_size = 0
        following = begin
        if cursor.delta < begin - cursor.base_offset:
            cursor.skip_to(begin)
        while cursor.left:
            if count >= count_max or seen >= seen_max:
                return PulledBatch(parts, count, size, following, True, seen)
            start, left, delta = cursor.at, cursor.left, cursor.delta
            record = cut_sent(cursor)
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
                if wanted is None and record is not None and more == last_size:
                    room = min(count_max - count, seen_max - seen - 1, (bytes_max - size) // more)
                    alike = self._splice_alike(cursor, start, record, parts, room)
                    count += alike
                    seen += alike
                    size += alike * more
                    offset += alike
                last_size = more
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

    def _splice_alike(
        self,
        cursor: RecordCursor,
        start: int,
        record: SentRecord,
        parts: list[bytes],
        count_max: int,
    ) -> int:
        """Add the messages of the records that follow `record` and have its sizes; return how many.

        Most producers send messages of one size, one after another. What lies between body,
        properties and the fixed fields is then the same, and is compared, not decoded: the version
        of the facts is the last byte of `header`.
        """
        data, numbers, unpack = cursor.data, short_numbers(), FACTS_V4.unpack_from
        offset, timestamp, at, delta = record.offset, record.timestamp, record.end, cursor.delta
        shape = shape_of(data, start, record, numbers[min(delta, len(numbers)) - 1])
        head, delta_at, delta_size, middle, middle_at, body_at, header, body_end, facts_at = shape
        properties_at, step = facts_at + FACTS_V4.size, at - start
        added, size = self._added, step - properties_at + len(self._added)
        room = min(count_max, cursor.left, (cursor.end - at) // step, len(numbers) - delta)
        if size >= PROPERTIES_BYTES_MAX or offset + cursor.left > OFFSET_MAX:
            return 0
        body_size, number = body_end - body_at, 0
        total = self._fixed_bytes + HOST_V4_BYTES + body_size + size
        pack, tail = self._front.pack, self._tail.pack(self._topic, size)
        magic, queue_id, base = self._magic, self._queue_id, self._physical_base
        host, store_flag = self._store_host, self._store_flag
        while number < room:
            encoded = numbers[delta]
            if (
                len(encoded) != delta_size
                or not data.startswith(encoded, at + delta_at)
                or not data.startswith(header, at + body_end)
                or not data.startswith(middle, at + middle_at)
                or not data.startswith(head, at)
                or data[at + step - 1] != _END
            ):
                break
            _, flag, system_flag, born_at_ms, reconsume_times, born_host = unpack(
                data, at + facts_at
            )
            if system_flag & SystemFlag.BORN_HOST_V6:
                break
            number, delta, offset = number + 1, delta + 1, offset + 1
            body = data[at + body_at : at + body_end]
            parts += (
                pack(
                    total, magic, crc32(body) & CRC_MASK, queue_id, flag, offset, base | offset,
                    system_flag & READ_FLAGS | store_flag, born_at_ms, born_host, timestamp, host,
                    reconsume_times, 0, body_size,
                ),
                body, tail, data[at + properties_at : at + step], added,
            )  # fmt: skip
            at += step
        cursor.at, cursor.left, cursor.delta = at, cursor.left - number, delta
        return number

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
