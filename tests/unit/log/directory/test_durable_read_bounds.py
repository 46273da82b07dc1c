"""What the broker publishes for readers of its files: never more than is durable and committed."""

import errno
from contextlib import suppress

import pytest

from headrace.config.log_config import LogConfig
from headrace.log import file_names
from headrace.log.directory.periods import Periods
from headrace.log.directory.state_files import durable_read_bounds
from headrace.log.directory.state_files.durable_read_bounds import ReadBound, read_bound
from headrace.model.errors import StorageError
from headrace.model.nouns import Offset, TopicPartition
from headrace.testing.disk import SimDisk
from tests.support.client import open_topic
from tests.support.log.log import (
    CONFIG,
    PLACE,
    TOPIC_ID,
    World,
    append,
    append_marker,
    truncate_to,
    values,
)

OTHER_ID = bytes(range(16, 32))
FILE = f"/data/{durable_read_bounds.NAME}"


def bound_of(world: World, place: TopicPartition = PLACE, topic_id: bytes = TOPIC_ID) -> ReadBound:
    return read_bound(world.disk, "/data", place, topic_id)


def end_of(world: World) -> int | None:
    return bound_of(world).end


def flush(world: World) -> None:
    open_topic.flush(world, world.log())


def overwrite(disk: SimDisk, path: str, position: int, data: bytes) -> None:
    file = disk.open(path)
    file.write_at(position, (data,))
    file.close()


def test_the_bound_follows_the_flush_and_not_the_append() -> None:
    world = World()
    log = world.log()
    assert end_of(world) == 0
    append(log, b"a", b"b")
    assert end_of(world) == 0
    flush(world)
    assert end_of(world) == 2
    append(log, b"c")
    log.high_watermark = Offset(3)  # page cache is enough: visible, not yet durable
    world.directory.start()
    assert end_of(world) == 2
    world.close()


def test_what_is_flushed_and_not_committed_is_not_published() -> None:
    world = World()
    log = world.log()
    append(log, b"a", b"b")
    world.directory.flusher.flush_soon(log)
    world.settle()
    assert log.flushed_offset == 2
    assert end_of(world) == 0
    world.close()


def test_an_open_transaction_bounds_readers_of_committed_data() -> None:
    world = World()
    log = world.log()
    append(log, b"plain")
    append(log, b"t", producer=(9, 0, 0), transactional=True)
    flush(world)
    assert bound_of(world) == (0, 2, 1)
    append_marker(log, 9, commit=False)
    assert bound_of(world) == (0, 2, 1)
    flush(world)
    assert bound_of(world) == (0, 3, 3)
    world.close()


def test_a_start_moved_by_delete_records_is_published_at_once() -> None:
    world = World()
    append(world.log(), b"a", b"b", b"c")
    flush(world)
    world.log().delete_records(Offset(2))
    assert bound_of(world).start == 2
    world.close()


def test_a_kill_leaves_the_bound_and_a_clean_stop_makes_it_needless() -> None:
    world = World()
    append(world.log(), b"a")
    flush(world)
    append(world.log(), b"b")
    world.directory.close(clean=False)
    assert end_of(world) == 1
    after = World(world.disk)
    assert end_of(after) == 1
    after.log().high_watermark = after.log().end_offset
    after.directory.close(clean=True)
    assert bound_of(after).end is None
    assert not after.disk.exists(FILE)
    third = World(after.disk)  # taken over: the checkpoints speak until the first publication
    assert end_of(third) == third.log().end_offset
    third.close()


def test_a_loaded_log_that_nobody_leads_yet_does_not_take_its_bound_back() -> None:
    world = World()
    append(world.log(), b"a", b"b")
    flush(world)
    world.directory.close(clean=False)
    after = World(world.disk)
    assert after.log().high_watermark == 0  # no checkpoint was written
    after.directory.start()
    assert end_of(after) == 2
    after.close()


def test_a_topic_made_again_does_not_inherit_the_bound_or_the_checkpoints() -> None:
    world = World(periods=Periods(checkpoint_ms=1000))
    append(world.log(), b"a", b"b", b"c")
    flush(world)
    world.directory.checkpoint()
    world.settle()
    world.directory.delete_log(PLACE)
    world.directory.create_log(PLACE, OTHER_ID, CONFIG)
    append(world.log(), b"new")
    assert bound_of(world, topic_id=OTHER_ID) == (0, 0, 0)
    flush(world)
    assert bound_of(world, topic_id=OTHER_ID) == (0, 1, 1)
    world.close()


def test_without_a_slot_the_checkpoints_count_and_the_lesser_of_the_two() -> None:
    world = World()
    append(world.log(), b"a", b"b")
    flush(world)
    world.directory.checkpoint()
    world.settle()
    world.directory.close(clean=False)
    world.disk.remove(FILE)
    assert bound_of(world) == (0, 2, None)
    world.disk.replace(f"/data/{file_names.HIGH_WATERMARKS}", b"0\n1\nt 0 1\n")
    assert bound_of(world) == (0, 1, None)


def test_a_torn_slot_is_no_slot() -> None:
    world = World()
    append(world.log(), b"a")
    flush(world)
    world.directory.close(clean=False)
    overwrite(world.disk, FILE, durable_read_bounds.SLOT.size + 40, b"\xff")
    assert bound_of(world) == (0, 0, None)  # no checkpoint either
    overwrite(world.disk, FILE, 0, b"something else")
    assert bound_of(world) == (0, 0, None)
    after = World(world.disk)
    after.directory.start()
    assert end_of(after) == 0
    append(after.log(), b"b")
    flush(after)
    assert end_of(after) == 2
    after.close()


def test_the_slots_of_deleted_logs_are_used_again() -> None:
    world = World()
    size = 0
    for number in range(5):
        place = TopicPartition("u", number)
        world.directory.create_log(place, OTHER_ID, CONFIG)
        world.settle()
        world.directory.delete_log(place)
        file = world.disk.open(FILE)
        size = size or file.size()
        assert file.size() == size
        file.close()
    world.close()


def test_slots_of_topics_that_went_elsewhere_are_dropped_at_the_start() -> None:
    world = World()
    world.directory.create_log(TopicPartition("u", 0), OTHER_ID, CONFIG)
    append(world.log(), b"a")
    flush(world)
    world.directory.close(clean=False)
    world.disk.remove_tree("/data/u-0")
    after = World(world.disk)
    after.directory.start()
    file = after.disk.open(FILE)
    assert OTHER_ID not in file.read(0, file.size())
    assert end_of(after) == 1
    after.close()


def test_many_logs_published_at_once_are_told_each_its_own() -> None:
    world = World(config=LogConfig())
    places = [TopicPartition("m", number) for number in range(40)]
    for number, place in enumerate(places):
        log = world.directory.create_log(place, OTHER_ID, CONFIG)
        for _ in range(number):
            append(log, b"x")
        log.high_watermark = log.end_offset
    world.settle()
    world.directory.start()
    for number, place in enumerate(places):
        assert bound_of(world, place, OTHER_ID).end == number
    world.close()


def test_a_cut_log_takes_its_bound_back_before_it_is_cut() -> None:
    world = World()
    log = world.log()
    for value in (b"a", b"b", b"c"):
        append(log, value)
    flush(world)
    truncate_to(log, Offset(1))
    assert end_of(world) == 1
    world.close()


@pytest.mark.parametrize("sticky", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("partial", [0, 30])
def test_a_log_is_not_cut_while_its_bound_cannot_be_taken_back(partial: int, sticky: bool) -> None:
    """A start would find it shorter than what was said to be flushed."""

    def three_flushed() -> World:
        world = World()
        for value in (b"a", b"b", b"c"):
            append(world.log(), value)
        flush(world)
        world.directory.checkpoint()
        world.settle()
        return world

    world = three_flushed()
    before = world.disk.counts["write"]
    truncate_to(world.log(), Offset(1))
    writes = world.disk.counts["write"] - before
    world.close()
    assert writes > 1
    for number in range(writes):
        world = three_flushed()
        world.disk.fail_writes(number, errno.EIO, partial, sticky)
        with suppress(StorageError):
            truncate_to(world.log(), Offset(1))
        after = World(world.disk.left_by_a_kill())
        assert not after.directory.quarantined, f"write {number}"
        assert len(values(after.log())) in (1, 3)
        after.close()
        world.close()
