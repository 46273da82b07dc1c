"""The index files of a segment that still takes appends."""

from headrace.config.log_config import LogConfig
from headrace.log.index_writer import DELAY_SECONDS
from headrace.log.log import Log
from headrace.log.segment.indexes import OFFSET_ENTRY, TIME_ENTRY
from headrace.model.nouns import TopicPartition
from tests.support.log.log import NOW_MS, World, append

STEM = "/data/t-0/00000000000000000000"
EVERY_BATCH = LogConfig(index_interval_bytes=0)


def read(world: World, suffix: str, place: TopicPartition | None = None) -> bytes:
    path = f"/data/{place}/00000000000000000000" if place else STEM
    file = world.disk.open(path + suffix, writable=False)
    content = file.read(0, file.size())
    file.close()
    return content


def stored(world: World) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the entries that a tool reads from `.index` and `.timeindex`."""
    index, times = read(world, ".index"), read(world, ".timeindex")
    return list(OFFSET_ENTRY.iter_unpack(index)), list(TIME_ENTRY.iter_unpack(times))


def held(log: Log) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the entries that the active segment has in memory."""
    active = log.segments.active
    times = [(time, int(offset)) for time, offset in active.time_index.entries()]
    return [(int(offset), int(at)) for offset, at in active.index.entries()], times


def wait(world: World, seconds: float = DELAY_SECONDS) -> None:
    world.clock.advance(seconds)
    world.settle()


def filled(count: int = 3) -> tuple[World, Log]:
    world = World(config=EVERY_BATCH)
    log = world.log()
    for at in range(count):
        append(log, b"x", timestamp=NOW_MS + at)
    return world, log


def test_index_files_exist_from_the_first_record_on() -> None:
    world = World()
    log = world.log()
    assert not world.disk.exists(STEM + ".index")
    append(log, b"x")
    assert stored(world) == ([], [])
    world.close()


def test_index_files_of_a_rolled_segment_exist_from_its_first_record_on() -> None:
    world, log = filled()
    log.roll()
    append(log, b"y")
    names = world.disk.list("/data/t-0")
    assert {"00000000000000000003.index", "00000000000000000003.timeindex"} <= set(names)
    world.close()


def test_index_entries_are_in_the_files_after_a_second() -> None:
    world, log = filled()
    assert stored(world) == ([], [])
    wait(world)
    assert stored(world) == held(log)
    assert len(stored(world)[0]) == 2
    append(log, b"y", timestamp=NOW_MS + 9)
    wait(world)
    assert stored(world) == held(log)
    assert len(stored(world)[0]) == 3
    world.close()


def test_index_files_are_closed_once_entries_are_written() -> None:
    world, log = filled()
    world.flush(log)
    before = world.disk.open_files
    wait(world)
    assert world.disk.open_files == before
    world.close()


def test_an_idle_log_writes_no_index_entries_again() -> None:
    world, _ = filled()
    wait(world)
    operations = len(world.disk.ops)
    wait(world, 60)
    assert len(world.disk.ops) == operations
    world.close()


def test_append_without_an_index_entry_writes_no_index() -> None:
    world, log = filled()
    wait(world)
    log.config = LogConfig(index_interval_bytes=1 << 20)
    append(log, b"y")
    assert not log.segments.active.entries_due
    operations = len(world.disk.ops)
    wait(world, 60)
    assert len(world.disk.ops) == operations
    world.close()


def test_entries_wait_for_the_close_once_duties_have_ended() -> None:
    world, log = filled()
    world.directory.end_duties()
    wait(world)
    assert stored(world) == ([], [])
    log.close()
    assert len(stored(world)[0]) == 2
    world.close()


def test_entries_written_early_are_whole_and_trimmed_after_a_roll() -> None:
    world, log = filled()
    wait(world)
    append(log, b"y", timestamp=NOW_MS + 9)
    sealed = log.segments.active
    log.roll()
    offsets = [(int(offset), int(at)) for offset, at in sealed.index.entries()]
    assert stored(world)[0] == offsets
    assert len(offsets) == 3
    world.close()


def test_entries_wait_while_a_log_is_being_truncated() -> None:
    world, log = filled()
    log.cutting = True
    wait(world)
    assert stored(world) == ([], [])
    log.cutting = False
    wait(world)
    assert stored(world) == held(log)
    world.close()


def test_entries_of_many_logs_are_written_a_slice_a_turn() -> None:
    world = World(config=EVERY_BATCH)
    places = [TopicPartition("t", at) for at in range(150)]
    for place in places:
        log = world.log(place)
        append(log, b"x")
        append(log, b"y", timestamp=NOW_MS + 1)
    wait(world)
    for _ in range(3):
        wait(world, 0)
    assert all(read(world, ".index", place) for place in places)
    world.close()


def test_a_closed_log_makes_no_index_file() -> None:
    world, log = filled()
    log.retire()
    for suffix in (".index", ".timeindex"):
        world.disk.remove(STEM + suffix)
    wait(world)
    assert not world.disk.exists(STEM + ".index")
    world.close()


def test_a_disk_error_while_entries_are_written_fences_the_directory() -> None:
    world, _ = filled()
    world.disk.fail_writes()
    wait(world)
    assert world.directory.fenced
    world.disk.heal()


def test_no_timer_is_left_after_a_directory_is_closed() -> None:
    world, log = filled()
    world.directory.end_duties()
    append(log, b"y")
    world.directory.close()
    operations = len(world.disk.ops)
    wait(world)
    assert len(world.disk.ops) == operations


def test_entries_are_not_written_while_a_flush_runs() -> None:
    world, log = filled()
    world.directory.flusher.flush_soon(log)
    world.clock.advance(0)  # begins; the disk has not answered
    world.clock.advance(DELAY_SECONDS)
    assert stored(world) == ([], [])
    world.settle()
    assert stored(world) == held(log)
    world.close()
