"""RocketMQ's codecs: there and back, and hostile bytes raise Malformed alone."""

import contextlib
import struct
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import Malformed
from headrace.record.batch import Codec, CorruptBatch, build, new_record, recompress, records
from headrace.record.record import Record
from headrace.record.record_cursor import RecordCursor
from headrace.wire.rocketmq.batch_bodies import BatchedMessage, decode_batch, encode_batch
from headrace.wire.rocketmq.commands import (
    LANGUAGES,
    RemotingCommand,
    decode_command,
    encode_command,
)
from headrace.wire.rocketmq.fastjson import FastJson, Keyed, decode_body, encode_body
from headrace.wire.rocketmq.frames import HEADER_AT, Serialization, frame_at, frame_bytes
from headrace.wire.rocketmq.pulled_messages import PulledQueue
from headrace.wire.rocketmq.record_header import NAME, MessageFacts
from headrace.wire.rocketmq.requests import offset_request, pull_request, send_request
from headrace.wire.rocketmq.sent_messages import SentMessage, encode_batch_of
from headrace.wire.rocketmq.stored_messages import (
    PulledMessage,
    decode_messages,
    encode_message,
)
from headrace.wire.rocketmq.topic_names import kafka_name, rocketmq_name

INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
COMMANDS = st.builds(
    RemotingCommand,
    INT16,
    INT32,
    INT32,
    st.dictionaries(TEXT, TEXT, max_size=5),
    st.binary(max_size=50),
    st.one_of(st.none(), TEXT.filter(bool)),
    st.sampled_from(LANGUAGES),
    INT16,
)
HOSTS = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
PROPERTIES = st.binary(max_size=60)
BODIES = st.binary(max_size=60)
MESSAGES = st.builds(
    PulledMessage,
    st.one_of(st.binary(max_size=20), st.binary(min_size=120, max_size=140)),
    INT32,
    INT64,
    INT64,
    BODIES,
    PROPERTIES,
    INT64,
    HOSTS,
    INT64,
    HOSTS,
    INT32,
    INT32.map(lambda flag: flag & ~0x30),
    INT32,
    INT64,
)
VALUES: st.SearchStrategy[FastJson] = st.recursive(
    st.one_of(st.none(), st.booleans(), INT64, TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(TEXT, inner, max_size=4),
        st.lists(st.tuples(INT32, inner), min_size=1, max_size=4).map(
            lambda pairs: Keyed(tuple(pairs))
        ),
    ),
    max_leaves=12,
)
NAMES = st.text("%|aA5_-2C7", min_size=1, max_size=40)


@given(COMMANDS, st.sampled_from(Serialization))
def test_commands_return(command: RemotingCommand, serialization: Serialization) -> None:
    raw = b"".join(encode_command(command, serialization))
    assert frame_bytes(raw, 0, len(raw)) == len(raw)
    frame = frame_at(memoryview(raw), 0)
    assert decode_command(frame.serialization, frame.header, bytes(frame.body)) == command


@given(st.data(), COMMANDS, st.sampled_from(Serialization))
def test_hostile_frames_are_read_or_malformed(
    data: st.DataObject, command: RemotingCommand, serialization: Serialization
) -> None:
    raw = bytearray(b"".join(encode_command(command, serialization)))
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=8)
    ):
        raw[at] = value
    with contextlib.suppress(Malformed):
        if 0 < frame_bytes(raw, 0, len(raw)) <= len(raw):
            frame = frame_at(memoryview(raw), 0)
            read = decode_command(frame.serialization, frame.header, frame.body)
            assert encode_command(read)
            for fields_of in (send_request, pull_request, offset_request):
                with contextlib.suppress(Malformed):
                    fields_of(read)


@given(st.binary(max_size=80), st.sampled_from(Serialization))
def test_any_bytes_are_a_header_or_malformed(header: bytes, serialization: Serialization) -> None:
    with contextlib.suppress(Malformed):
        decode_command(serialization, header, b"")
    with contextlib.suppress(Malformed):
        decode_body(header)
    with contextlib.suppress(Malformed):
        decode_batch(header)
    with contextlib.suppress(Malformed):
        list(decode_messages(header))
    with contextlib.suppress(Malformed):
        frame_bytes(header, 0, len(header))
    assert HEADER_AT == 8


@given(st.lists(MESSAGES, max_size=4))
def test_stored_messages_return(messages: list[PulledMessage]) -> None:
    read = list(decode_messages(b"".join(map(encode_message, messages))))
    assert [each._replace(system_flag=each.system_flag & ~0x30) for each in read] == messages


@given(st.data(), MESSAGES)
def test_a_changed_stored_message_is_read_or_malformed(
    data: st.DataObject, message: PulledMessage
) -> None:
    raw = bytearray(encode_message(message))
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=4)
    ):
        raw[at] = value
    with contextlib.suppress(Malformed):
        list(decode_messages(bytes(raw)))


@given(st.lists(st.builds(BatchedMessage, INT32, BODIES, PROPERTIES), min_size=1, max_size=5))
def test_batches_return(messages: list[BatchedMessage]) -> None:
    assert decode_batch(encode_batch(messages)) == messages


@given(VALUES)
def test_bodies_return(value: FastJson) -> None:
    assert decode_body(encode_body(value)) == value


@given(NAMES)
def test_names_return(name: str) -> None:
    assert rocketmq_name(kafka_name(name)) == name


@given(st.text(".25C7%a_r", max_size=30), st.booleans())
def test_no_two_topics_have_one_kafka_name(kafka: str, reserved: bool) -> None:
    name = rocketmq_name(f"__rocketmq.{kafka}" if reserved else kafka)
    if name and "." not in name and "%" not in kafka:
        assert kafka_name(name) == (f"__rocketmq.{kafka}" if reserved else kafka)


@given(
    st.lists(
        st.tuples(BODIES, st.builds(MessageFacts, INT32, INT32, INT64, INT32, HOSTS, PROPERTIES)),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, (1 << 23) - 1),
)
def test_sent_messages_are_pulled_as_they_were(
    sent: list[tuple[bytes, MessageFacts]], number: int
) -> None:
    batch = encode_batch_of([SentMessage(body, facts) for body, facts in sent], 77)
    queue = PulledQueue(b"t", 1, number, bytes(8), b"A\x01b\x02")
    pulled = queue.pulled(records(batch), 0, count_max=99, bytes_max=1 << 20)
    found = list(decode_messages(b"".join(pulled.parts)))
    assert len(found) == pulled.message_count == len(sent)
    for at, (message, (body, facts)) in enumerate(zip(found, sent, strict=True)):
        assert message.body == body
        assert message.queue_offset == at
        assert message.physical_offset == number << 40 | at
        assert message.properties.startswith(facts.properties)
        assert message.properties.endswith(b"A\x01b\x02")
        assert (message.flag, message.born_at_ms, message.born_host) == (
            facts.flag, facts.born_at_ms, facts.born_host,
        )  # fmt: skip
        v6 = 0x10 if len(facts.born_host) == 20 else 0
        assert message.system_flag == facts.system_flag & ~0x731 | v6
        assert message.reconsume_times == facts.reconsume_times


@given(
    st.binary(max_size=80),
    st.one_of(st.none(), st.binary(max_size=20)),
    st.lists(st.tuples(TEXT, st.one_of(st.none(), st.binary(max_size=20))), max_size=4),
)
def test_any_record_is_pulled(
    forged: bytes, key: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    headers = [*headers, (NAME, forged), (NAME, b"\x01" + forged + struct.pack(">q", 5))]
    batch = build([new_record(None, key, 5, headers)])
    pulled = PulledQueue(b"t", 1, 0, bytes(8), b"").pulled(
        records(batch), 0, count_max=9, bytes_max=1
    )
    assert len(list(decode_messages(b"".join(pulled.parts)))) == 1


@given(
    st.lists(
        st.one_of(
            st.builds(
                SentMessage,
                st.binary(max_size=200),
                st.builds(MessageFacts, INT32, INT32, INT64, INT32, HOSTS, PROPERTIES),
            ),
            st.builds(
                new_record,
                st.one_of(st.none(), st.binary(max_size=200)),
                st.one_of(st.none(), st.binary(max_size=200)),
                st.integers(0, 1 << 40),
            ),
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 9),
    st.integers(1, 4),
    st.integers(1, 2000),
    st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD]),
)
def test_messages_taken_from_a_batch_are_those_of_its_records(
    written: list[SentMessage | Record], begin: int, step: int, bytes_max: int, codec: Codec
) -> None:
    if all(isinstance(each, SentMessage) for each in written):
        batch: bytes | bytearray = encode_batch_of(cast("list[SentMessage]", written), 77)
    else:
        found = (_record(each) if isinstance(each, SentMessage) else each for each in written)
        batch = build(list(found))
    if codec is not Codec.NONE:
        batch = recompress(batch, codec)
    queue = PulledQueue(b"t", 1, 5, bytes(8), b"A\x01b\x02")
    expected = queue.pulled(records(batch), begin, count_max=99, bytes_max=1 << 20)
    cursor, parts, at = RecordCursor(bytes(batch), 0), list[bytes](), begin
    while cursor.left:
        taken = queue.take(cursor, at, count_max=step, bytes_max=bytes_max)
        assert taken.message_count <= step
        assert taken.size <= bytes_max or taken.message_count == 1
        parts += taken.parts
        at = taken.next_offset
    assert b"".join(parts) == b"".join(expected.parts)
    assert at == expected.next_offset


def _record(sent: SentMessage) -> Record:
    """Return a sent message's record, as another producer could write it."""
    (record,) = records(encode_batch_of([sent], 5))
    return record


@given(st.integers(0, 5000), st.integers(0, 255), st.integers(0, 3))
def test_damaged_records_are_taken_or_corrupt(at: int, value: int, begin: int) -> None:
    facts = MessageFacts(0, 0, 5, 0, bytes(8), b"KEYS\x01k\x02")
    batch = bytearray(encode_batch_of([SentMessage(b"body" * 40, facts)] * 4, 5))
    batch[61 + at % (len(batch) - 61)] = value
    queue = PulledQueue(b"t", 1, 0, bytes(8), b"")
    with contextlib.suppress(CorruptBatch):
        cursor = RecordCursor(bytes(batch), 0)
        queue.take(cursor, begin, count_max=9, bytes_max=1 << 20)
