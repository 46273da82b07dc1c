"""What PartitionDecoder hands out, leaves out and refuses."""

import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.arrow.read.aborted_transactions import Aborted
from headrace.arrow.read.columns import COLUMNS, Buffers, schema
from headrace.arrow.read.decode import PartitionDecoder
from headrace.kernels.choose import DecodeRecords, records_decoder_named
from headrace.kernels.compile_cache import is_ours
from headrace.record.batch import Codec, ControlType, Record, build, build_marker, new_record, stamp
from headrace.record.compression import CorruptBatch

Row = dict[str, Any]


@pytest.fixture(params=["numba", "python"])
def decode(request: pytest.FixtureRequest) -> DecodeRecords:
    if request.param == "numba":
        pytest.importorskip("numba")
    return records_decoder_named(request.param)


def rows_of(decoder: PartitionDecoder, *fetches: bytes, aborted: Aborted = ()) -> list[Row]:
    batches = [batch for data in fetches for batch in decoder.feed(data, aborted)]
    return [row for batch in [*batches, *decoder.flush()] for row in batch.to_pylist()]


def values(base: int, *texts: str, **how: Any) -> bytes:
    return build([new_record(text.encode()) for text in texts], base_offset=base, **how)


def at(base: int, batch: bytes) -> bytes:
    placed = bytearray(batch)
    stamp(placed, base, 0)
    return bytes(placed)


def test_a_row_has_the_connectors_columns_and_arrow_types(decode: DecodeRecords) -> None:
    record = Record(0, 1_700_000_000_123, b"k", None, ())
    decoder = PartitionDecoder("t", 7, offset_from=0, decode=decode)
    assert list(decoder.feed(build([record], base_offset=5))) == []
    (batch,) = decoder.flush()
    batch.validate(full=True)
    assert batch.schema == schema(COLUMNS)
    assert batch.to_pylist() == [
        {
            "key": b"k", "value": None, "topic": "t", "partition": 7, "offset": 5,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC),
            "timestampType": 0,
        }
    ]  # fmt: skip


def test_required_columns_are_not_nullable_in_the_schema(decode: DecodeRecords) -> None:
    columns, required = ("value", "offset", "topic", "partition"), ("offset", "topic")
    decoder = PartitionDecoder(
        "t", 0, offset_from=0, columns=columns, required=required, decode=decode
    )
    (batch,) = [*decoder.feed(build([Record(0, 0, None, None)])), *decoder.flush()]
    assert [field.name for field in batch.schema if not field.nullable] == list(required)
    assert batch.schema == schema(columns, required=required)
    batch.validate(full=True)


def test_chosen_columns_come_in_the_order_asked(decode: DecodeRecords) -> None:
    decoder = PartitionDecoder("t", 0, offset_from=0, columns=("value", "offset"), decode=decode)
    assert rows_of(decoder, values(0, "a")) == [{"value": b"a", "offset": 0}]


def test_markers_and_aborted_transactions_are_left_out(decode: DecodeRecords) -> None:
    def transactional(base: int, producer: int, *texts: str) -> bytes:
        return values(
            base, *texts, producer_id=producer, producer_epoch=0, base_sequence=0,
            transactional=True,
        )  # fmt: skip

    def marker(base: int, producer: int, kind: ControlType) -> bytes:
        return at(base, build_marker(kind, 0, producer_id=producer, producer_epoch=0, timestamp=0))

    data = b"".join([
        transactional(0, 1, "aborted", "aborted"),
        transactional(2, 2, "committed"),
        marker(3, 1, ControlType.ABORT),
        transactional(4, 1, "the next transaction"),
        marker(5, 2, ControlType.COMMIT),
        marker(6, 1, ControlType.COMMIT),
        values(7, "plain"),
    ])  # fmt: skip
    committed = PartitionDecoder("t", 0, offset_from=0, decode=decode)
    rows = rows_of(committed, data, aborted=[(1, 0)])
    assert [row["value"] for row in rows] == [b"committed", b"the next transaction", b"plain"]
    uncommitted = PartitionDecoder("t", 0, offset_from=0, decode=decode)
    assert len(rows_of(uncommitted, data)) == 5
    assert committed.position == uncommitted.position == 8


def test_gaps_of_compaction_are_nothing_special(decode: DecodeRecords) -> None:
    kept = build(
        [Record(12, 0, None, b"a"), Record(17, 0, None, b"b")], base_offset=10, keep_offsets=True
    )
    decoder = PartitionDecoder("t", 0, offset_from=3, decode=decode)
    assert [row["offset"] for row in rows_of(decoder, kept)] == [12, 17]
    assert decoder.position == 18


def test_a_batch_that_compaction_emptied_moves_the_position_on(decode: DecodeRecords) -> None:
    emptied = bytearray(values(0, "x", "y")[:61])
    struct.pack_into(">i", emptied, 8, 49)
    struct.pack_into(">i", emptied, 57, 0)
    from crc32c import crc32c

    struct.pack_into(">I", emptied, 17, crc32c(bytes(emptied[21:])))
    decoder = PartitionDecoder("t", 0, offset_from=0, decode=decode)
    assert rows_of(decoder, bytes(emptied)) == []
    assert decoder.position == 2


def test_a_torn_last_batch_waits_for_the_next_fetch(decode: DecodeRecords) -> None:
    first, second = values(0, "a"), values(1, "b")
    decoder = PartitionDecoder("t", 0, offset_from=0, decode=decode)
    rows = rows_of(decoder, first + second[:-1])
    assert [row["value"] for row in rows] == [b"a"]
    assert decoder.position == 1


def test_batches_that_come_twice_give_their_rows_once(decode: DecodeRecords) -> None:
    decoder = PartitionDecoder("t", 0, offset_from=0, decode=decode)
    rows = rows_of(decoder, values(0, "a", "b"), values(0, "a", "b") + values(2, "c"))
    assert [row["offset"] for row in rows] == [0, 1, 2]


def test_a_range_ends_in_the_middle_of_a_batch(decode: DecodeRecords) -> None:
    decoder = PartitionDecoder("t", 0, offset_from=1, offset_until=3, decode=decode)
    rows = rows_of(decoder, values(0, "a", "b", "c", "d"))
    assert [row["value"] for row in rows] == [b"b", b"c"]
    assert decoder.done


@pytest.mark.parametrize("codec", list(Codec))
def test_a_record_larger_than_all_buffers_still_comes(decode: DecodeRecords, codec: Codec) -> None:
    huge = b"x" * 9_000_000
    batch = build(
        [new_record(b"a"), new_record(huge, key=huge, headers=[("h", huge)]), new_record(b"b")],
        compression=codec,
    )
    decoder = PartitionDecoder(
        "t", 0, offset_from=0, columns=("key", "value", "headers"), decode=decode
    )
    rows = rows_of(decoder, batch)
    assert [row["value"] for row in rows] == [b"a", huge, b"b"]
    assert rows[1]["key"] == huge
    assert rows[1]["headers"] == [{"key": "h", "value": huge}]


def test_a_record_with_more_headers_than_rows_have_room_still_comes(decode: DecodeRecords) -> None:
    many = [(f"h{n}", None) for n in range(500)]
    decoder = PartitionDecoder(
        "t", 0, offset_from=0, rows_max=3, columns=("headers",), decode=decode
    )
    (row,) = rows_of(decoder, build([new_record(b"", headers=many)]))
    assert [(header["key"], header["value"]) for header in row["headers"]] == many


def test_a_bomb_is_refused(decode: DecodeRecords) -> None:
    batch = build([new_record(b"0" * 1_000_000)], compression=Codec.ZSTD)
    decoder = PartitionDecoder("t", 0, offset_from=0, batch_bytes_max=100_000, decode=decode)
    with pytest.raises(CorruptBatch, match=r"t-0 at offset 0: .*100000"):
        rows_of(decoder, batch)


def test_a_wrong_checksum_is_refused_with_its_place(decode: DecodeRecords) -> None:
    torn = bytearray(values(40, "abc"))
    torn[-1] ^= 1
    decoder = PartitionDecoder("t", 0, offset_from=0, decode=decode)
    with pytest.raises(CorruptBatch, match="t-0 at offset 40: the checksum"):
        rows_of(decoder, bytes(torn))


def test_corrupt_batches_are_stepped_over_where_that_is_asked(decode: DecodeRecords) -> None:
    torn = bytearray(values(1, "lost"))
    torn[-1] ^= 1
    complaints: list[str] = []
    decoder = PartitionDecoder(
        "t", 0, offset_from=0, decode=decode, on_corrupt=lambda error: complaints.append(str(error))
    )
    rows = rows_of(decoder, values(0, "a") + bytes(torn) + values(2, "c"))
    assert [row["value"] for row in rows] == [b"a", b"c"]
    assert len(complaints) == 1


def test_header_keys_that_are_no_utf8_do_not_stop_the_stream(decode: DecodeRecords) -> None:
    batch = bytearray(build([new_record(b"v", headers=[("ab", b"1")])]))
    place = bytes(batch).rindex(b"ab")
    batch[place : place + 2] = b"a\xff"
    from crc32c import crc32c

    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    decoder = PartitionDecoder("t", 0, offset_from=0, columns=("headers",), decode=decode)
    (row,) = rows_of(decoder, bytes(batch))
    assert row["headers"] == [{"key": "a�", "value": b"1"}]


def test_record_batches_outlive_the_fetch_and_each_other(decode: DecodeRecords) -> None:
    decoder = PartitionDecoder("t", 0, offset_from=0, rows_max=2, decode=decode)
    fetch = bytearray(b"".join(values(base, "aa", "bb") for base in range(0, 40, 2)))
    kept = [*decoder.feed(fetch), *decoder.flush()]
    fetch[:] = bytes(len(fetch))
    for number, batch in enumerate(kept):
        batch.validate(full=True)
        assert batch.column("offset").to_pylist() == [2 * number, 2 * number + 1]
        assert batch.column("value").to_pylist() == [b"aa", b"bb"]


def test_room_is_made_only_for_columns_that_are_wanted() -> None:
    buffers = Buffers(2, 4, 4, 4, ("value",))
    buffers.make_room(100)
    assert len(buffers.values) == 100
    assert len(buffers.keys) == len(buffers.header_keys) == 0


def test_a_cache_directory_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    assert not is_ours(open_to_all)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert not is_ours(tmp_path / "link")
    assert is_ours(tmp_path / "mine")
