"""Edges of what is decoded: limits of segments, damage in the middle, buffers just full."""

import struct
import time
from typing import Any

import lz4.frame
import pyarrow as pa
import pytest
from crc32c import crc32c

from headrace.arrow.read import decompress
from headrace.arrow.read.columns import Buffers, Pool
from headrace.arrow.read.decode import PartitionDecoder
from headrace.arrow.read.decompress import Decompressor
from headrace.arrow.write.encode import RowEncoder
from headrace.kernels.choose import DecodeRecords, records_decoder_named
from headrace.record.batch import build, new_record, stamp
from headrace.record.compression import Codec, CorruptBatch

CRC_AT, CRC_FROM, LENGTH_AT, COUNT_AT, HEADER_BYTES = 17, 21, 8, 57, 61
HEADER_KEYS = [b"\x80", b"a\x80b", b"\x7f"]


@pytest.fixture(params=["numba", "python"])
def decode(request: pytest.FixtureRequest) -> DecodeRecords:
    if request.param == "numba":
        pytest.importorskip("numba")
    return records_decoder_named(request.param)


def batch(base: int, *values: bytes | None) -> bytes:
    return placed(base, build([new_record(value) for value in values]))


def placed(base: int, built: bytes) -> bytes:
    data = bytearray(built)
    stamp(data, base, 0)
    return bytes(data)


def sealed(data: bytearray) -> bytes:
    """The batch with a checksum that is right."""
    struct.pack_into(">I", data, CRC_AT, crc32c(bytes(data[CRC_FROM:])))
    return bytes(data)


def decoder(decode: DecodeRecords, **how: Any) -> PartitionDecoder:
    usual: dict[str, Any] = {"offset_from": 0, "columns": ("offset", "value"), "decode": decode}
    return PartitionDecoder("t", 0, **usual | how)


def rows(one: PartitionDecoder, data: bytes) -> list[dict[str, Any]]:
    return [row for part in [*one.feed(data), *one.flush()] for row in part.to_pylist()]


def values(found: list[dict[str, Any]]) -> list[bytes | None]:
    return [row["value"] for row in found]


# --- what comes from a segment --------------------------------------------------------------------


def test_a_segments_batches_reach_no_offset_of_the_next_segment(decode: DecodeRecords) -> None:
    one = decoder(decode)
    one.limits = (0, 3)
    assert values(rows(one, batch(0, b"a", b"b", b"c"))) == [b"a", b"b", b"c"]
    one = decoder(decode)
    one.limits = (0, 3)
    with pytest.raises(CorruptBatch, match=r"offset 0 \(\+3\) outside 0 to 3"):
        rows(one, batch(0, b"a", b"b", b"c", b"d"))


@pytest.mark.parametrize("at_once", [True, False])
def test_a_segment_has_no_offset_twice(decode: DecodeRecords, at_once: bool) -> None:
    one = decoder(decode)
    one.limits = (0, 100)
    first, second = batch(0, b"a", b"b"), batch(1, b"b")
    if not at_once:
        assert values(rows(one, first)) == [b"a", b"b"]
    with pytest.raises(CorruptBatch, match=r"offset 1 \(\+0\) outside 2 to 100"):
        rows(one, first + second if at_once else second)


def test_what_lies_behind_a_range_may_be_half_written(decode: DecodeRecords) -> None:
    torn = bytearray(batch(5, b"x"))
    torn[-1] ^= 1
    for begin in (batch(0, b"a", b"b"), batch(0, b"a", b"b", b"c", b"d", b"e")):
        one = decoder(decode, offset_until=5)
        assert values(rows(one, begin + bytes(torn)))[:2] == [b"a", b"b"]
        assert (one.done, one.consumed) == (True, len(begin))
    one = decoder(decode, offset_until=2)
    assert values(rows(one, batch(0, b"a", b"b") + b"\xff" * 200)) == [b"a", b"b"]


# --- damage ---------------------------------------------------------------------------------------


def half_bad(base: int) -> bytes:
    """A batch whose first record is all nulls, and whose second one says that it is longer."""
    nothing = new_record(None, headers=[("h", None), ("i", None)])
    data = bytearray(build([nothing, new_record(b"tail", key=b"k")]))
    place = bytes(data).rindex(b"tail") - 1
    data[place] = 0x7E  # a value of 63 bytes
    return placed(base, sealed(data))


def full(base: int, *values: bytes | None) -> bytes:
    """A batch of records that have something everywhere, but where a value is None."""
    return placed(
        base, build([new_record(value, key=value, headers=[("h", value)]) for value in values])
    )


ALL = ("offset", "key", "value", "headers")


@pytest.mark.parametrize("before", [(), (b"a", b"b")])
def test_a_batch_that_is_damaged_amid_its_records_leaves_none_and_spoils_no_others(
    decode: DecodeRecords, before: tuple[bytes, ...]
) -> None:
    told: list[CorruptBatch] = []
    one = decoder(decode, on_corrupt=told.append, columns=ALL)
    data = full(0, *before) if before else b""
    data += half_bad(2) + full(4, b"c", None) + half_bad(6) + full(8, b"f", None)
    found = [*one.feed(data), *one.flush()]
    wanted: list[tuple[int, bytes | None]] = [(0, b"a"), (1, b"b")] if before else []
    wanted += [(4, b"c"), (5, None), (8, b"f"), (9, None)]
    rows_found = [row for part in found for row in part.to_pylist()]
    assert rows_found == [
        {"offset": at, "key": it, "value": it, "headers": [{"key": "h", "value": it}]}
        for at, it in wanted
    ]
    for part in found:
        part.validate(full=True)
        nulls = part.column("value").to_pylist().count(None)
        assert (part.column("key").null_count, part.column("value").null_count) == (nulls, nulls)
        assert part.column("headers").flatten().flatten()[1].null_count == nulls
    assert len(told) == 2
    assert (one.position, one.consumed) == (10, len(data))


def test_damage_behind_rows_that_were_handed_out_brings_none_of_them_again(
    decode: DecodeRecords,
) -> None:
    data = bytearray(build([new_record(value) for value in (b"b", b"c", b"d", b"tail")]))
    data[bytes(data).rindex(b"tail") - 1] = 0x7E
    told: list[CorruptBatch] = []
    one = decoder(decode, on_corrupt=told.append, rows_max=2)
    found = rows(one, batch(0, b"a") + placed(1, sealed(data)) + batch(5, b"f"))
    assert [tuple(row.values()) for row in found] == [(0, b"a"), (1, b"b"), (5, b"f")]
    assert len(told) == 1


def test_a_damaged_batch_that_is_the_last_is_behind_whoever_stepped_over_it(
    decode: DecodeRecords,
) -> None:
    one = decoder(decode, offset_until=4, on_corrupt=lambda error: None)
    data = batch(0, b"a") + half_bad(2)
    assert values(rows(one, data)) == [b"a"]
    assert (one.done, one.consumed) == (True, len(data))


def test_a_batch_of_no_records_has_no_bytes_behind_its_header(decode: DecodeRecords) -> None:
    data = bytearray(build([new_record(b"x")]))
    struct.pack_into(">i", data, COUNT_AT, 0)
    with pytest.raises(CorruptBatch, match="0 records in"):
        rows(decoder(decode), sealed(data))


# --- room -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("header_bytes", [16, 17, 18, 19])
def test_room_for_one_record_is_room_for_all_the_headers_it_may_have(header_bytes: int) -> None:
    buffers = Buffers(2, 0, 0, 8, ("headers",))
    buffers.make_room(header_bytes)
    assert len(buffers.header_key_ends) >= header_bytes // 2 + 1
    assert len(buffers.header_value_ends) == len(buffers.header_key_ends)


def test_of_many_sets_that_are_out_at_once_only_a_few_come_again() -> None:
    pool = Pool(2, 8, 8, 8, columns=("value",))

    def take_eight() -> list[tuple[Buffers, object]]:
        taken: list[tuple[Buffers, object]] = []
        for _ in range(8):
            one = pool.take()
            taken.append((one, one.exports))
        return taken

    first = [one for one, _ in take_eight()]
    assert len({*map(id, first)}) == 8, "none comes again while it is in use"
    again = [one for one, _ in take_eight()]
    assert len({*map(id, first)} & {*map(id, again)}) == 4


@pytest.mark.parametrize("key", HEADER_KEYS)
def test_the_first_byte_that_is_no_ascii_makes_a_header_key_be_looked_at(
    decode: DecodeRecords, key: bytes
) -> None:
    data = bytearray(build([new_record(b"v", headers=[("k" * len(key), b"1")])]))
    place = bytes(data).rindex(b"k" * len(key))
    data[place : place + len(key)] = key
    (row,) = rows(decoder(decode, columns=("headers",)), sealed(data))
    assert row["headers"] == [{"key": key.decode(errors="replace"), "value": b"1"}]


# --- unpacking ------------------------------------------------------------------------------------

PLAIN = bytes(range(256)) * 4
PACKED = lz4.frame.compress(PLAIN, store_size=False)


def test_the_rest_of_a_frame_that_was_cut_off_is_no_frame() -> None:
    one = Decompressor()
    for part in (PACKED[: len(PACKED) // 2], PACKED[len(PACKED) // 2 :]):
        with pytest.raises(CorruptBatch):
            one.decompress(Codec.LZ4, memoryview(part))


def test_after_a_bad_frame_the_next_is_unpacked_the_quick_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Decompressor()
    for bad in (b"nothing of the kind", PACKED[:-4] + b"\xff" * 4, PACKED[:20] + b"\xff" * 50):
        with pytest.raises(CorruptBatch):
            one.decompress(Codec.LZ4, memoryview(bad))
        with monkeypatch.context() as patch:
            patch.setattr(decompress, "decompress_once", None)
            assert one.decompress(Codec.LZ4, memoryview(PACKED)) == PLAIN


# --- times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", [False, True])
def test_a_row_without_a_time_is_of_now(column: bool) -> None:
    columns: dict[str, Any] = {"value": pa.array([b"a", b"b"], pa.binary())}
    if column:
        columns["timestamp"] = pa.array([None, 5_000], pa.timestamp("us", "UTC"))
    encoder = RowEncoder(lambda topic: 1, batch_bytes=1000)
    before = int(time.time() * 1000)
    ((_, encoded),) = encoder.encode(pa.table(columns), "t")
    assert before <= encoded.max_ms <= int(time.time() * 1000)
