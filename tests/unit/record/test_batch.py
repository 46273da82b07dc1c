"""What a client may append, and what is refused with which code."""

import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import pytest
import zstandard
from crc32c import crc32c

from headrace.model.errors import ApiError, ErrorCode
from headrace.record import batch
from headrace.record.batch import Codec, ControlType, CorruptBatch, TimestampType, new_record
from headrace.record.batch_layout import HEADER
from headrace.record.compression import UnfoldsTooLarge, compress, decompress

MIB = 1024 * 1024


def sound(**kwargs: Any) -> bytearray:
    return bytearray(batch.build([new_record(b"v", b"k", 5), new_record(b"w", None, 7)], **kwargs))


def sealed(data: bytearray, **fields: int) -> bytearray:
    """`data` with header fields changed and a checksum that fits."""
    header = batch.parse_header(data)._replace(**fields)
    HEADER.pack_into(data, 0, *header)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return data


def code_of(data: bytes | bytearray, version: int = 13) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        batch.check_produced(memoryview(data), version)
    return caught.value.code


def test_a_sound_batch_passes() -> None:
    header = batch.check_produced(
        memoryview(sound(producer_id=7, producer_epoch=0, base_sequence=0))
    )
    assert (header.record_count, header.producer_id, header.max_timestamp) == (2, 7, 7)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: b"", ErrorCode.INVALID_RECORD),
        (lambda: bytes(60), ErrorCode.INVALID_RECORD),
        (lambda: sound()[:60], ErrorCode.CORRUPT_MESSAGE),
        (lambda: sound()[:-1], ErrorCode.CORRUPT_MESSAGE),
        (lambda: sound() + b"\x00", ErrorCode.INVALID_RECORD),
        (lambda: sound() + sound(), ErrorCode.INVALID_RECORD),
        (lambda: sealed(sound(), batch_length=20), ErrorCode.CORRUPT_MESSAGE),
        (lambda: sealed(sound(), batch_length=-1), ErrorCode.CORRUPT_MESSAGE),
        (lambda: sealed(sound(), magic=0), ErrorCode.INVALID_RECORD),
        (lambda: sealed(sound(), magic=1), ErrorCode.INVALID_RECORD),
        (lambda: sealed(sound(), magic=3), ErrorCode.CORRUPT_MESSAGE),
        (lambda: sealed(sound(), base_offset=1), ErrorCode.INVALID_RECORD),
        (lambda: sealed(sound(), record_count=1), ErrorCode.INVALID_RECORD),
        (lambda: sealed(sound(), last_offset_delta=2), ErrorCode.INVALID_RECORD),
        (lambda: sealed(sound(), record_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
        (lambda: sealed(sound(), record_count=-1, last_offset_delta=-2), ErrorCode.INVALID_RECORD),
        (lambda: sealed(sound(), attributes=batch.CONTROL), ErrorCode.INVALID_RECORD),
        (lambda: sealed(sound(), attributes=batch.TRANSACTIONAL), ErrorCode.INVALID_RECORD),
        (lambda: sealed(sound(), producer_id=4), ErrorCode.INVALID_RECORD),
        (lambda: sealed(sound(), attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_an_unsound_batch_is_refused_as_kafka_does(
    make: Callable[[], bytes | bytearray], code: ErrorCode
) -> None:
    assert code_of(make()) == code


def test_zstd_needs_produce_v7() -> None:
    data = sound(compression=Codec.ZSTD)
    assert code_of(data, 6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    batch.check_produced(memoryview(data), 7)


def test_stamping_leaves_the_checksum_valid_and_the_rest_alone() -> None:
    data = sound()
    before = bytes(data)
    batch.stamp(data, 1 << 40, 9)
    assert batch.crc_ok(data, batch.parse_header(data))
    assert data[16:] == before[16:]
    assert data[8:12] == before[8:12]


def test_append_time_becomes_the_time_of_all_records() -> None:
    data = sound()
    header = batch.stamp_append_time(data, 99)
    assert header.attributes & batch.LOG_APPEND_TIME
    assert batch.crc_ok(data, header)
    assert [record.timestamp for record in batch.records(data)] == [99, 99]


def test_iterate_leaves_out_a_torn_last_batch() -> None:
    one, two = sound(), sound()
    found = list(batch.iterate(bytes(one + two)[:-1]))
    assert [(at, batch.size_of(header)) for at, header in found] == [(0, len(one))]
    assert len(list(batch.iterate(bytes(one + two)))) == 2


def test_iterate_refuses_a_length_no_batch_has() -> None:
    with pytest.raises(CorruptBatch, match="no batch at"):
        list(batch.iterate(bytes(sound() + sealed(sound(), batch_length=3))))


def test_markers_say_what_they_were_built_to_say() -> None:
    for kind in (ControlType.ABORT, ControlType.COMMIT):
        data = batch.build_marker(kind, 12, producer_id=5, producer_epoch=1, timestamp=77)
        header = batch.parse_header(data)
        assert header.attributes & batch.CONTROL
        assert header.attributes & batch.TRANSACTIONAL
        (record,) = batch.records(data)
        assert batch.parse_control(record) == (kind, 12)
    with pytest.raises(CorruptBatch):
        batch.parse_control(new_record(b"v"))


def test_build_says_which_kind_of_timestamp() -> None:
    data = batch.build([new_record(b"v")], timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert batch.parse_header(data).attributes == batch.LOG_APPEND_TIME


def test_a_batch_without_records_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="needs a record"):
        batch.build([])


def test_a_record_count_that_the_bytes_cannot_hold_is_refused_at_once() -> None:
    data = sealed(sound(), record_count=1 << 30)
    with pytest.raises(CorruptBatch, match="records do not fit"):
        list(batch.records(data))


def bomb(codec: Codec) -> bytes:
    return compress(codec, bytes(64 * MIB))


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_a_bomb_ends_at_the_limit(codec: Codec) -> None:
    packed = bomb(codec)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="decompresses to more than"):
            decompress(codec, packed, MIB)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_snappy_is_read_raw_and_framed() -> None:
    text = b"to and fro, " * 9000
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(text))) == text
    framed = compress(Codec.SNAPPY, text)
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(Codec.SNAPPY, framed) == text


def test_snappy_that_announces_more_than_it_can_hold_is_refused() -> None:
    with pytest.raises(CorruptBatch):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\x1f" + b"\x00" * 10)


def test_snappy_that_announces_more_than_its_bytes_can_make_is_not_even_begun() -> None:
    with pytest.raises(UnfoldsTooLarge):
        decompress(Codec.SNAPPY, b"\x80\x80\x40" + b"\x00" * 10)  # 1 MiB


def test_lz4_blocks_stand_alone_as_java_demands() -> None:
    flags = compress(Codec.LZ4, b"some text" * 20000)[4]
    assert flags & 0x20  # block independence
    assert not flags & 0x04  # no content checksum


def test_gzip_and_zstd_of_several_members_are_read_whole() -> None:
    two = compress(Codec.GZIP, b"one ") + compress(Codec.GZIP, b"two")
    assert decompress(Codec.GZIP, two) == b"one two"
    assert zlib.decompressobj(31).decompress(compress(Codec.GZIP, b"one ")) == b"one "
    two = zstandard.compress(b"one ") + zstandard.compress(b"two")
    assert decompress(Codec.ZSTD, two) == b"one two"


def test_zstd_without_a_content_size_is_read() -> None:
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    packed = stream.compress(b"x" * 100_000) + stream.flush()
    assert decompress(Codec.ZSTD, packed) == b"x" * 100_000
