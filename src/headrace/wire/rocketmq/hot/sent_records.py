"""`cut_sent`: the next record of a batch, if it has the form in which sent messages are stored.

    size | attributes 0 | time 0 | offset | key size | key | body size | body | headers 1 |
    "rocketmq" | facts size | facts

Sizes and the two deltas are varints (`record.batch_layout`). It is written by
`sent_messages.encode_batch_of`, so nearly every record of RocketMQ's topics has it. Other records,
and those of clients with an IPv6 address, are decoded by `RecordCursor.read`.
"""

from typing import NamedTuple

from headrace.record.record import read_unsigned, short_numbers, write_varint
from headrace.record.record_cursor import RecordCursor
from headrace.wire.rocketmq.properties import PROPERTIES_BYTES_MAX
from headrace.wire.rocketmq.record_header import FACTS_V4, FIXED, ONE_HEADER, VERSION
from headrace.wire.rocketmq.stored_messages import SystemFlag

_NO_KEY = 1
"""The encoding of a null key: a size of -1."""
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


class SentShape(NamedTuple):
    """The bytes of a record but for its varying fields, and the places of all, from its begin."""

    head: bytes
    delta_at: int
    delta_size: int
    middle: bytes
    """From the offset's end to the body."""
    middle_at: int
    body_at: int
    header: bytes
    """From the body's end to the version of the facts."""
    body_end: int
    facts_at: int


def shape_of(data: bytes, start: int, record: SentRecord, delta: bytes) -> SentShape:
    """Return the shape of a record that begins at `start`; `delta`: its encoded offset."""
    delta_at = data.index(b"\x00\x00", start) + 2
    middle_at = delta_at + len(delta)
    return SentShape(
        data[start:delta_at],
        delta_at - start,
        len(delta),
        data[middle_at : record.body_at],
        middle_at - start,
        record.body_at - start,
        data[record.body_end : record.facts_at + 1],
        record.body_end - start,
        record.facts_at - start,
    )
