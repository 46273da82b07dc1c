"""Many logs are cut at once, off the thread: refused meanwhile, one checkpoint, all or none."""

import pytest

from headrace.log import file_names
from headrace.log.follower_append import UnexpectedBatch, append_as_follower
from headrace.log.log import Log
from headrace.log.segment.scan import BadBatch
from headrace.log.text_files import read_file
from headrace.log.truncation import BelowHighWatermark
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import Offset, TopicPartition
from headrace.record import batch as wire
from tests.support.log.log import NOW_MS, PLACE, World, append, reset_to, truncate_to, values

MANY = 45


def filled(world: World, count: int = MANY) -> list[Log]:
    logs = []
    for number in range(count):
        place = TopicPartition("many", number)
        logs.append(world.directory.create_log(place, bytes(range(1, 17)), world.config))
        append(logs[-1], b"stays %d" % number, producer=(number, 0, 0))
        append(logs[-1], b"goes %d" % number, epoch=1, producer=(number, 0, 1))
    for log in logs:
        world.directory.flusher.flush_soon(log)
    world.settle()
    world.directory.checkpoint()
    world.settle()
    return logs


def test_many_logs_are_cut_with_one_checkpoint_before_and_one_after() -> None:
    world = World()
    logs = filled(world)
    before = len(world.disk.ops)
    done: list[BaseException | None] = []
    world.directory.truncate_logs([(log, Offset(1)) for log in logs], done.append)
    world.settle()
    assert done == [None]
    written = [op for op in world.disk.ops[before:] if op.new_name == file_names.RECOVERY_POINTS]
    assert len(written) == 1, "what is true before the cut is true after it"
    for number, log in enumerate(logs):
        assert (log.end_offset, log.flushed_offset, log.epochs.entries) == (1, 1, [(0, 0)])
        assert values(log) == {0: b"stays %d" % number}
        assert log.producers.kept.entries()[0].last_sequence == 0
        append(log, b"goes on", epoch=2, producer=(number, 0, 1))
    world.restart(clean=False)
    assert not world.directory.quarantined
    assert len(world.directory.logs) == MANY
    world.close()


def test_a_log_takes_nothing_while_it_is_cut_and_goes_on_after_it() -> None:
    world = World()
    (log, other) = filled(world, 2)
    done: list[BaseException | None] = []
    world.directory.truncate_logs([(log, Offset(1))], done.append)
    for _ in range(12):
        if done:
            break
        with pytest.raises(ApiError) as refused:
            append(log, b"refused")
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        append(other, b"is not concerned")
        assert world.directory.writing, "whoever stops waits for it"
        world.clock.turn()
        world.disk.settle()
    assert done == [None]
    assert not world.directory.checkpoints.writing or world.directory.writing
    append(log, b"taken", epoch=2)
    assert values(log) == {0: b"stays 0", 1: b"taken"}
    world.close()


def test_a_flush_from_before_a_truncation_counts_nothing_that_came_after_it() -> None:
    """Its offsets hold other records now. The log itself keeps to this, whoever flushes it."""
    world = World()
    log = world.log()
    append(log, b"stays")
    world.flush(log)
    append(log, b"goes", b"goes too")
    work = log.flush_work()
    truncate_to(log, Offset(1))
    append(log, b"came", b"after", b"the flush began")
    log.flushed(work)
    assert (log.flushed_offset, log.end_offset) == (1, 4)
    world.flush(log)
    assert log.flushed_offset == 4
    world.close()


def test_committed_records_go_only_after_an_unclean_election_and_else_nothing_does() -> None:
    world = World()
    logs = filled(world, 3)
    logs[1].high_watermark = Offset(2)
    with pytest.raises(BelowHighWatermark, match="many-1"):
        truncate_to(logs[1], Offset(1), unclean=False)
    done: list[BaseException | None] = []
    world.directory.truncate_logs([(log, Offset(1)) for log in logs], done.append)
    world.settle()
    assert isinstance(done[0], BelowHighWatermark)
    assert [log.end_offset for log in logs] == [2, 2, 2]
    append(logs[1], b"goes on", epoch=1)
    truncate_to(logs[1], Offset(1))
    assert (logs[1].end_offset, logs[1].high_watermark) == (1, 1)
    world.close()


@pytest.mark.parametrize("opened", [True, False], ids=["open", "at rest"])
def test_a_log_that_is_deleted_meanwhile_does_not_keep_the_others_from_being_cut(
    opened: bool,
) -> None:
    for steps in range(16):
        world = World()
        logs = filled(world, 3)
        if not opened:
            world.restart(clean=False)
            logs = [world.directory.logs[log.topic_partition] for log in logs]
            for log in logs:
                log.high_watermark = Offset(0)
        done: list[BaseException | None] = []
        world.directory.truncate_logs([(log, Offset(1)) for log in logs], done.append)
        for _ in range(steps):
            _ = world.disk.settle(steps=1) or world.clock.turn()
        world.directory.delete_log(logs[1].topic_partition)
        world.settle()
        assert done == [None], steps
        assert not world.directory.fenced
        assert [logs[0].end_offset, logs[2].end_offset] == [1, 1]
        world.restart(clean=False)
        assert not world.directory.quarantined
        world.close()


def test_a_damaged_log_is_said_and_none_is_cut() -> None:
    world = World()
    logs = filled(world, 2)
    path = logs[0].segments.active.path(file_names.LOG)
    world.disk.flip(path, 16, 0xFF)
    done: list[BaseException | None] = []
    world.directory.truncate_logs([(log, Offset(1)) for log in logs], done.append)
    world.settle()
    assert isinstance(done[0], BadBatch)
    assert [log.end_offset for log in logs] == [2, 2]
    append(logs[1], b"goes on", epoch=1)
    world.close()


def test_a_disk_that_fails_fences_and_whoever_asked_is_told() -> None:
    for at in range(6):
        world = World()
        logs = filled(world, 2)
        world.disk.fail_syncs(at)
        done: list[BaseException | None] = []
        world.directory.truncate_logs([(log, Offset(1)) for log in logs], done.append)
        world.settle()
        assert len(done) == 1, at
        assert isinstance(done[0], StorageError) == world.directory.fenced
        world.disk.heal()
        world.close()


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_log_reset_to_its_leaders_start_is_empty_there_and_copies_from_there_on(
    clean: bool,
) -> None:
    world = World()
    log = world.log()
    for number in range(6):
        append(log, b"old %d" % number * 90, epoch=number, producer=(3, 0, number))
    world.flush(log)
    world.directory.checkpoint()
    reset_to(log, Offset(1000))
    for _ in range(2):
        log = world.log()
        assert (log.start_offset, log.end_offset, log.flushed_offset) == (1000, 1000, 1000)
        assert log.high_watermark == 1000
        assert (log.epochs.entries, log.producers.kept.entries()) == ([], [])
        assert [segment.base_offset for segment in log.segments] == [1000]
        world.restart(clean=clean)
        assert not world.directory.quarantined
    found = wire.build(
        [wire.new_record(b"%d" % at, timestamp=NOW_MS) for at in range(4)],
        base_offset=998,
        leader_epoch=7,
    )
    with pytest.raises(UnexpectedBatch) as unexpected:
        append_as_follower(world.log(), memoryview(found), NOW_MS)
    reset_to(world.log(), unexpected.value.base_offset)
    assert append_as_follower(world.log(), memoryview(found), NOW_MS) == 1002
    world.flush(world.log())
    assert world.log().delete_records(Offset(1000)) == 1000
    world.settle()
    world.restart(clean=clean)
    assert PLACE not in world.directory.quarantined
    assert values(world.log()) == {1000: b"2", 1001: b"3"}
    assert world.log().epochs.entries == [(7, 1000)]
    world.close()


def being_reset(world: World) -> tuple[Log, list[BaseException | None]]:
    """A log of 6 records that is to begin anew at 1000."""
    log = world.log()
    append(log, *[b"old"] * 6)
    world.flush(log)
    done: list[BaseException | None] = []
    world.directory.reset_logs([(log, Offset(1000))], done.append)
    return log, done


def test_a_log_that_is_being_reset_is_at_its_start_and_the_disk_says_0_until_its_files_are() -> (
    None
):
    """A start after a kill would else miss what was never here."""
    world = World()
    log, done = being_reset(world)
    seen, checkpoints = set(), ["", ""]
    while not done:
        offsets = log.start_offset, log.high_watermark, log.flushed_offset, log.end_offset
        seen.add(tuple(map(int, offsets)))
        for at, name in enumerate((file_names.RECOVERY_POINTS, file_names.HIGH_WATERMARKS)):
            found = read_file(world.disk, f"/data/{name}")
            checkpoints[at] = "" if found is None else found.decode()
        _ = world.disk.settle(steps=1) or world.clock.turn()
    assert seen == {(0, 6, 6, 6), (1000, 1000, 0, 1000)}
    assert log.flushed_offset == 1000
    assert ["t 0 0\n" in told for told in checkpoints] == [True, True]
    world.close()


def test_a_disk_that_fills_up_while_a_log_is_reset_takes_no_high_watermark_back() -> None:
    for writes in range(12):
        world = World()
        log, done = being_reset(world)
        world.disk.fail_writes(writes)
        marks = [log.high_watermark]
        while not done:
            _ = world.disk.settle(steps=1) or world.clock.turn()
            marks.append(log.high_watermark)
        assert marks == sorted(marks), writes
        assert isinstance(done[0], StorageError) == world.directory.fenced
        assert log.flushed_offset >= log.high_watermark
        world.disk.heal()
        world.close()
