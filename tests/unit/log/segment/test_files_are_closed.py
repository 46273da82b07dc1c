"""Whoever opens a file of a log directory closes it: a broker with many partitions has few left."""

import errno
from typing import NoReturn

import pytest

from headrace.log import file_names
from headrace.log.directory.new_log import PREPARED_OPEN_MAX, NewLog
from headrace.log.directory.periods import Periods
from headrace.log.flusher import GATHER_SECONDS
from headrace.log.index_writer import DELAY_SECONDS
from headrace.log.segment.indexes import OffsetIndex, TimeIndex
from headrace.log.segment.segment import Segment
from headrace.log.segment.transaction_index import AbortedTransaction, TxnIndex
from headrace.model.nouns import Offset, TopicPartition
from headrace.testing.disk import SimDisk
from tests.support.log.compaction import COMPACTED, cleaner_of, compact_now, put, superseded
from tests.support.log.log import PLACE, TOPIC_ID, World, append, append_marker, truncate_to, values

BOUNDS = 1
"""`durable-read-bounds`, which a directory in use has open."""
CLEAN = pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])


def filled(world: World) -> None:
    log = world.log()
    for number in range(12):
        append(log, b"%02d" % number * 100, producer=(7, 0, number), transactional=True)
        if number % 4 == 3:
            append_marker(log, 7, commit=number % 8 == 3)
    world.flush(log)
    world.directory.checkpoint()
    world.settle()


@CLEAN
@pytest.mark.parametrize("at_rest", [True, False])
def test_a_directory_that_is_closed_or_at_rest_has_no_file_open(clean: bool, at_rest: bool) -> None:
    world = World(at_rest=at_rest)
    filled(world)
    assert world.disk.open_files > 0
    for _ in range(2):
        world.directory.close(clean)
        assert world.disk.open_files == 0
        world.start()
        assert world.disk.open_files == BOUNDS, "nobody has used the log yet"
        assert len(values(world.log())) == 12
        append(world.log(), b"goes on")
        truncate_to(world.log(), Offset(world.log().end_offset - 1))
        world.flush(world.log())
    world.directory.close(clean)
    assert world.disk.open_files == 0


@CLEAN
def test_a_start_that_builds_indexes_or_finds_damage_has_no_file_open(clean: bool) -> None:
    world = World()
    filled(world)
    world.directory.close(clean)
    names = world.disk.list("/data/t-0")
    for name in names:
        if name.endswith((file_names.INDEX, file_names.TIME_INDEX, file_names.SNAPSHOT)):
            world.disk.remove(f"/data/t-0/{name}")
    world.start()
    assert world.disk.open_files == BOUNDS
    assert len(values(world.log())) == 12
    world.directory.close(clean)
    world.disk.flip("/data/t-0/00000000000000000000.log", 16)
    world.start()
    assert world.disk.open_files == BOUNDS
    world.directory.close(clean)
    assert world.disk.open_files == 0


def test_a_compaction_leaves_no_file_open_and_closes_those_it_replaced() -> None:
    world = World(config=COMPACTED)
    log = superseded(world)
    cleaner = cleaner_of(world)
    compact_now(world, cleaner)
    assert cleaner.compactions == 1
    assert world.disk.open_files == BOUNDS + sum(map(_files_of, log.segments))
    for number in range(8):
        put(log, (b"k", b"%d" % number * 200))
    world.flush(log)
    world.disk.flip(log.segments[-2].path(file_names.LOG), 70)
    before = world.disk.open_files
    compact_now(world, cleaner)
    assert cleaner.uncleanable
    assert world.disk.open_files == before
    world.close()
    assert world.disk.open_files == 0


def _files_of(segment: Segment) -> int:
    indexes = (segment.index, segment.time_index, segment.txn_index)
    return segment.is_open + sum(index._file is not None for index in indexes)


def test_a_scrub_closes_what_it_has_read() -> None:
    periods = Periods(scrub_bytes_per_second=1_000_000, scrub_interval_ms=60_000)
    world = World(periods=periods)
    filled(world)
    world.directory.close(clean=True)
    world.start()
    world.directory.start()
    for _ in range(100):
        world.clock.advance(1)
        world.settle()
    assert world.directory.scrub.scrubbed > 0
    assert world.disk.open_files == BOUNDS
    world.close()


def test_removed_segments_are_closed() -> None:
    world = World()
    filled(world)
    log = world.log()
    log.delete_records(log.segments[-1].base_offset)
    world.directory.apply_retention()
    world.clock.advance(log.config.file_delete_delay_ms / 1000 + 1)
    world.settle()
    world.flush(log)
    (active,) = log.segments
    assert world.disk.open_files == BOUNDS + _files_of(active)
    world.directory.delete_log(PLACE)
    world.clock.advance(100)
    world.settle()
    assert world.disk.open_files == BOUNDS


def test_a_log_deleted_before_its_closed_segments_were_flushed_leaves_no_file_open() -> None:
    world = World()
    log = world.log()
    for number in range(12):
        append(log, b"%02d" % number * 100, producer=(7, 0, number))
    assert log.unflushed.segments, "their snapshots are open until they are flushed"
    world.directory.delete_log(PLACE)
    world.clock.advance(100)
    world.settle()
    assert world.disk.open_files == BOUNDS
    world.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_closed_before_its_closed_segments_were_flushed_leaves_no_file_open(
    clean: bool,
) -> None:
    world = World()
    log = world.log()
    for number in range(12):
        append(log, b"%02d" % number * 100, producer=(7, 0, number))
    assert log.unflushed.segments
    world.directory.close(clean)
    assert world.disk.open_files == 0


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
def test_an_index_is_read_through_a_file_of_its_own_or_its_open_one(
    kind: type[OffsetIndex | TimeIndex],
) -> None:
    disk = SimDisk()
    disk.make_directory("/d")
    made = kind(disk, "/d/i", Offset(0), 120)
    made.reset(fresh=True)
    if isinstance(made, OffsetIndex):
        made.append(Offset(3), 7)
        assert OffsetIndex(disk, "/d/i", Offset(0), 120).peek() == (0, 0), "there is no file"
    else:
        made.maybe_append(7, Offset(3))
    assert disk.open_files == 0, "an entry waits in memory"
    made.write_out()
    assert disk.open_files == 1
    again = kind(disk, "/d/i", Offset(0), 120)
    if isinstance(again, OffsetIndex):
        made.trim()
        assert again.peek() == (3, 7)
        assert disk.open_files == 1
    again.load()
    assert len(again) == 1
    assert disk.open_files == 1
    for _ in range(2):
        made.close()
        assert disk.open_files == 0
    assert made.last == again.last


def test_an_index_of_aborted_transactions_closes_its_file() -> None:
    disk = SimDisk()
    disk.make_directory("/d")
    entry = AbortedTransaction(1, Offset(2), Offset(3), Offset(4))
    made = TxnIndex(disk, "/d/i")
    made.append(entry)
    made.close()
    assert disk.open_files == 0
    again = TxnIndex(disk, "/d/i")
    assert again.entries == [entry]
    assert disk.open_files == 0


def test_thousands_of_new_logs_have_few_files_open() -> None:
    world = World()
    wanted = [
        NewLog(TopicPartition("many", number), TOPIC_ID, world.config)
        for number in range(PREPARED_OPEN_MAX + 200)
    ]
    for first in range(0, len(wanted), 100):
        world.directory.prepare_logs(wanted[first : first + 100], lambda _: None)
        world.settle()
    assert world.disk.open_files <= 2 * PREPARED_OPEN_MAX + BOUNDS
    logs = [world.directory.create_log(*new) for new in wanted]
    world.settle()
    assert world.disk.open_files <= PREPARED_OPEN_MAX + BOUNDS, "flushed files are closed"
    append(logs[-1], b"one")
    world.flush(logs[-1])
    world.restart(clean=False)
    assert values(world.log(wanted[-1].topic_partition)) == {0: b"one"}
    world.close()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_new_log_for_which_no_file_can_be_opened_is_refused_and_no_disk_is_fenced(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    new = NewLog(PLACE, TOPIC_ID, world.config)
    with monkeypatch.context() as patched:

        def refused(disk: SimDisk, path: str, **options: bool) -> NoReturn:
            raise OSError(code, "too many open files")

        patched.setattr(SimDisk, "open", refused)
        done: list[BaseException | None] = []
        world.directory.prepare_logs([new], done.append)
        world.settle()
        assert done == [None]
        with pytest.raises(OSError, match="too many open files"):
            world.directory.create_log(*new)
    assert not world.directory.fenced
    append(world.directory.create_log(*new), b"one")
    world.close()


def test_a_log_whose_records_are_not_flushed_has_one_file_open() -> None:
    world = World()
    log = world.log()
    world.flush(log)
    append(log, b"one")
    assert log.epochs.entries, "the file of leader epochs is written"
    world.clock.advance(DELAY_SECONDS)
    world.clock.advance(GATHER_SECONDS)
    world.settle()
    assert log.flushed_offset == 0
    assert world.disk.open_files == 1 + BOUNDS
    append(log, b"two")
    world.flush(log)
    assert log.flushed_offset == 2
    world.restart(clean=False)
    assert world.log().epochs.entries
    world.close()
