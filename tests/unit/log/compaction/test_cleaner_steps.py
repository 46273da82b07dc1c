"""What the cleaner does at each step of a compaction whose worker a test has in its hand."""

import errno
import logging
from dataclasses import replace

import pytest

from headrace.config.keys.log import LogKeys
from headrace.log import file_names
from headrace.log.compaction.cleaner import LogCleaner
from headrace.log.compaction.cleaner_settings import CleanerSettings
from headrace.log.compaction.job import Damaged, Done, Job, Stopped
from headrace.log.compaction.records import PlainRecords, Span, rebase
from headrace.log.compaction.worker import Told
from headrace.log.log import Log
from headrace.log.text_files import read_file, read_offsets
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset, TopicPartition
from headrace.record.compression import Codec, CorruptBatch
from headrace.record.record import new_record, write_records
from tests.support.log.compaction import COMPACTED, put, rows, run_job
from tests.support.log.log import PLACE, World, truncate_to


class HandWorker:
    """Notes what it is asked, and tells what a test has it tell."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Job, Told]] = []
        self.asked: list[str] = []

    def start(self, job: Job, told: Told) -> None:
        self.jobs.append((job, told))

    def stop(self) -> None:
        self.asked.append("stop")

    def close(self) -> None:
        self.asked.append("close")


def filled(world: World) -> Log:
    log = world.log()
    for number in range(12):
        if number and number % 3 == 0:
            log.roll()
        put(log, (b"k%d" % (number % 3), b"%02d" % number), producer=(5, 0, number))
    world.flush(log)
    return log


def started(world: World, *, enabled: bool = True) -> tuple[LogCleaner, HandWorker]:
    worker = HandWorker()
    keys = LogKeys(log_cleaner_backoff_ms=1000, log_cleaner_enable=enabled)
    cleaner = LogCleaner(
        [world.directory],
        clock=world.clock,
        disk=world.disk,
        worker=worker,
        settings=lambda: CleanerSettings(keys),
    )
    cleaner.start()
    world.settle()
    return cleaner, worker


def pause(world: World, seconds: float = 1.0) -> None:
    world.clock.advance(seconds)
    world.settle()


def waiting(world: World) -> list[float]:
    """When each call that has not been cancelled falls due, from now."""
    now = world.clock.monotonic()
    return sorted(at - now for at, _, timer in world.clock._waiting if timer.callback)


def made(world: World, log: Log, told: Told, job: Job) -> Done:
    """Do the job's work; tells all events but the last, which is returned."""
    events, _ = run_job(job, world.disk)
    for event in events[:-1]:
        assert not isinstance(event, Done | Damaged)
        told(event)
        world.settle()
    last = events[-1]
    assert isinstance(last, Done)
    return last


def cleaner_entries(world: World) -> dict[TopicPartition, Offset]:
    content = read_file(world.disk, f"/data/{file_names.CLEANER_OFFSETS}")
    return {} if content is None else read_offsets(content, "it")


def test_one_timer_waits_for_the_next_look_and_none_once_closed() -> None:
    world = World(config=COMPACTED)
    cleaner, worker = started(world)
    assert waiting(world) == [1.0]
    world.clock.advance(0.5)
    cleaner.look()
    world.settle()
    assert waiting(world) == [1.0], "begun anew, not beside the first one"
    cleaner.close()
    assert waiting(world) == []
    assert worker.asked == ["close"]
    cleaner.look()
    world.settle()
    assert waiting(world) == []
    closed_early, _ = started(world)
    closed_early.close()
    closed_early.close()


def test_a_cleaner_that_is_off_looks_again_and_again_and_begins_nothing() -> None:
    world = World(config=COMPACTED)
    filled(world)
    _, worker = started(world, enabled=False)
    pause(world, 5)
    assert worker.jobs == []
    assert waiting(world) == [1.0]


def test_segments_that_are_not_durable_are_flushed_for_the_next_look() -> None:
    world = World(config=COMPACTED)
    log = world.log()
    for number in range(12):
        put(log, (b"k", b"%02d" % number * 100))
    log.high_watermark = log.end_offset
    assert log.flushed_offset == 0
    _, worker = started(world)
    pause(world)
    assert log.flushed_offset == 12
    pause(world)
    assert len(worker.jobs) == 1
    put(log, (b"k", b"in the active segment"))
    log.high_watermark = log.end_offset
    pause(world)
    assert log.flushed_offset == 12, "the closed ones are durable"


def test_a_compaction_in_a_directory_that_fails_is_stopped_and_not_waited_for() -> None:
    world = World(config=COMPACTED)
    log = filled(world)
    _, worker = started(world)
    pause(world)
    assert len(worker.jobs) == 1
    pause(world)
    assert worker.asked == []
    log.context.fail(OSError(errno.EIO, "gone"), log.directory)
    pause(world)
    assert worker.asked == ["stop"]
    pause(world)
    assert worker.asked == ["stop"]
    assert len(worker.jobs) == 1


def test_a_checkpoint_that_cannot_be_written_ends_the_compaction_before_it_begins() -> None:
    world = World(config=COMPACTED)
    filled(world)
    _, worker = started(world)
    world.disk.fail_writes(0, sticky=True)
    pause(world)
    assert world.directory.fenced
    assert worker.jobs == []


@pytest.mark.parametrize(
    ("problem", "again", "said"),
    [
        (CorruptLogError("it is damaged"), False, "it is damaged"),
        (OSError(errno.EIO, "no luck"), True, "compaction failed, retrying later"),
        (FileNotFoundError(errno.ENOENT, "deleted"), True, ""),
    ],
)
def test_a_log_that_cannot_be_prepared_does_not_hold_the_others_up(
    problem: Exception,
    again: bool,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(config=COMPACTED)
    filled(world)
    cleaner, worker = started(world)

    def failing(chosen: object) -> object:
        raise problem

    with caplog.at_level(logging.WARNING), monkeypatch.context() as patched:
        patched.setattr("headrace.log.compaction.compaction_run.prepare", failing)
        pause(world)
    assert worker.jobs == []
    assert list(cleaner.uncleanable) == ([] if again else [PLACE])
    assert (said in caplog.text) if said else not caplog.messages
    other = world.log(TopicPartition("u", 1))
    for number in range(6):
        put(other, (b"k", b"%02d" % number * 200))
    world.flush(other)
    pause(world)
    assert [job.partition for job, _ in worker.jobs] == ["t-0" if again else "u-1"]


def test_a_cut_while_a_compaction_is_prepared_ends_it_and_a_later_one_begins() -> None:
    world = World(config=COMPACTED)
    log = filled(world)
    _, worker = started(world)
    world.clock.advance(1.0)
    world.clock.turn()
    truncate_to(log, Offset(11))
    log.high_watermark = log.flushed_offset
    world.settle()
    assert worker.jobs == []
    pause(world)
    pause(world)
    assert len(worker.jobs) == 1


@pytest.mark.parametrize("how", ["done", "stopped"])
def test_what_a_compaction_made_that_was_given_up_is_removed(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(config=COMPACTED)
    log = filled(world)
    before = rows(log)[:11]
    cleaner, worker = started(world)
    pause(world)
    ((job, told),) = worker.jobs
    events, _ = run_job(job, world.disk)
    left = [name for name in world.disk.list(log.directory) if name.endswith(".cleaned")]
    assert left
    truncate_to(log, Offset(11))
    log.high_watermark = log.flushed_offset
    assert worker.asked == ["stop"]
    told(events[0])
    assert worker.asked == ["stop"], "once is enough"
    told(events[-1] if how == "done" else Stopped("asked to"))
    world.settle()
    assert not [name for name in world.disk.list(log.directory) if name.endswith(".cleaned")]
    assert (cleaner.compactions, cleaner_entries(world)) == (0, {})
    assert ("segments of it are removed" in caplog.text) is (how == "stopped")
    assert rows(log) == before
    pause(world)
    assert len(worker.jobs) == 2


def test_a_damaged_log_is_left_and_the_next_one_begins() -> None:
    world = World(config=COMPACTED)
    filled(world)
    cleaner, worker = started(world)
    pause(world)
    worker.jobs[0][1](Damaged("at byte 7"))
    world.settle()
    assert cleaner.uncleanable == {PLACE: "at byte 7"}
    pause(world)
    assert len(worker.jobs) == 1
    # Begun anew, it is another log.
    log = world.log()
    cleaner.about_to_cut(log, None)
    assert cleaner.uncleanable == {}


def test_what_was_compacted_is_counted_remembered_and_forgotten_with_the_log() -> None:
    world = World(config=COMPACTED)
    log = filled(world)
    gone = [segment.base_offset for segment in log.segments[1:-1]]
    cleaner, worker = started(world)
    pause(world)
    ((job, told),) = worker.jobs
    world.clock.advance(2.5)
    done = made(world, log, told, job)
    told(done)
    world.settle()
    assert (cleaner.compactions, cleaner.seconds) == (1, 2.5)
    assert cleaner.counts == done.counts
    assert cleaner_entries(world) == {PLACE: log.segments[-1].base_offset}
    pause(world)
    names = world.disk.list(log.directory)
    assert not [base for base in gone if file_names.segment_file(base, ".snapshot") in names]
    assert file_names.segment_file(log.segments[-1].base_offset, ".snapshot") in names
    assert file_names.segment_file(0, ".log") in names
    end = log.segments[-1].base_offset
    entries = cleaner.offsets["/data"].entries
    for cut, left in ((end + 1, end), (end, end), (end - 1, end - 1)):
        cleaner.about_to_cut(log, Offset(cut))
        assert entries[PLACE] == left
    cleaner.about_to_cut(log, None)
    world.settle()
    assert cleaner_entries(world) == {}


def test_a_log_that_is_no_longer_compacted_gives_its_compaction_up() -> None:
    world = World(config=COMPACTED)
    log = filled(world)
    before = rows(log)
    _, worker = started(world)
    pause(world)
    ((job, told),) = worker.jobs
    log.config = replace(log.config, cleanup_policy=frozenset({"delete"}))
    made(world, log, told, job)
    assert worker.asked == ["stop"]
    assert rows(log) == before


def span(payload: bytes, count: int, last_delta: int = 9) -> Span:
    return Span(payload, count, 100, last_delta)


def payload(*pairs: tuple[bytes | None, bytes | None], time: int = 0) -> bytes:
    records = [new_record(value, key, time) for key, value in pairs]
    return bytes(write_records(records, Codec.NONE, 0, None))


def test_records_of_the_fewest_bytes_are_read_and_those_of_none() -> None:
    least = payload((b"", b""))
    assert len(least) == 7
    nothing = bytes([10]) + least[1:6]
    assert PlainRecords(9).index(span(nothing, 1), 0) == (False, 100), "headers are not looked at"
    for count, data in ((0, b""), (1, least), (2, least + bytes([12, 0, 0, 2, 0, 0, 0]))):
        assert PlainRecords(9).index(span(data, count), 0) == (False, 99 + count if count else -1)
    for count, data in ((1, b""), (-1, least), (2, least), (1, least + b"\0"), (1, b"\0" + least)):
        with pytest.raises(CorruptBatch):
            PlainRecords(9).index(span(data, count), 0)
    with pytest.raises(CorruptBatch, match="offset lies outside"):
        PlainRecords(9).index(span(least, 1, -1), 0)


@pytest.mark.parametrize("field", [3, 4])
def test_a_key_and_a_value_reach_to_the_end_of_their_record_and_no_further(field: int) -> None:
    whole = bytearray([12, 0, 0, 0, 1, 1, 0])
    whole[field + 1] = {3: 4, 4: 2}[field]
    keys = PlainRecords(9)
    if field == 3:  # two bytes are left behind its length: then the value's is missing
        with pytest.raises(CorruptBatch, match="number in a record does not end"):
            keys.index(span(bytes(whole), 1), 0)
    else:
        assert keys.index(span(bytes(whole), 1), 0) == (False, 100)
    whole[field + 1] += 2
    with pytest.raises(CorruptBatch, match="runs past its record"):
        keys.index(span(bytes(whole), 1), 0)


def test_keys_are_noted_from_an_offset_on_and_newer_times_are_told() -> None:
    keys = PlainRecords(2)
    data = payload((b"a", b"1"), (b"a", b"2"), (b"b", None))
    assert keys.index(span(data, 3), 101) == (False, 102)
    assert keys.filter(span(data, 3), 102, True).kept == 2
    assert keys.filter(span(data, 3), 102, False).kept == 1
    assert keys.filter(span(data, 3), 100, False)[0::3] == (2, True)
    assert keys.index(span(data, 3), 102) == (True, -1), "no place left, whoever asks"
    times = [new_record(b"v", b"%d" % at, at) for at in (5, 3, 9, 4)]
    timed = bytes(write_records(times, Codec.NONE, 0, None))
    assert PlainRecords(9).filter(span(timed, 4), 0, True).newest_delta == 9
    early = bytes(write_records(times, Codec.NONE, 20, None))
    assert PlainRecords(9).filter(span(early, 4), 0, True).newest_delta == -11
    moved = rebase(early, 4, 20)
    assert PlainRecords(9).filter(span(moved, 4), 0, True).newest_delta == 9
    assert moved == timed
