"""Record batches: there and back, read by two other readers, and damaged in every way."""

import contextlib
from typing import Any

import pytest
from aiokafka.record import MemoryRecords as AioMemoryRecords
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords as PythonMemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder

from headrace.model.errors import ApiError
from headrace.record import batch
from headrace.record.batch import Codec, CorruptBatch, Record
from headrace.record.batch_layout import CRC_FROM
from headrace.record.compression import compress, decompress
from tests.support.examples import examples

CODECS = list(Codec)
common = settings(
    max_examples=examples(30), derandomize=True, suppress_health_check=list(HealthCheck)
)
blobs = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=20), blobs), max_size=3).map(tuple)
records = st.builds(Record, st.just(0), st.integers(0, 4 * 10**12), blobs, blobs, headers)
lists_of_records = st.lists(records, min_size=1, max_size=20)


def numbered(given_records: list[Record], base: int) -> list[Record]:
    return [
        record._replace(offset=base + number, headers=list(record.headers) or ())
        for number, record in enumerate(given_records)
    ]


@pytest.mark.parametrize("codec", CODECS)
@common
@given(given_records=lists_of_records, base=st.integers(0, 1 << 62))
def test_records_come_back_from_every_codec(
    codec: Codec, given_records: list[Record], base: int
) -> None:
    view = memoryview(bytearray(batch.build(given_records, compression=codec)))
    header = batch.check_produced(view)
    assert (header.record_count, batch.codec_of(header)) == (len(given_records), codec)
    assert header.max_timestamp == max(record.timestamp for record in given_records)
    batch.stamp(view, base, 5)
    header = batch.parse_header(view)
    assert (header.base_offset, header.leader_epoch) == (base, 5)
    assert batch.next_offset(header) == base + len(given_records)
    assert batch.crc_ok(view, header)
    assert list(batch.records(view)) == numbered(given_records, base)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@common
@given(
    pairs=st.lists(st.tuples(st.binary(max_size=300), blobs), min_size=1, max_size=20),
    more=st.sampled_from((0, 130, 300)),
    producer=st.sampled_from((-1, 7)),
)
def test_keys_and_values_of_one_time_are_the_batch_that_records_would_be(
    codec: Codec, pairs: list[tuple[bytes, bytes | None]], more: int, producer: int
) -> None:
    pairs = pairs + [(b"key", b"value")] * more
    time = 4 * 10**12
    quick = batch.build_pairs(
        pairs, time, compression=codec, producer_id=producer, producer_epoch=producer
    )
    assert quick == batch.build(
        [Record(0, time, key, value) for key, value in pairs],
        compression=codec,
        producer_id=producer,
        producer_epoch=producer,
        transactional=producer >= 0,
    )


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("reader", [AioMemoryRecords, PythonMemoryRecords])
@common
@given(given_records=lists_of_records)
def test_others_read_what_we_build(codec: Codec, reader: Any, given_records: list[Record]) -> None:
    data = batch.build(given_records, compression=codec, base_offset=40)
    theirs = reader(data).next_batch()
    assert theirs.validate_crc()
    read = [
        (each.offset, each.timestamp, each.key, each.value, list(each.headers)) for each in theirs
    ]
    assert read == [(*record[:4], list(record.headers)) for record in numbered(given_records, 40)]


@pytest.mark.parametrize("codec", CODECS)
@common
@given(given_records=lists_of_records)
def test_we_read_what_others_build(codec: Codec, given_records: list[Record]) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for number, record in enumerate(given_records):
        builder.append(number, record.timestamp, record.key, record.value, list(record.headers))
    view = memoryview(bytearray(builder.build()))
    batch.check_produced(view)
    assert list(batch.records(view)) == numbered(given_records, 0)


@common
@given(
    given_records=lists_of_records,
    gaps=st.lists(st.integers(1, 1000), min_size=20, max_size=20),
    codec=st.sampled_from(CODECS),
)
def test_offsets_with_gaps_stay_as_compaction_left_them(
    given_records: list[Record], gaps: list[int], codec: Codec
) -> None:
    offset, kept = 100, []
    for record, gap in zip(given_records, gaps, strict=False):
        kept.append(record._replace(offset=offset, headers=list(record.headers) or ()))
        offset += gap
    data = batch.build(kept, base_offset=90, keep_offsets=True, compression=codec)
    assert list(batch.records(data)) == kept
    assert batch.next_offset(batch.parse_header(data)) == kept[-1].offset + 1


@common
@given(given_records=lists_of_records, codec=st.sampled_from(CODECS), data=st.data())
def test_a_damaged_batch_is_an_api_error_and_nothing_else(
    given_records: list[Record], codec: Codec, data: st.DataObject
) -> None:
    whole = bytearray(batch.build(given_records, compression=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = memoryview(whole)[: data.draw(st.integers(0, len(whole)))]
    for view in (memoryview(whole), cut):
        with contextlib.suppress(ApiError):
            batch.check_produced(view)
        with contextlib.suppress(CorruptBatch):
            list(batch.records(view, limit=1 << 20))
        with contextlib.suppress(CorruptBatch):
            list(batch.iterate(view))


@common
@given(given_records=lists_of_records, data=st.data())
def test_any_changed_byte_under_the_checksum_is_found(
    given_records: list[Record], data: st.DataObject
) -> None:
    whole = bytearray(batch.build(given_records))
    at = data.draw(st.integers(CRC_FROM, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ApiError, match="checksum"):
        batch.check_produced(memoryview(whole))


@common
@given(noise=st.binary(max_size=200))
def test_noise_is_no_batch(noise: bytes) -> None:
    with contextlib.suppress(CorruptBatch):
        list(batch.records(noise))
    with pytest.raises(ApiError):
        batch.check_produced(memoryview(noise))


@pytest.mark.parametrize("codec", CODECS)
@common
@given(data=st.binary(max_size=100_000) | st.integers(0, 300_000).map(bytes))
def test_codecs_give_back_what_they_took(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    assert bytes(decompress(codec, packed, len(data))) == data
    if data and codec is not Codec.NONE:
        with pytest.raises(CorruptBatch):
            decompress(codec, packed, len(data) - 1)


@pytest.mark.parametrize("codec", CODECS[1:])
@common
@given(noise=st.binary(max_size=300), cut=st.integers(1, 40))
def test_codecs_meet_noise_and_torn_data_with_corrupt_batch(
    codec: Codec, noise: bytes, cut: int
) -> None:
    with contextlib.suppress(CorruptBatch):
        decompress(codec, noise, 1 << 20)
    packed = compress(codec, b"some text, some more text, " * 20)
    with pytest.raises(CorruptBatch):
        decompress(codec, packed[:-cut], 1 << 20)
