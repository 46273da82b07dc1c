"""Where ranges of a partition's files begin and end, what is open there, and what is left out."""

from pathlib import Path

import lz4.frame
import pytest
import zstandard

from headrace.arrow.read.aborted_transactions import AbortedTransactions
from headrace.arrow.read.decompress import Decompressor
from headrace.arrow.read.partition_files import PartitionFiles
from headrace.kernels import choose
from headrace.log.compaction.records import INDEX_ENTRY_BYTES, PLAIN_ENTRY_BYTES, PlainRecords
from headrace.model.errors import ApiError, CorruptLogError
from headrace.model.nouns import TopicPartition
from headrace.record import batch as wire
from headrace.record.batch import ControlType, parse_header
from headrace.record.compression import Codec, CorruptBatch, compress
from tests.support.client.open_topic import SMALL, flush, pour
from tests.support.log.compaction import job_of
from tests.support.log.log import NOW_MS, PLACE, World, append, append_marker

SECOND = 1000


@pytest.fixture
def files(tmp_path: Path) -> PartitionFiles:
    """60 records, one each second, in several segments of one partition."""
    world = World(config=SMALL)
    log = world.log()
    for number in range(60):
        append(log, b"%05d" % number * 20, timestamp=NOW_MS + number * SECOND)
    flush(world, log)
    world.directory.close()
    return PartitionFiles(str(pour(world.disk, "/data", tmp_path / "log")), PLACE)


def test_segments_of_a_range_are_those_with_an_offset_in_it(files: PartitionFiles) -> None:
    bases = files.bases
    assert (bases[0], len(bases) > 5) == (0, True)
    for at, base in enumerate(bases):
        for start, first in ((base, at), (base - 1, max(at - 1, 0)), (base + 1, at)):
            found = [one.base_offset for one in files.segments_from(start, 1 << 62)]
            assert found == bases[first:]
        upto = [one.base_offset for one in files.segments_from(0, base)]
        assert upto == bases[:at]
        beyond = [one.base_offset for one in files.segments_from(0, base + 1)]
        assert beyond == bases[: at + 1]
    assert files.end_offset() == 60


def test_a_batchs_place_is_found_by_every_offset_and_the_end_by_those_behind(
    files: PartitionFiles,
) -> None:
    for base, limit in zip(files.bases, [*files.bases[1:], 60], strict=True):
        segment = files.segment_at(base)
        assert segment is not None
        size = segment.file.size()
        each = size // (limit - base)
        places = [segment.position_of(offset) for offset in range(base - 1, limit + 2)]
        assert places == [0, *range(0, size, each), size, size]
        assert segment.end_offset() == limit
        assert files.limit_of(segment, 1234) == (limit if limit < 60 else 1234)
        segment.close()


def test_the_first_record_from_a_time_on_is_within_the_range_or_its_end(
    files: PartitionFiles,
) -> None:
    for number in (0, 1, 30, 58, 59):
        for ms, offset in ((0, number), (1, number + 1), (-1, number)):
            assert files.first_from_time(NOW_MS + number * SECOND + ms, 0, 60) == offset
    at = NOW_MS + 30 * SECOND
    assert files.first_from_time(at, 30, 31) == 30
    assert files.first_from_time(at, 31, 40) == 31
    assert files.first_from_time(at, 0, 30) == 30, "none: the end"
    assert files.first_from_time(at, 0, 20) == 20
    assert files.first_from_time(0, 7, 60) == 7


def with_transactions(tmp_path: Path) -> Path:
    """Pour a log of several segments: 6 opens a transaction, 11 another; 14 ends the first."""
    world = World(config=SMALL)
    log = world.log()
    for number in range(12):
        append(log, b"x" * 80)
        if number == 5:
            append(log, b"o", producer=(7, 0, 0), transactional=True)
        if number == 9:
            append(log, b"p", producer=(8, 0, 0), transactional=True)
    append_marker(log, 7, commit=True)
    append(log, b"x")
    flush(world, log)
    return pour(world.disk, "/data", tmp_path / "log")


STABLE = [1, 2, 3, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 11, 11]


def test_an_open_transaction_bounds_what_is_stable_wherever_the_snapshots_lie(
    tmp_path: Path,
) -> None:
    files = PartitionFiles(str(with_transactions(tmp_path)), PLACE)
    assert [files.stable_offset(end) for end in range(1, 17)] == STABLE


@pytest.mark.parametrize("damaged", ["newest", "all"])
def test_stable_offset_is_found_without_a_damaged_snapshot(tmp_path: Path, damaged: str) -> None:
    directory = with_transactions(tmp_path)
    snapshots = sorted((directory / str(PLACE)).glob("*.snapshot"))
    assert len(snapshots) > 1
    for snapshot in snapshots[-1:] if damaged == "newest" else snapshots:
        content = bytearray(snapshot.read_bytes())
        content[-1] ^= 0xFF
        snapshot.write_bytes(content)
    files = PartitionFiles(str(directory), PLACE)
    assert [files.stable_offset(end) for end in range(1, 17)] == STABLE


def test_what_is_gone_is_said_with_its_directory(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="missing-3 does not exist"):
        PartitionFiles(str(tmp_path), TopicPartition("missing", 3))
    (tmp_path / "empty-0").mkdir()
    files = PartitionFiles(str(tmp_path), TopicPartition("empty", 0))
    assert (files.bases, files.segment_at(0), files.end_offset()) == ([], None, 0)
    files.bases = [0]
    for name in ("0" * 20 + ".log",):
        (tmp_path / "empty-0" / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(CorruptLogError, match="cannot be opened"):
        files.segment_at(0)


# --- aborted transactions ---------------------------------------------------------------------


def batch(offset: int, producer: int, count: int = 1, *, plain: bool = False) -> memoryview:
    made = bytearray(
        wire.build(
            [wire.new_record(b"x")] * count,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=not plain,
        )
    )
    made[:8] = offset.to_bytes(8, "big")
    return memoryview(made)


def marker(offset: int, producer: int, kind: ControlType) -> memoryview:
    made = bytearray(
        wire.build_marker(kind, 0, producer_id=producer, producer_epoch=0, timestamp=NOW_MS)
    )
    made[:8] = offset.to_bytes(8, "big")
    return memoryview(made)


def test_a_transaction_is_left_out_from_its_first_offset_to_its_abort_and_no_further() -> None:
    told = AbortedTransactions([(7, 12), (7, 30), (8, 11)])
    fed = [
        (batch(5, 7, count=7), False),  # ends at 11: the next offset is the first one out
        (batch(12, 7), True),
        (batch(13, 8), True),
        (batch(14, 9), False),
        (batch(15, 7, plain=True), False),
        (marker(16, 8, ControlType.COMMIT), True),
        (batch(17, 8), True),  # what a commit marker says is of another transaction
        (marker(18, 9, ControlType.ABORT), True),
        (batch(19, 7), True),
        (marker(20, 7, ControlType.ABORT), True),
        (batch(21, 7), False),
        (batch(22, 8), True),
        (batch(28, 7, count=3), True),  # reaches 30
    ]
    for view, out in fed:
        assert told.leave_out(parse_header(view), view) is out, parse_header(view).base_offset


def test_reader_that_begins_amid_several_aborted_transactions_sees_none_of_them() -> None:
    told = AbortedTransactions([(7, 12), (8, 13), (9, 14)])
    assert told.leave_out(parse_header(batch(15, 9)), batch(15, 9))
    assert told.leave_out(parse_header(batch(16, 8)), batch(16, 8))


# --- unpacking ------------------------------------------------------------------------------------

PACKED = {
    Codec.LZ4: lz4.frame.compress(b"content" * 20, store_size=False),
    Codec.ZSTD: zstandard.ZstdCompressor().compress(b"content" * 20),
    Codec.GZIP: compress(Codec.GZIP, b"content" * 20),
}


@pytest.mark.parametrize("codec", list(PACKED))
def test_bytes_behind_what_was_packed_are_refused_and_the_next_is_unpacked(codec: Codec) -> None:
    data = bytes(PACKED[codec])
    one = Decompressor()
    assert one.decompress(codec, memoryview(data)) == b"content" * 20
    for bad in (data + b"\0", data[:-1], b""):
        with pytest.raises(CorruptBatch):
            one.decompress(codec, memoryview(bad))
    assert one.decompress(codec, memoryview(data)) == b"content" * 20


@pytest.mark.parametrize("codec", list(PACKED))
def test_the_limit_is_the_last_size_that_is_unpacked(codec: Codec) -> None:
    data = memoryview(bytes(PACKED[codec]))
    assert Decompressor(140).decompress(codec, data) == b"content" * 20
    with pytest.raises(CorruptBatch):
        Decompressor(139).decompress(codec, data)


# --- who reads records for a compaction -----------------------------------------------------------


class Asked:
    """In place of the compiled records: with how much they were made."""

    def __init__(self, keys_max: int, slots_max: int) -> None:
        self.sizes = (keys_max, slots_max)


def test_the_map_of_a_compaction_has_room_for_twice_the_offsets_and_no_more_than_its_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headrace.kernels import compact_records

    world = World(config=SMALL)
    log = world.log()
    append(log, b"x")
    monkeypatch.setattr(compact_records, "KernelRecords", Asked)
    monkeypatch.setattr(choose, "numba_unwanted", lambda: False)
    entries = 100
    keys = int(entries * 0.5)
    for first_dirty, upper, slots in ((10, 30, 40), (10, 60, 100), (10, 59, 98), (10, 10, 2)):
        job = job_of(
            log,
            first_dirty=first_dirty,
            upper=upper,
            map_bytes=entries * INDEX_ENTRY_BYTES,
            load_factor=0.5,
        )
        made = choose.compaction_records(job)
        assert isinstance(made, Asked)
        assert made.sizes == (keys, slots)
    monkeypatch.setattr(choose, "numba_unwanted", lambda: True)
    plain = choose.compaction_records(job_of(log, map_bytes=3 * PLAIN_ENTRY_BYTES, load_factor=1.0))
    assert isinstance(plain, PlainRecords)
