"""compression.type: batches are stored in the topic's codec, whatever they came in; and refused
times are named record by record."""

import time
from collections.abc import Iterator
from typing import cast

import pytest

from headrace.model.errors import ErrorCode
from headrace.record import batch
from headrace.record.batch import Codec, recompress
from headrace.record.batch_layout import HEADER_BYTES
from headrace.record.compression import CorruptBatch
from headrace.record.record import new_record
from headrace.testing import BrokerThread
from tests.broker.server.test_requests import Topics, fetch_of

NAMES = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
NOW = int(time.time() * 1000)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(memory=True) as one:
        for name in NAMES:
            one.create_topics(f"as-{name}", config={"compression.type": name})
        one.create_topics("levels", config={"compression.type": "gzip",
                                            "compression.gzip.level": "1"})  # fmt: skip
        yield one


@pytest.fixture
def link(broker: BrokerThread) -> Iterator[Topics]:
    one = Topics(broker)
    yield one
    one.socket.close()


def made(codec: Codec, count: int = 20, size: int = 50) -> bytes:
    records = [
        new_record(b"value %d " % at * size, b"k%d" % at, NOW + at, (("h", b"x"), ("n", None)))
        for at in range(count)
    ]
    return batch.build(records, compression=codec)


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("codec", list(Codec), ids=lambda one: one.name)
@pytest.mark.parametrize("acks", [1, -1])
def test_batches_are_stored_in_the_topics_codec(
    link: Topics, target: str, codec: Codec, acks: int
) -> None:
    topic = link.topic(f"as-{target}")
    answer = link.produce(topic, made(codec), acks)
    assert answer.error_code == 0
    found = link.fetch(fetch_of(topic, answer.base_offset, wait_ms=10_000)).topics[0].partitions[0]
    data = bytes(cast("memoryview", found.records))
    header = batch.parse_header(data)
    assert batch.codec_of(header) is NAMES[target]
    assert batch.crc_ok(data[: batch.size_of(header)], header)
    assert header.base_offset == answer.base_offset
    assert [
        (one.key, one.value, one.timestamp, tuple(one.headers)) for one in batch.records(data)
    ] == [
        (one.key, one.value, one.timestamp, tuple(one.headers))
        for one in batch.records(made(codec))
    ]


def test_batches_keep_their_order_whichever_way_they_go(link: Topics) -> None:
    """Those that need another codec wait for a thread; those behind them wait with them."""
    topic = link.topic("as-zstd")
    answers = [
        link.produce(topic, made(codec, count=1), acks=1).base_offset
        for codec in (Codec.NONE, Codec.ZSTD, Codec.LZ4, Codec.ZSTD, Codec.NONE)
    ]
    assert answers == list(range(answers[0], answers[0] + 5))


def test_the_level_is_the_topics(link: Topics) -> None:
    topic = link.topic("levels")
    data = made(Codec.NONE, count=200)
    answer = link.produce(topic, data)
    found = link.fetch(fetch_of(topic, answer.base_offset, wait_ms=10_000)).topics[0].partitions[0]
    stored = bytes(cast("memoryview", found.records))
    assert len(recompress(data, Codec.GZIP, 9)) < len(stored)
    assert len(recompress(data, Codec.GZIP, 1)) == len(stored)


@pytest.mark.parametrize("level", [1, 9, 12, 17])
def test_every_level_of_lz4_unfolds(level: int) -> None:
    packed = recompress(made(Codec.NONE), Codec.LZ4, level)
    assert [one.value for one in batch.records(packed)] == [
        one.value for one in batch.records(made(Codec.NONE))
    ]


def test_what_does_not_unfold_is_refused_and_nothing_is_written(link: Topics) -> None:
    topic = link.topic("as-lz4")
    end = link.produce(topic, made(Codec.NONE)).base_offset + 20
    broken = bytearray(made(Codec.ZSTD))
    broken[HEADER_BYTES + 4 :] = bytes(len(broken) - HEADER_BYTES - 4)
    sealed = _sealed(broken)
    with pytest.raises(CorruptBatch):
        recompress(sealed, Codec.LZ4)
    assert link.produce(topic, sealed).error_code == ErrorCode.INVALID_RECORD
    assert link.produce(topic, made(Codec.LZ4)).base_offset == end


def _sealed(view: bytearray) -> bytes:
    from headrace.record.crc32c import crc32c

    view[17:21] = crc32c(memoryview(view)[21:]).to_bytes(4, "big")
    return bytes(view)


@pytest.mark.parametrize("version", [7, 8, 11, 13])
def test_records_out_of_time_are_named(link: Topics, version: int) -> None:
    topic = link.topic("times", 12)
    late = NOW + 3 * 3_600_000
    records = [new_record(b"v", None, at) for at in (NOW, late, NOW, late + 1)]
    answer = link.produce(topic, batch.build(records), version=version)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    if version >= 8:
        assert [one.batch_index for one in answer.record_errors] == [1, 3]
        assert all(one.message and "out of range" in one.message for one in answer.record_errors)
        assert answer.error_message
    big = [new_record(b"v", None, late) for _ in range(1000)]
    answer = link.produce(topic, batch.build(big), version=version)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert not answer.record_errors
