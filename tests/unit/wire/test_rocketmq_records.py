"""Messages as records and records as pulled messages, also of other protocols' producers."""

import struct
import zlib
from collections.abc import Sequence

import lz4.frame
import pytest
import zstandard

from headrace.model.errors import Malformed
from headrace.record.batch import build, new_record, records
from headrace.record.record import Header, Record
from headrace.record.record_cursor import RecordCursor
from headrace.wire.rocketmq.message_ids import PlaceInCluster, host_bytes, physical_offset
from headrace.wire.rocketmq.pulled_messages import PulledBatch, PulledQueue, record_properties
from headrace.wire.rocketmq.record_header import NAME, MessageFacts, decode_facts, encode_facts
from headrace.wire.rocketmq.sent_messages import (
    BODY_BYTES_MAX,
    MessageIllegal,
    SentMessage,
    check_sent,
    encode_batch_of,
    plain_body,
)
from headrace.wire.rocketmq.stored_messages import PulledMessage, decode_messages

BORN_HOST = host_bytes("192.0.2.7", 49260)
STORE_HOST = host_bytes("127.0.0.1", 10911)
ADDED = b"CLUSTER\x01c\x02"
FACTS = MessageFacts(7, 0x2, 1795860860391, 2, BORN_HOST, b"TAGS\x01A\x02KEYS\x01k1 k2\x02")


def queue(partition_number: int = 5, topic: bytes = b"orders") -> PulledQueue:
    """Return a queue with the id 3."""
    return PulledQueue(topic, 3, partition_number, STORE_HOST, ADDED)


def pulled(
    found: Sequence[Record], begin: int = 0, count_max: int = 32, bytes_max: int = 1 << 20
) -> PulledBatch:
    """Return what a pull gets of records."""
    return queue().pulled(found, begin, count_max=count_max, bytes_max=bytes_max)


def messages_of(batch: PulledBatch) -> list[PulledMessage]:
    """Return the messages of a pull."""
    body = b"".join(batch.parts)
    assert len(body) == batch.size
    found = list(decode_messages(body))
    assert len(found) == batch.message_count
    return found


def sent(count: int, facts: MessageFacts = FACTS) -> list[Record]:
    """Return the records of some messages, as they are read from the log."""
    batch = encode_batch_of([SentMessage(b"body %d" % n, facts) for n in range(count)], 1234567)
    return list(records(batch))


def foreign(
    value: bytes | None, key: bytes | None = None, headers: Sequence[Header] = ()
) -> list[Record]:
    """Return a record that a Kafka producer wrote."""
    return list(records(build([new_record(value, key, 99, headers)])))


def test_a_sent_message_is_a_record_with_body_and_keys() -> None:
    first, second = sent(2)
    assert (first.key, first.value, first.timestamp) == (b"k1 k2", b"body 0", 1234567)
    assert second.value == b"body 1"
    assert [name for name, _ in first.headers] == [NAME]
    assert decode_facts(first.headers[0][1]) == FACTS


@pytest.mark.parametrize("properties", [b"", b"TAGS\x01A\x02", b"KEYS\x01\x02"])
def test_a_message_without_keys_is_a_record_without_a_key(properties: bytes) -> None:
    assert sent(1, FACTS._replace(properties=properties))[0].key is None


def test_a_pulled_message_is_the_sent_one() -> None:
    batch = pulled(sent(3))
    assert (batch.message_count, batch.next_offset, batch.is_full) == (3, 3, False)
    assert messages_of(batch)[1] == PulledMessage(
        topic=b"orders",
        queue_id=3,
        queue_offset=1,
        physical_offset=physical_offset(PlaceInCluster(5, 1)),
        body=b"body 1",
        properties=FACTS.properties + ADDED,
        born_at_ms=FACTS.born_at_ms,
        born_host=BORN_HOST,
        stored_at_ms=1234567,
        store_host=STORE_HOST,
        flag=7,
        system_flag=2,
        reconsume_times=2,
        prepared_offset=0,
    )


@pytest.mark.parametrize("store_host", [STORE_HOST, host_bytes("::1", 10911)])
@pytest.mark.parametrize("born_host", [BORN_HOST, host_bytes("2001:db8::7", 1)])
@pytest.mark.parametrize("topic", [b"t", b"t" * 127, b"t" * 128])
def test_a_pull_has_hosts_and_topics_of_each_size(
    store_host: bytes, born_host: bytes, topic: bytes
) -> None:
    pulls = PulledQueue(topic, 0, 0, store_host, ADDED)
    found = sent(2, FACTS._replace(born_host=born_host))
    for message in messages_of(pulls.pulled(found, 0, count_max=9, bytes_max=1 << 20)):
        assert (message.topic, message.born_host) == (topic, born_host)
        assert message.store_host == store_host


def test_compression_bits_are_not_stored_and_unknown_bits_are() -> None:
    facts = FACTS._replace(system_flag=0x1000 | 0x301 | 0x30 | 0x2)
    assert decode_facts(encode_facts(facts)) == facts._replace(system_flag=0x1002)


def test_properties_without_their_last_end_get_it_before_the_brokers() -> None:
    (message,) = messages_of(pulled(sent(1, FACTS._replace(properties=b"TAGS\x01A"))))
    assert message.properties == b"TAGS\x01A\x02" + ADDED


def test_properties_that_fill_their_place_are_delivered_without_the_brokers() -> None:
    longest = b"p\x01" + b"x" * (32767 - 3) + b"\x02"
    (message,) = messages_of(pulled(sent(1, FACTS._replace(properties=longest))))
    assert message.properties == longest


# Bounds of a pull


def test_a_pull_begins_at_its_offset_within_a_batch() -> None:
    batch = pulled(sent(5), begin=3)
    assert [message.queue_offset for message in messages_of(batch)] == [3, 4]


def test_a_pull_of_nothing_continues_where_it_began() -> None:
    assert pulled([], begin=7).next_offset == 7
    assert pulled(sent(5), begin=7).next_offset == 7


def test_a_pull_stops_at_its_number_of_messages() -> None:
    batch = pulled(sent(5), begin=1, count_max=2)
    assert (batch.message_count, batch.next_offset, batch.is_full) == (2, 3, True)


def test_a_pull_stops_before_the_message_that_passes_its_bytes() -> None:
    size = pulled(sent(1)).size
    for bytes_max in (2 * size, 3 * size - 1):
        batch = pulled(sent(5), bytes_max=bytes_max)
        assert (batch.message_count, batch.next_offset, batch.is_full) == (2, 2, True)
    assert pulled(sent(5), bytes_max=3 * size).message_count == 3


def test_the_first_message_of_a_pull_has_any_size() -> None:
    batch = pulled(sent(5), bytes_max=1)
    assert (batch.message_count, batch.next_offset, batch.is_full) == (1, 1, True)


def test_messages_that_are_not_wanted_are_passed_over() -> None:
    found = [
        record._replace(offset=n)
        for n, tag in enumerate(b"ABAB")
        for record in sent(1, FACTS._replace(properties=b"TAGS\x01%c\x02" % tag))
    ]
    batch = queue().pulled(
        found, 0, count_max=9, bytes_max=1 << 20, wanted=lambda p: b"TAGS\x01A" in p
    )
    assert [message.queue_offset for message in messages_of(batch)] == [0, 2]
    assert batch.next_offset == 4


def test_gaps_between_records_are_gaps_between_offsets() -> None:
    found = [record._replace(offset=record.offset * 10) for record in sent(3)]
    batch = pulled(found, begin=5)
    assert [message.queue_offset for message in messages_of(batch)] == [10, 20]
    assert batch.next_offset == 21


def test_an_offset_of_more_than_40_bits_is_not_delivered_wrongly() -> None:
    last = sent(1)[0]._replace(offset=(1 << 40) - 1)
    assert messages_of(pulled([last]))[0].physical_offset == (6 << 40) - 1
    with pytest.raises(ValueError, match="40 bits"):
        pulled([last._replace(offset=1 << 40)])


@pytest.mark.parametrize("size", [1, 31, 63, 64, 8000, 8191, 8192, 70_000, 1_100_000])
@pytest.mark.parametrize("key_size", [1, 63, 64, 9000])
def test_messages_of_each_size_are_spliced_out_of_their_batch(size: int, key_size: int) -> None:
    facts = FACTS._replace(properties=b"KEYS\x01%b\x02" % (b"k" * key_size))
    written = [SentMessage(b"b" * size, facts), SentMessage(b"c", facts)]
    batch = encode_batch_of(written, 1234567)
    cursor = RecordCursor(b"before" + batch + b"behind", 6)
    taken = queue().take(cursor, 0, count_max=9, bytes_max=1 << 22)
    expected = pulled(list(records(batch)), bytes_max=1 << 22)
    assert b"".join(taken.parts) == b"".join(expected.parts)
    assert (cursor.left, cursor.at, taken.next_offset) == (0, 6 + len(batch), 2)


def test_a_batch_of_more_records_than_short_numbers_is_spliced() -> None:
    batch = encode_batch_of([SentMessage(b"b", FACTS)] * 8200, 5)
    cursor = RecordCursor(batch, 0)
    taken = queue().take(cursor, 8190, count_max=99, bytes_max=1 << 20)
    assert [message.queue_offset for message in messages_of(taken)] == list(range(8190, 8200))


# Other producers' records


def test_a_record_of_kafka_has_its_key_and_headers_as_properties() -> None:
    found = foreign(
        b"value", b"key", [("colour", b"red"), ("none", None), ("größe", "3 µ".encode())]
    )
    (message,) = messages_of(pulled(found))
    assert message.body == b"value"
    assert (message.born_at_ms, message.stored_at_ms) == (99, 99)
    assert message.born_host == bytes(8)
    assert message.properties == (
        "KEYS\x01key\x02colour\x01red\x02none\x01\x02größe\x013 µ\x02".encode() + ADDED
    )


def test_a_record_without_a_value_has_an_empty_body() -> None:
    (message,) = messages_of(pulled(foreign(None)))
    assert (message.body, message.properties) == (b"", ADDED)


@pytest.mark.parametrize("value", [b"\x01", b"a\x02b", b"\x00", b"\xff\xfe", b"a\x7f"])
def test_a_header_that_is_no_text_is_no_property(value: bytes) -> None:
    headers = [("bad", value), ("good", b"line\n\ttab\r")]
    assert record_properties(value, headers, 1000) == b"good\x01line\n\ttab\r\x02"


@pytest.mark.parametrize("name", ["", "a\x01", "b\x02"])
def test_a_header_name_that_no_property_has_is_left_out(name: str) -> None:
    assert record_properties(None, [(name, b"x"), ("n", b"y")], 1000) == b"n\x01y\x02"


def test_properties_of_a_record_end_before_they_are_too_long() -> None:
    headers = [("a", b"x" * 10), ("b", b"y" * 10)]
    both = b"a\x01" + b"x" * 10 + b"\x02b\x01" + b"y" * 10 + b"\x02"
    assert record_properties(None, headers, len(both)) == both
    assert record_properties(None, headers, len(both) - 1) == both[:13]
    (message,) = messages_of(pulled(foreign(b"v", None, [("h", b"x" * 32764 + b"y")] * 2)))
    assert message.properties == ADDED


FORGED = encode_facts(FACTS)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"text",
        b"\x02" + FORGED[1:],
        FORGED[:28],
        FORGED[:29][:5] + struct.pack(">i", 0x10) + FORGED[9:30],
        FORGED[:29] + bytes(32768),
    ],
)
def test_a_forged_header_is_that_of_a_foreign_record(value: bytes | None) -> None:
    assert decode_facts(value) is None
    (message,) = messages_of(pulled(foreign(b"v", b"k", [(NAME, value), ("h", b"x")])))
    assert message.properties == b"KEYS\x01k\x02h\x01x\x02" + ADDED


def test_a_forged_header_cannot_call_a_body_compressed() -> None:
    forged = bytearray(FORGED)
    forged[5:9] = struct.pack(">i", 0x321 | 0x2)
    (message,) = messages_of(pulled(foreign(b"v", None, [(NAME, bytes(forged))])))
    assert message.system_flag == 0x2


def test_facts_are_found_behind_other_headers() -> None:
    headers = [("trace", b"x"), (NAME, FORGED)]
    (message,) = messages_of(pulled(foreign(b"v", None, headers)))
    assert message.properties == FACTS.properties + ADDED


def test_a_partition_number_of_more_than_23_bits_is_refused() -> None:
    assert queue((1 << 23) - 1)
    with pytest.raises(ValueError, match="no physical offset"):
        queue(1 << 23)


# Sends


@pytest.mark.parametrize(
    ("flag", "compressed"),
    [
        (0x1, zlib.compress(b"plain" * 99)),
        (0x301, zlib.compress(b"plain" * 99)),
        (0x101, lz4.frame.compress(b"plain" * 99)),
        (0x201, zstandard.compress(b"plain" * 99)),
    ],
)
def test_a_body_is_decompressed_as_its_flag_says(flag: int, compressed: bytes) -> None:
    assert plain_body(compressed, flag) == b"plain" * 99
    assert plain_body(memoryview(compressed), flag) == b"plain" * 99
    assert plain_body(compressed, flag & ~1) == compressed
    for broken in (compressed[:-5], b"no " + compressed):
        with pytest.raises(MessageIllegal, match="does not decompress"):
            plain_body(broken, flag)


@pytest.mark.parametrize(
    ("flag", "compress"),
    [(0x1, zlib.compress), (0x101, lz4.frame.compress), (0x201, zstandard.compress)],
)
def test_a_body_that_grows_beyond_4_mib_is_illegal(flag: int, compress: object) -> None:
    assert callable(compress)
    assert len(plain_body(compress(bytes(BODY_BYTES_MAX)), flag)) == BODY_BYTES_MAX
    with pytest.raises(MessageIllegal, match="more than"):
        plain_body(compress(bytes(BODY_BYTES_MAX + 1)), flag)


@pytest.mark.parametrize("flag", [0x401, 0x701])
def test_a_body_of_unknown_compression_is_illegal(flag: int) -> None:
    with pytest.raises(MessageIllegal, match="unknown compression"):
        plain_body(b"x", flag)


def test_a_send_has_a_body_and_sizes_within_bounds() -> None:
    check_sent(b"x" * BODY_BYTES_MAX, bytes(32767))
    with pytest.raises(MessageIllegal, match="empty"):
        check_sent(b"", b"")
    with pytest.raises(MessageIllegal, match="body has"):
        check_sent(bytes(BODY_BYTES_MAX + 1), b"")
    with pytest.raises(MessageIllegal, match="properties have"):
        check_sent(b"x", bytes(32768))


def test_malformed_is_not_what_an_illegal_message_is() -> None:
    assert not issubclass(MessageIllegal, Malformed), "the connection stays open"
