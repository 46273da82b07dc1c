"""Moves between log directories, step by step: what may come between, and what still holds."""

import logging
from dataclasses import replace
from random import Random

import pytest

from headrace.broker import directory_move
from headrace.log.directory.new_log import NewLog
from headrace.log.log import Log
from headrace.model.errors import ApiError
from headrace.model.nouns import LeaderEpoch, Offset
from tests.support.cluster.moves import MovingBroker, SteppedDisk
from tests.support.log.log import CONFIG, PLACE, truncate_to

OTHER_TOPIC = bytes(range(16, 32))


def filled(count: int = 30, **given: int) -> MovingBroker:
    """A broker that leads a log of so many records, all flushed; its first batch holds five."""
    here = MovingBroker(config=replace(CONFIG, **given))  # type: ignore[arg-type]
    here.lead()
    here.append(*[b"first"] * 5, producer=(6, 0, 0))
    for number in range(count - 5):
        here.append(b"%d" % number * 20, producer=(7, 0, number))
    here.settle()
    return here


@pytest.mark.parametrize("seed", range(10))
def test_whatever_ends_first_of_reading_flushing_and_appending_a_move_ends_well(
    seed: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A flush may end while the next piece is read: nothing is read twice for that."""
    monkeypatch.setattr(directory_move, "PIECE_BYTES", 300)
    here, draw = filled(), Random(seed)
    target, before = here.move(), here.held()
    while here.step(draw):
        pass
    assert "cannot be moved" not in caplog.text
    assert here.source is target
    assert here.held() == before
    here.close()


def test_the_high_watermark_never_goes_back_by_a_move() -> None:
    here = MovingBroker()
    here.lead(0, (0, 1))
    for number in range(5):
        here.append(b"%d" % number)
    here.settle()
    target = here.move()
    original = here.log
    here.step_until(lambda: original.cutting and not target.futures.logs)
    here.partition.role.advance(Offset(4))
    here.settle()
    assert here.source is target
    assert here.log.high_watermark == 4
    here.close()


def test_a_topic_that_is_made_again_while_a_copy_takes_its_place_is_not_taken_for_it() -> None:
    here = moved_to_last(filled())
    target, original = here.move(), here.log
    here.step_until(lambda: original.cutting and not target.futures.logs)
    here.broker.stop_partition(*PLACE, delete=True)
    here.lead(1, topic=OTHER_TOPIC)
    end = here.append(b"new")
    here.settle()
    assert here.held() == {0: b"new"}
    assert here.log.flushed_offset == end
    assert not any(directory.fenced for directory in here.directories)
    after = here.killed()
    after.lead(2, topic=OTHER_TOPIC)
    assert after.held() == {0: b"new"}
    assert sum(map(len, after.names().values())) == 1
    after.close()


def test_a_log_prepared_for_a_topic_made_again_lies_where_no_copy_takes_its_place() -> None:
    here = moved_to_last(filled())
    target, original = here.move(), here.log
    here.step_until(lambda: original.cutting and not target.futures.logs)
    here.broker.stop_partition(*PLACE, delete=True)
    here.broker.prepare_partitions([NewLog(PLACE, OTHER_TOPIC, CONFIG)], lambda _: None)
    here.settle()
    here.lead(1, topic=OTHER_TOPIC)
    here.append(b"new")
    here.settle()
    assert here.held() == {0: b"new"}
    assert not any(directory.fenced for directory in here.directories)
    here.close()


def test_a_move_called_off_and_asked_for_again_at_once_ends_well() -> None:
    here = filled()
    source, target, before = here.source, here.target, here.held()
    here.move(target)
    here.move(source)
    here.move(target)
    here.settle()
    here.clock.advance(1)
    here.settle()
    assert here.source is target
    assert here.held() == before
    assert here.names()[target.path] == ["t-0"]
    here.close()


def test_of_two_copies_that_are_made_the_one_that_is_wanted_stays() -> None:
    here = filled()
    source, target, before = here.source, here.target, here.held()
    disk = here.disk
    assert isinstance(disk, SteppedDisk)
    here.move(target)
    here.move(source)
    here.move(target)
    assert disk.queued == 2
    disk.step(1)  # the second one's copy is there before the first one's
    disk.step(1)
    here.settle()
    here.clock.advance(1)
    here.settle()
    assert here.source is target
    assert here.held() == before
    here.close()


def test_a_log_is_not_held_for_long_where_the_other_disk_hangs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "headrace")
    here = filled()
    source, target, original = here.source, here.move(), here.log
    here.step_until(lambda: original.cutting and not target.futures.logs)
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        here.append(b"held")
    here.clock.advance(directory_move.HOLD_SECONDS_MAX + 1)
    end = here.append(b"goes on")
    assert "is too slow" in caplog.text
    here.settle()
    here.clock.advance(1)
    here.settle()
    assert here.source is source
    assert here.log.flushed_offset == end
    assert here.names() == {source.path: ["t-0"], target.path: []}
    here.close()


def test_a_held_log_is_copied_whatever_the_throttle_says() -> None:
    """Who waits for it is a client."""
    here = filled()
    target, original = here.move(), here.log
    here.step_until(lambda: target.futures.logs and target.futures.logs[PLACE].end_offset >= 30)
    for number in range(30, 60):
        here.append(b"%d" % number * 20)
    here.step_until(lambda: original.cutting)
    here.broker.throttles.directories.set_bound(0)
    reads = []
    read = original.read_from_disk

    def counted(offset: Offset, max_bytes: int, *, below: Offset) -> object:
        reads.append(max_bytes)
        return read(offset, max_bytes, below=below)

    original.read_from_disk = counted  # type: ignore[method-assign,assignment]
    here.settle()
    assert here.source is target
    assert min(reads, default=1 << 20) > 1
    here.close()


def kill_between_the_renames(here: MovingBroker) -> MovingBroker:
    """The broker after one that was killed with the log whole in both directories."""
    target = here.move()
    here.step_until(lambda: here.disk.exists(f"{target.path}/t-0"))
    assert all(names == ["t-0"] for names in here.names().values())
    after = here.killed()
    after.lead(9)
    return after


def moved_to_last(here: MovingBroker) -> MovingBroker:
    """The log lies in the directory that is looked at last."""
    if here.source.path == "/a":
        here.move_whole()
        here.clock.advance(70)
        here.settle()
    assert here.source.path == "/b"
    return here


def test_a_kill_between_the_renames_takes_no_deleted_record_back() -> None:
    here = moved_to_last(filled())
    here.partition.delete_records(3)
    here.settle()
    after = kill_between_the_renames(here)
    assert after.log.start_offset == 3
    after.close()


def test_a_kill_after_a_move_takes_no_deleted_record_back() -> None:
    here = filled()
    here.partition.delete_records(3)
    here.settle()
    target, source = here.move(), here.source
    here.step_until(lambda: source.path not in here.log.directory and here.log.start_offset)
    assert target.logs
    after = here.killed()
    after.lead(9)
    assert after.log.start_offset == 3
    after.close()


def test_a_log_that_moves_away_and_back_within_a_minute_keeps_its_start_through_a_kill() -> None:
    """Its former directory is removed only after file.delete.delay.ms."""
    here = filled()
    here.partition.delete_records(3)
    here.move_whole()
    here.move_whole()
    here.settle()
    after = here.killed()
    after.lead(9)
    assert after.log.start_offset == 3
    assert after.held() == here.held()
    after.close()


def test_a_kill_between_the_renames_forgets_no_producer_and_no_epoch() -> None:
    """Compaction has taken the batches that told of them."""
    here = moved_to_last(filled())
    log = here.log
    log.epochs.assign(LeaderEpoch(3), Offset(30))
    log.save_epochs()
    here.lead(4)
    here.append(b"later", producer=(8, 0, 0))
    here.settle()
    here.partition.delete_records(30)
    entries, producers = log.epochs.entries, known(log)
    assert producers == {6, 7, 8}
    after = kill_between_the_renames(here)
    assert after.log.epochs.entries == entries
    assert known(after.log) == producers
    after.close()


def known(log: Log) -> set[int]:
    """The producers that a log remembers."""
    return {entry.producer_id for entry in log.producers.kept.entries()}


def test_what_a_log_that_has_moved_removes_later_is_not_what_came_in_its_place() -> None:
    """Segments of the former log go after file.delete.delay.ms: those of the same names stay."""
    here = filled(retention_bytes=1000)
    here.source.apply_retention()
    assert here.log.start_offset > 0
    here.move_whole()
    here.move_whole()
    for number in range(30):
        here.append(b"%d" % number * 20)
    here.settle()
    before = here.held()
    log = here.log
    snapshots = [name for name in here.disk.list(log.directory) if name.endswith(".snapshot")]
    here.clock.advance(120)
    here.settle()
    left = here.disk.list(log.directory)
    assert here.held() == before
    assert [name for name in snapshots if name not in left] == []
    here.close()


def test_a_clean_stop_waits_for_a_copy_that_takes_its_place() -> None:
    here = filled()
    target, original = here.move(), here.log
    here.step_until(lambda: original.cutting and not target.futures.logs)
    here.step_until(lambda: target.futures.running)
    assert target.writing
    here.settle()
    for directory in here.directories:
        directory.end_duties()
    here.move()
    here.settle()
    assert not any(directory.writing for directory in here.directories)
    assert here.source is target
    here.close()


def test_what_is_cut_while_the_copy_is_made_is_cut_of_it() -> None:
    here = filled()
    target = here.move()
    here.step_until(lambda: target.futures.logs and target.futures.logs[PLACE].end_offset >= 30)
    truncate_to(here.log, Offset(10))
    assert here.source is target or here.log.end_offset == 10
    here.lead(1)
    here.append(b"another")
    here.settle()
    here.clock.advance(1)
    here.settle()
    assert here.source is target
    assert max(here.held()) == 10
    here.close()
