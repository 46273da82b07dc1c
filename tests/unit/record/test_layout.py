"""Where the fields of a batch lie, and each bound of what a record may announce."""

import struct
from collections.abc import Callable, Iterator
from itertools import chain

import pytest

from headrace.record import batch as wire
from headrace.record import batch_layout as layout
from headrace.record.compression import Codec, CorruptBatch
from headrace.record.keyless import keyless
from headrace.record.record import (
    ControlMarker,
    ControlType,
    Header,
    Record,
    control_record,
    parse_control,
    read_record_lists,
    read_varint_within,
    write_pairs,
    write_records,
    write_values,
    write_varint,
)

FIELDS = [
    ("BASE_OFFSET", "q"), ("BATCH_LENGTH", "i"), ("LEADER_EPOCH", "i"), ("MAGIC", "b"),
    ("CRC", "I"), ("ATTRIBUTES", "h"), ("LAST_OFFSET_DELTA", "i"), ("BASE_TIMESTAMP", "q"),
    ("MAX_TIMESTAMP", "q"), ("PRODUCER_ID", "q"), ("PRODUCER_EPOCH", "h"), ("BASE_SEQUENCE", "i"),
    ("RECORD_COUNT", "i"),
]  # fmt: skip
"""Of KIP-98, in order."""


def test_every_field_lies_where_kip_98_puts_it() -> None:
    at, places, numbers = 0, {}, {}
    for number, (name, code) in enumerate(FIELDS):
        places[f"{name}_AT"], numbers[name] = at, number
        assert wire.BatchHeader._fields[number] == name.lower()
        at += struct.calcsize(f">{code}")
    stated = vars(layout)
    assert {name: stated[name] for name in stated if name.endswith("_AT")}.items() <= places.items()
    both = (numbers.keys() & stated.keys()) - {"MAGIC"}
    assert {name: stated[name] for name in both} == {name: numbers[name] for name in both}
    assert (at, layout.HEADER.size, layout.OVERHEAD_BYTES, layout.LENGTH_MIN) == (61, 61, 12, 49)
    codes = ">" + "".join(code for _, code in FIELDS)
    assert (layout.HEADER.format, layout.FRAME.format) == (codes, codes[:8])
    assert (layout.TIMED_FRAME.format, layout.MAGIC, layout.CRC_FROM) == (codes[:11], 2, 21)
    assert (wire.CODEC_MASK, wire.LOG_APPEND_TIME, wire.TRANSACTIONAL) == (7, 8, 16)
    assert (wire.CONTROL, wire.DELETE_HORIZON) == (32, 64)


@pytest.mark.parametrize(
    ("data", "bytes_max", "found"),
    [
        (b"\x00", 5, (0, 1)),
        (b"\x01", 5, (-1, 1)),
        (b"\x7f", 5, (-64, 1)),
        (b"\x80\x01", 5, (64, 2)),
        (b"\xfe\xff\xff\xff\x0f", 5, ((1 << 31) - 1, 5)),
        (b"\xff\xff\xff\xff\x0f", 5, (-(1 << 31), 5)),
        (b"\xff\xff\xff\xff\x1f", 5, (0, -1)),
        (b"\x80\x80\x80\x80\x80\x00", 5, (0, -1)),
        (b"\x80\x80\x80\x80\x80\x00", 10, (0, 6)),
        (b"\xff" * 9 + b"\x01", 10, (-(1 << 63), 10)),
        (b"\xff" * 9 + b"\x03", 10, (0, -1)),
        (b"\x80" * 10 + b"\x00", 10, (0, -1)),
        (b"\x80", 5, (0, -1)),
        (b"", 5, (0, -1)),
    ],
)
def test_a_number_ends_within_its_bytes_and_its_type(
    data: bytes, bytes_max: int, found: tuple[int, int]
) -> None:
    assert read_varint_within(data, 0, len(data), bytes_max) == found
    shifted = (found[0], found[1] + 3 if found[1] >= 0 else -1)
    assert read_varint_within(b"\1\1\1" + data + b"\1", 3, 3 + len(data), bytes_max) == shifted


@pytest.mark.parametrize("number", [0, 1, 63, 64, 8191, 8192, (1 << 63) - 1])
def test_a_number_written_is_read_again_in_as_few_bytes_as_can_be(number: int) -> None:
    for one in (number, -number - 1):
        data = write_varint(one)
        assert read_varint_within(data, 0, len(data), 10) == (one, len(data))
        assert len(data) == max(-(-(number.bit_length() + 1) // 7), 1)


def read(data: bytes, count: int = 1) -> list[Record]:
    lists = read_record_lists(
        memoryview(data), Codec.NONE, count=count, base_offset=100, base_timestamp=1000,
        append_time=None, limit=1 << 24,
    )  # fmt: skip
    return list(chain.from_iterable(lists))


def record(*fields: bytes) -> bytes:
    body = b"".join(fields)
    return write_varint(len(body)) + body


def test_a_records_fields_are_read_in_their_order() -> None:
    long = write_varint(1 << 20)
    data = record(b"\0", long, b"\x04", b"\x02k", b"\x04vv", b"\x02", b"\x02h", b"\x04hv")
    empty = record(b"\0", b"\x01", b"\x06", b"\x01", b"\x01", b"\x00")
    assert read(data + empty, 2) == [
        Record(102, 1000 + (1 << 20), b"k", b"vv", [("h", b"hv")]),
        Record(103, 999, None, None, ()),
    ]
    assert len(empty) == 7
    assert list(keyless(data + empty, 2, lambda _: None)) == [1]
    assert read(b"", 0) == []


HEAD = b"\0\0\0"


@pytest.mark.parametrize(
    ("data", "count", "reason"),
    [
        (record(HEAD, b"\x01\x01\x00") + b"\0", 1, "1 bytes after the last record"),
        (record(HEAD, b"\x01\x01\x00"), 2, "2 records do not fit in 7 bytes"),
        (record(HEAD, b"\x01\x01\x00"), -1, "-1 records do not fit"),
        (b"\x0e" + HEAD + b"\x01\x01\x00", 1, "a record is longer than its batch"),
        (b"\x01" + HEAD + b"\x01\x01\x00", 1, "a record is longer than its batch"),
        (record(HEAD, b"\x01\x01\x00\x00"), 1, "not that of its fields"),
        (record(HEAD, b"\x01\x08ab\x00"), 1, "a field is longer than its record"),
        (record(HEAD, b"\x01\x01\x04\x01\x01"), 1, "2 headers do not fit in 2 bytes"),
        (record(HEAD, b"\x01\x01\x01\x00\x00"), 1, "-1 headers do not fit in 2 bytes"),
        (record(HEAD, b"\x01\x01\x02\x01\x01"), 1, "a header without a name"),
        (record(HEAD, b"\x01\x01\x02\x02\xff\x01"), 1, "a record does not parse"),
        (record(HEAD, b"\x80" * 10, b"\x00"), 1, "more than 10 bytes"),
    ],
)
def test_what_announces_more_than_there_is_is_refused(data: bytes, count: int, reason: str) -> None:
    with pytest.raises(CorruptBatch, match=reason):
        read(data, count)


@pytest.mark.parametrize(
    ("data", "count", "reason"),
    [
        (record(HEAD, b"\x01\x01\x00") + b"\0", 1, "1 bytes after the last record"),
        (record(HEAD, b"\x01\x01\x00"), 2, "the records end early"),
        (b"\x10" + HEAD + b"\x01\x01\x00", 1, "a record is longer than its batch"),
        (b"\x00" + HEAD + b"\x01\x01\x00", 1, "a record is longer than its batch"),
        (b"\x06" + HEAD + b"\x01\x01\x00", 1, "a record ends before its key"),
    ],
)
def test_a_look_at_the_keys_refuses_what_does_not_fit(data: bytes, count: int, reason: str) -> None:
    with pytest.raises(CorruptBatch, match=reason):
        list(keyless(data, count, lambda _: None))


def test_the_look_at_the_keys_passes_long_numbers_and_breathes_before_each_record() -> None:
    pairs = [(None, 1), (b"k", 1 << 40), (None, 1 << 20), (b"", -5)]
    records = [Record(0, time, key, b"v" * 200) for key, time in pairs]
    breaths: list[int] = []
    data = write_records(records, Codec.NONE, 0, None)
    assert list(keyless(data, 4, breaths.append)) == [0, 2]
    assert breaths == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 124, 125, 126, 127, 128, 255, 256, 257, 8192])
def test_pairs_are_written_as_records_are(size: int) -> None:
    key, value = b"k" * size, b"v" * size
    pairs: list[tuple[bytes, bytes | None]] = [(key, value), (key, None), (b"", value)] * 100
    records = [Record(0, 7, key, value) for key, value in pairs]
    written = write_records(records, Codec.NONE, 7, None)
    assert write_pairs(pairs, Codec.NONE) == written
    assert [(record.key, record.value) for record in read(written, len(pairs))] == pairs


@pytest.mark.parametrize("size", [0, 1, 62, 63, 64, 124, 125, 126, 255, 256, 8191, 8192])
@pytest.mark.parametrize("count", [1, 300, 8200])
def test_values_are_written_as_records_are(size: int, count: int) -> None:
    few = max(1, min(count, 1_000_000 // (size + 1)))
    for key, headers in ((None, ()), (b"k" * size, (("h", b"v"), ("i", None)))):
        values = [b"v" * size, b""] * (few // 2) + [b"last"]
        records = [Record(0, 7, key, value, headers) for value in values]
        written = write_values(values, key, headers, Codec.NONE)
        assert written == write_records(records, Codec.NONE, 7, None)


NUMBERS = [0, 1, -1, 63, -64, 64, -65, 8191, -8192, 8192, -8193, 1 << 20, 1 << 40]


def test_numbers_of_every_size_are_read_wherever_they_may_be() -> None:
    expected, data = [], b""
    for at, time in enumerate(NUMBERS):
        for size in (0, 1, 63, 64, 8191, 8192, 1 << 15):
            key, value = b"k" * size, b"v" * (size + at)
            delta = time if abs(time) < 1 << 31 else 7
            for fields in ((key, value), (None, value), (key, None)):
                expected.append(Record(100 + delta, 1000 + time, *fields))
                data += record(
                    b"\0", write_varint(time), write_varint(delta), *map(sized, fields), b"\0"
                )
    assert read(data, len(expected)) == expected


def sized(field: bytes | None) -> bytes:
    return b"\x01" if field is None else write_varint(len(field)) + field


def test_a_large_batch_is_read_some_thousands_at_a_time_up_to_what_is_damaged() -> None:
    records = [Record(100 + at, 1000, None, b"%d" % at) for at in range(10_000)]
    data = write_records(records, Codec.NONE, 1000, None)

    def lists(data: bytes) -> Iterator[list[Record]]:
        return read_record_lists(
            memoryview(data), Codec.NONE, count=10_000, base_offset=100, base_timestamp=1000,
            append_time=None, limit=1 << 20,
        )  # fmt: skip

    assert [len(found) for found in lists(data)] == [4096, 4096, 1808]
    assert list(chain.from_iterable(lists(data))) == records
    found: list[Record] = []
    with pytest.raises(CorruptBatch, match="headers do not fit"):
        found.extend(chain.from_iterable(lists(data.replace(b"9000\0", b"9000\xff"))))
    assert found == records[:9000]


@pytest.mark.parametrize("kind", list(ControlType))
def test_a_control_record_tells_its_type_and_ends_of_transactions_the_epoch(
    kind: ControlType,
) -> None:
    known = {
        "ABORT": 0, "COMMIT": 1, "LEADER_CHANGE": 2, "SNAPSHOT_HEADER": 3, "SNAPSHOT_FOOTER": 4,
        "KRAFT_VERSION": 5, "KRAFT_VOTERS": 6,
    }  # fmt: skip
    assert known[kind.name] == kind
    epoch = 9 if kind in (ControlType.ABORT, ControlType.COMMIT) else -1
    made = control_record(kind, 9, 1234)
    assert (made.offset, made.timestamp) == (0, 1234)
    assert parse_control(made) == ControlMarker(kind, epoch)


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one._replace(key=None),
        lambda one: one._replace(key=b"\0\0\0"),
        lambda one: one._replace(key=b"\0\0\0\x07"),
        lambda one: one._replace(value=None),
        lambda one: one._replace(value=b"\0\0\0\0\0"),
    ],
)
def test_what_is_no_control_record_is_refused(change: Callable[[Record], Record]) -> None:
    with pytest.raises(CorruptBatch, match="not a control record"):
        parse_control(change(control_record(ControlType.COMMIT, 9, 0)))


@pytest.mark.parametrize("second", [[("a", b"1")], [("a", b"2")], [("a", b"1"), ("b", None)], []])
def test_headers_are_those_of_each_record(second: list[Header]) -> None:
    first: list[Header] = [("a", b"1")]
    headers = [first, second, [], first, second]
    records = [Record(at, 0, None, b"v" * at, each) for at, each in enumerate(headers)]
    data = write_records(records, Codec.NONE, 0, 0)
    read = read_record_lists(
        memoryview(data), Codec.NONE, count=len(records), base_offset=0, base_timestamp=0,
        append_time=None, limit=1 << 20,
    )  # fmt: skip
    assert [list(each.headers) for each in chain.from_iterable(read)] == headers
