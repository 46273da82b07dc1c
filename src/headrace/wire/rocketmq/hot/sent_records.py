"""`cut_sent`: the next record of a batch, if it has the form in which sent messages are stored.

    size | attributes 0 | time 0 | offset | key size | key | body size | body | headers 1 |
    "rocketmq" | facts size | facts

Sizes and the two deltas are varints (`record.batch_layout`). It is written by
`sent_messages.encode_batch_of`, so nearly every record of RocketMQ's topics has it. Other records,
and those of clients with an IPv6 address, are decoded by `RecordCursor.read`.
"""

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import repeat
from struct import Struct
from typing import NamedTuple

from headrace.record.record import read_unsigned, short_numbers, write_varint
from headrace.record.record_cursor import RecordCursor
from headrace.wire.rocketmq.message_ids import HOST_V4_BYTES
from headrace.wire.rocketmq.properties import ENTRY_END, PROPERTIES_BYTES_MAX
from headrace.wire.rocketmq.record_header import FACTS_V4, FIXED, ONE_HEADER, VERSION
from headrace.wire.rocketmq.stored_messages import SystemFlag

_NO_KEY = 1
"""The encoding of a null key: a size of -1."""
_ATTRIBUTES_AND_TIME = 2
"""The bytes behind a record's size: no attributes, and the time of its batch."""
ONE_BYTE_DELTAS = 64
"""Offsets below this one are encoded in one byte."""
_flags = Struct(">4si").unpack_from
_FLAGS_END = 9
"""The version of the facts, and the two flags."""
_SIZE_MIN = FACTS_V4.size
_SIZE_MAX = FACTS_V4.size + PROPERTIES_BYTES_MAX
_V6_AT = FIXED.size - 13
"""The last byte of the system flag, which has the bit of an IPv6 host."""


class SentRecord(NamedTuple):
    """A record that was cut: its place, and those of its fields in the cursor's data."""

    offset: int
    timestamp: int
    body_at: int
    body_end: int
    facts_at: int
    end: int


_new = tuple.__new__  # makes a named tuple in two fifths of its constructor's time


def cut_sent(cursor: RecordCursor) -> SentRecord | None:
    """Cut the next record. None: it has another form, and the cursor is where it was."""
    data, at, more = cursor.data, cursor.at, read_unsigned
    numbers, delta = short_numbers(), cursor.delta
    try:
        size = data[at]
        at += 1
        if size >= 0x80:
            if (high := data[at]) < 0x80:
                size += (high << 7) - 0x80
                at += 1
            else:
                size, at = more(data, at - 1)
        end = at + (size >> 1)
        encoded = numbers[delta] if delta < len(numbers) else write_varint(delta)
        if end > cursor.end or data[at] or data[at + 1] or not data.startswith(encoded, at + 2):
            return None
        at += 2 + len(encoded)
        size = data[at]
        at += 1
        if size >= 0x80:
            size, at = more(data, at - 1)
        if size != _NO_KEY:
            at += size >> 1
        size = data[at]
        at += 1
        if size >= 0x80:
            if (high := data[at]) < 0x80:
                size += (high << 7) - 0x80
                at += 1
            else:
                size, at = more(data, at - 1)
        body_at, at = at, at + (size >> 1)
        body_end = at
        if size & 1 or not data.startswith(ONE_HEADER, at):
            return None
        at += len(ONE_HEADER)
        size = data[at]
        at += 1
        if size >= 0x80:
            size, at = more(data, at - 1)
        if at + (size >> 1) != end or not _SIZE_MIN <= end - at <= _SIZE_MAX:
            return None
        if data[at] != VERSION or data[at + _V6_AT] & SystemFlag.BORN_HOST_V6:
            return None
    except IndexError:
        return None  # `RecordCursor.read` raises
    cursor.at, cursor.left, cursor.delta = end, cursor.left - 1, delta + 1
    timestamp = cursor.append_time
    if timestamp is None:
        timestamp = cursor.base_timestamp
    fields = cursor.base_offset + delta, timestamp, body_at, body_end, at, end
    record: SentRecord = _new(SentRecord, fields)
    return record


class AlikeRecords(NamedTuple):
    """Records one after another that differ in offset, key, body, birth and properties alone."""

    record_count: int
    flag: bytes
    """The flag of each message, as stored."""
    system_flag: int
    again_from: bytes
    """The reconsume times and the born host of each message, as stored."""
    bodies: Sequence[bytes]
    born: Sequence[bytes]
    """The time of each message's birth, as stored."""
    properties: Sequence[bytes]


def cut_alike(
    cursor: RecordCursor, start: int, record: SentRecord, count_max: int
) -> AlikeRecords | None:
    """Cut the records that have the sizes of `record`, which was cut at `start`, and itself.

    Most producers send messages of one size, one after another. All of them are cut in a few calls,
    and what they have in common is compared, not decoded. None: only `record` is like itself, and
    the cursor stays behind it.
    """
    data, delta, step = cursor.data, cursor.delta - 1, record.end - start
    _, head_end = read_unsigned(data, start)
    head_end += _ATTRIBUTES_AND_TIME
    deltas, delta_max = _encoded_deltas(delta)
    count = min(count_max, cursor.left + 1, (cursor.end - start) // step, delta_max - delta)
    if count < 2 or not data.startswith(data[start:head_end], record.end):
        return None
    key_size_at = head_end + len(deltas)
    size, key_at = read_unsigned(data, key_size_at)
    key_end = key_at + (0 if size == _NO_KEY else size >> 1)
    form = _form(
        head_end - start, len(deltas), key_at - key_size_at, key_end - key_at,
        record.body_at - key_end, record.body_end - record.body_at,
        record.facts_at - record.body_end + _FLAGS_END,
        record.end - record.facts_at - FACTS_V4.size,
    )  # fmt: skip
    end = start + count * step
    columns = zip(*form.iter_unpack(memoryview(data)[start:end]), strict=True)
    heads, key_sizes, body_sizes, bodies, flags, born, again_from, properties = columns
    for column in (heads, key_sizes, body_sizes, flags, again_from):
        if column.count(column[0]) != len(column):
            count = min(count, _in_common(column, repeat(column[0])))
    for place, wanted in enumerate(deltas, head_end):
        found = data[place:end:step]
        if found != wanted[delta : delta + len(found)]:
            count = min(count, _in_common(found, wanted[delta:]))
    ends = data[record.end - 1 : end : step]
    if ends.count(ENTRY_END) != len(ends):
        count = min(count, _in_common(ends, repeat(ENTRY_END[0])))
    if count < 2:
        return None
    cursor.at, cursor.left, cursor.delta = start + count * step, cursor.left - count + 1, delta
    cursor.delta += count
    flag, system_flag = _flags(flags[0], record.facts_at - record.body_end + 1)
    return AlikeRecords(
        count, flag, system_flag, again_from[0],
        bodies[:count], born[:count], properties[:count],
    )  # fmt: skip


@lru_cache(64)
def _form(*sizes: int) -> Struct:
    """Return the fields of a record: its key is skipped, and so is its offset."""
    head, delta, key_size, key, body_size, body, flags, properties = sizes
    sent = f"{body}s{flags}s8s{4 + HOST_V4_BYTES}s{properties}s"
    return Struct(f"{head}s{delta}x{key_size}s{key}x{body_size}s{sent}")


def _encoded_deltas(delta: int) -> tuple[Sequence[bytes], int]:
    """Return the bytes of encoded offsets, by their place, and how many there are of this size."""
    first, both = _deltas()
    return ((first,), ONE_BYTE_DELTAS) if delta < ONE_BYTE_DELTAS else (both, len(both[0]))


@cache
def _deltas() -> tuple[bytes, tuple[bytes, bytes]]:
    numbers = short_numbers()
    pairs = [bytes(2)] * ONE_BYTE_DELTAS + list(numbers[ONE_BYTE_DELTAS:])
    low, high = bytes(pair[0] for pair in pairs), bytes(pair[1] for pair in pairs)
    return b"".join(numbers[:ONE_BYTE_DELTAS]), (low, high)


def _in_common(found: Iterable[object], wanted: Iterable[object]) -> int:
    """Return how many values are the same from the beginning on."""
    count = 0
    for value, expected in zip(found, wanted, strict=False):
        if value != expected:
            break
        count += 1
    return count
