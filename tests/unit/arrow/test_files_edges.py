"""Files of a partition that change, mislead or are asked for in odd ways; what readers leave."""

import os
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace.arrow
from headrace.arrow.read import open_topic, partition_files
from headrace.arrow.read.parallel import side_by_side
from headrace.arrow.read.partition_files import PartitionFiles
from headrace.config.log_config import LogConfig
from headrace.log import file_names
from headrace.log.directory.state_files.durable_read_bounds import clean_still
from headrace.model.nouns import Offset, TopicPartition
from tests.support.client.open_topic import fill, flush, lead, pour, poured, values
from tests.support.log.log import PLACE, World, append


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_segments_that_were_gone_through_are_closed(world: World, tmp_path: Path) -> None:
    fill(world)
    files = PartitionFiles(str(poured(world, tmp_path)), PLACE)
    before = descriptors()
    seen = list(files.segments_from(0, 60))
    assert (len(seen) > 5, descriptors()) == (True, before)
    walked = files.segments_from(0, 60)
    next(walked)
    walked.close()  # type: ignore[attr-defined] # as who finds what he looks for
    assert descriptors() == before


def test_an_index_that_points_too_far_on_is_not_followed(tmp_path: Path) -> None:
    world = World(config=LogConfig(segment_bytes=100_000, index_interval_bytes=200))
    fill(world, 20)
    directory = poured(world, tmp_path)
    (log,) = (directory / "t-0").glob("*.log")
    each = log.stat().st_size // 20
    log.with_suffix(".index").write_bytes(struct.pack(">ii", 3, 15 * each))
    segment = PartitionFiles(str(directory), PLACE).segment_at(0)
    assert segment is not None
    assert [segment.position_of(offset) for offset in (4, 10, 16)] == [
        4 * each, 10 * each, 16 * each,
    ]  # fmt: skip
    segment.close()


def test_a_listing_that_a_rename_ran_beside_is_taken_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world)
    files = PartitionFiles(str(poured(world, tmp_path)), PLACE)
    whole = os.listdir(files.directory)
    listings = [sorted(whole)[4:], whole, whole, whole]

    class Listed:
        exists = partition_files._DISK.exists
        open = partition_files._DISK.open

        def list(self, path: str) -> list[str]:
            return listings.pop(0) if len(listings) > 1 else listings[0]

    bases = list(files.bases)
    monkeypatch.setattr(partition_files, "_DISK", Listed())
    files.list_again()
    assert files.bases == bases


def test_a_broker_that_started_while_the_end_was_looked_for_makes_it_be_looked_for_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = fill(world, 20)
    world.directory.close()
    directory = poured(world, tmp_path)

    def started(disk: Any, path: str) -> bool:
        """Be started, write, and be stopped again, before it is told."""
        monkeypatch.setattr(open_topic, "clean_still", clean_still)
        world.start()
        log = lead(world.log())
        for number in range(20):
            append(log, b"later %d" % number * 20)
            wanted.append(b"later %d" % number * 20)
        flush(world, log)
        world.directory.close()
        pour(world.disk, "/data", directory)
        return False

    monkeypatch.setattr(open_topic, "clean_still", started)
    assert values(headrace.arrow.open(directory, "t")) == wanted


def test_where_a_broker_runs_by_now_its_own_word_counts(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = fill(world, 5)
    world.directory.close()
    directory = poured(world, tmp_path)
    look = PartitionFiles.end_offset

    def started(files: PartitionFiles) -> int:
        """Be started once that was looked for, and write."""
        end = look(files)
        monkeypatch.setattr(PartitionFiles, "end_offset", look)
        world.start()
        log = lead(world.log())
        append(log, b"later")
        wanted.append(b"later")
        flush(world, log)
        pour(world.disk, "/data", directory)
        (directory / file_names.CLEAN_SHUTDOWN).unlink()
        return end

    monkeypatch.setattr(PartitionFiles, "end_offset", started)
    assert values(headrace.arrow.open(directory, "t")) == wanted


# --- what is asked for ----------------------------------------------------------------------------


def test_a_partition_named_twice_is_read_once(world: World, tmp_path: Path) -> None:
    wanted = fill(world, 5)
    assert values(headrace.arrow.open(poured(world, tmp_path), "t", partitions=[0, 0])) == wanted


def test_a_partition_without_a_range_is_read_whole(world: World, tmp_path: Path) -> None:
    for number in range(2):
        fill(world, 5, TopicPartition("t", number))
    reader = headrace.arrow.open(
        poured(world, tmp_path), "t", offsets={0: (3, None)}, columns=["partition", "offset"]
    )
    found = [tuple(row.values()) for row in reader.read_all().to_pylist()]
    assert found == [(0, 3), (0, 4), *((1, offset) for offset in range(5))]


def test_a_range_that_an_open_transaction_ends_before_it_begins_is_empty(tmp_path: Path) -> None:
    world = World(config=LogConfig(segment_bytes=200, index_interval_bytes=200))
    log = world.log()
    append(log, b"x" * 100, producer=(7, 0, 0), transactional=True)
    for _ in range(5):
        append(log, b"x" * 100)
    flush(world, log)
    log.delete_records(Offset(4))
    world.settle()
    world.directory.close()
    found = open_topic.ranges(poured(world, tmp_path), "t", "read_committed")
    begin, end = found[0]
    assert begin <= end


# --- threads --------------------------------------------------------------------------------------


def test_who_stops_reading_waits_for_the_threads_that_read_for_him() -> None:
    began = threading.Event()

    def source() -> Iterator[pa.RecordBatch]:
        while True:
            yield pa.RecordBatch.from_pydict({"a": [1]})
            began.set()
            time.sleep(0.2)

    reading = side_by_side([source, source], 2)
    next(reading)
    assert began.wait(10)
    reading.close()  # type: ignore[attr-defined] # as a reader given up does
    assert not [one for one in threading.enumerate() if one.name.startswith("arrow-")]


def test_neighbouring_segments_that_compaction_emptied_are_passed_over(
    world: World, tmp_path: Path
) -> None:
    wanted = fill(world)
    directory = poured(world, tmp_path)
    first, second, third, *_ = sorted((directory / "t-0").glob("*.log"))
    for emptied in (first, second):
        emptied.write_bytes(b"")
        emptied.with_suffix(".index").write_bytes(b"")
    reader = headrace.arrow.open(directory, "t")
    assert values(reader) == wanted[int(third.stem) :]
