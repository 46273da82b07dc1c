"""Records of one size are cut and spliced together, with the result of one after the other."""

import struct

import pytest

from headrace.record.batch import build, records
from headrace.record.record_cursor import RecordCursor
from headrace.wire.rocketmq.message_ids import host_bytes
from headrace.wire.rocketmq.pulled_messages import PulledQueue
from headrace.wire.rocketmq.record_header import MessageFacts
from headrace.wire.rocketmq.sent_messages import SentMessage, encode_batch_of
from headrace.wire.rocketmq.stored_messages import decode_messages

FACTS = MessageFacts(7, 0x2, 1795860860391, 2, host_bytes("192.0.2.7", 49260), b"KEYS\x01k000\x02")
QUEUE = PulledQueue(b"orders", 3, 5, host_bytes("127.0.0.1", 10911), b"CLUSTER\x01c\x02")


@pytest.mark.parametrize(
    "other",
    [
        FACTS,
        FACTS._replace(flag=8),
        FACTS._replace(system_flag=0),
        FACTS._replace(reconsume_times=3),
        FACTS._replace(born_at_ms=5),
        FACTS._replace(born_host=host_bytes("192.0.2.8", 49260)),
        FACTS._replace(born_host=host_bytes("::1", 49260)),
        FACTS._replace(prepared_offset=5, properties=b""),
        FACTS._replace(properties=b"KEYS\x01k1234"),
        FACTS._replace(properties=b"TAGS\x01k123\x02"),
        FACTS._replace(properties=b"KEYS\x01longer\x02"),
    ],
    ids=[
        "same", "flag", "system flag", "reconsume times", "birth", "host", "IPv6 host",
        "committed", "properties without their end", "no key", "another size",
    ],
)  # fmt: skip
@pytest.mark.parametrize("at", [0, 1, 2, 63, 64, 99])
@pytest.mark.parametrize("step", [1, 7, 32, 1024])
def test_records_alike_are_spliced_as_one_by_one(other: MessageFacts, at: int, step: int) -> None:
    written = [
        SentMessage(
            b"body %03d" % number,
            other if number == at else FACTS._replace(properties=b"KEYS\x01k%03d\x02" % number),
        )
        for number in range(100)
    ]
    batch = encode_batch_of(written, 1234567)
    expected = QUEUE.pulled(records(batch), 0, count_max=999, bytes_max=1 << 20)
    cursor, parts, following = RecordCursor(batch, 0), list[bytes](), 0
    while cursor.left:
        taken = QUEUE.take(cursor, following, count_max=step, bytes_max=1 << 20)
        assert taken.message_count == min(step, 100 - following)
        parts += taken.parts
        following = taken.next_offset
    assert b"".join(parts) == b"".join(expected.parts)


@pytest.mark.parametrize("kept", [[0, 1, 2, 5, 6, 7], [3, 4, 5], [0, 63, 64, 65, 200, 201]])
def test_records_alike_around_gaps_keep_their_offsets(kept: list[int]) -> None:
    found = list(records(encode_batch_of([SentMessage(b"body", FACTS)] * 300, 1234567)))
    batch = build([found[number] for number in kept], keep_offsets=True)
    taken = QUEUE.take(RecordCursor(batch, 0), 0, count_max=99, bytes_max=1 << 20)
    assert [message.queue_offset for message in decode_messages(b"".join(taken.parts))] == kept


def test_a_size_with_needless_bytes_is_read_and_not_taken_for_another() -> None:
    batch = bytearray(encode_batch_of([SentMessage(b"b", FACTS._replace(properties=b""))] * 3, 5))
    at = 61
    size = batch[at]
    assert size < 0x80
    for _ in range(3):
        batch[at : at + 1] = bytes((size | 0x80, 0))
        at += 2 + (size >> 1)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    taken = QUEUE.take(RecordCursor(bytes(batch), 0), 0, count_max=9, bytes_max=1 << 20)
    assert [message.body for message in decode_messages(b"".join(taken.parts))] == [b"b"] * 3
