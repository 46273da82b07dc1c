"""When a log directory does what nobody asks it for: flushes, rolls, retention, removals."""

from functools import partial

from headrace.config.log_config import LogConfig
from headrace.log.directory.periods import Periods
from headrace.log.flusher import GATHER_SECONDS
from headrace.log.log import Log
from headrace.log.retention import apply_retention
from headrace.model.nouns import TopicPartition
from tests.support.log.log import NOW_MS, PLACE, World, append, append_marker, held_from

PERIODS = Periods(
    checkpoint_ms=5_000,
    retention_check_ms=7_000,
    producer_id_expiration_ms=60_000,
    producer_expiry_check_ms=7_000,
)


def started(config: LogConfig | None = None, periods: Periods = PERIODS) -> tuple[World, Log]:
    """A world at its duties, its one log flushed and empty."""
    world = World(config=config or LogConfig(), periods=periods)
    log = world.log()
    world.flush(log)
    world.directory.start()
    world.settle()
    return world, log


def wait(world: World, seconds: float) -> None:
    world.clock.advance(seconds)
    world.settle()


def in_segments(world: World, log: Log, count: int, *, age_ms: int = 0) -> None:
    """One record in each of `count` segments, all flushed."""
    for number in range(count):
        if number:
            log.roll()
        append(log, b"x" * 100, timestamp=NOW_MS - age_ms)
    world.flush(log)


def deleted(world: World, place: TopicPartition = PLACE) -> int:
    """How many `.log` files wait for their removal."""
    return len([name for name in world.disk.list(f"/data/{place}") if name.endswith("log.deleted")])


# --- flushes ------------------------------------------------------------------------------------


def test_a_flush_that_nobody_waits_for_lets_more_gather_whatever_was_urgent_before() -> None:
    world, log = started()
    flusher = world.directory.flusher
    for _ in range(2):
        append(log, b"x")
        flusher.flush_later(log)
        before = flusher.flushes
        world.clock.advance(GATHER_SECONDS / 2)
        append(log, b"gathered")
        flusher.flush_later(log)
        world.settle()
        assert (flusher.flushes - before, flusher.idle) == (0, False)
        wait(world, GATHER_SECONDS / 2)
        assert (flusher.flushes - before, flusher.idle) == (1, True)
        assert log.flushed_offset == log.end_offset
        append(log, b"urgent")
        flusher.flush_soon(log)
        world.settle()
        assert log.flushed_offset == log.end_offset
    world.close()


def test_an_urgent_flush_does_not_wait_for_what_gathers_and_is_the_only_one() -> None:
    world, log = started()
    flusher = world.directory.flusher
    before = flusher.flushes
    append(log, b"x")
    flusher.flush_later(log)
    flusher.flush_soon(log)
    world.settle()
    assert log.flushed_offset == 1
    wait(world, 1)
    assert flusher.flushes == before + 1
    world.close()


def test_what_must_not_happen_during_a_flush_happens_when_it_is_over() -> None:
    world, log = started()
    flusher = world.directory.flusher
    heard: list[str] = []
    append(log, b"x")
    flusher.flush_soon(log)
    world.clock.turn()
    flusher.after_current(lambda: heard.append("after the flush"))
    assert heard == []
    world.settle()
    assert heard == ["after the flush"]
    flusher.after_current(lambda: heard.append("at once"))
    assert heard == ["after the flush", "at once"]
    world.close()


def test_after_a_failed_flush_nothing_waits_for_another() -> None:
    world, log = started()
    flusher = world.directory.flusher
    world.disk.fail_syncs(0)
    append(log, b"x")
    flusher.flush_soon(log)
    world.clock.turn()
    append(log, b"y")
    flusher.flush_soon(log)
    world.settle()
    assert world.directory.fenced
    assert flusher.idle
    world.close()


# --- rolls --------------------------------------------------------------------------------------


def test_jitter_has_segments_roll_earlier_by_at_most_so_much() -> None:
    world = World(config=LogConfig(segment_ms=1000, segment_jitter_ms=400))
    rolled = set()
    for number in range(20):
        log = world.log(TopicPartition("t", number))
        for ahead in range(0, 1100, 10):
            append(log, b"x", timestamp=NOW_MS + ahead)
            if len(log.segments) > 1:
                rolled.add(ahead)
                break
    assert min(rolled) > 600
    assert max(rolled) <= 1010
    assert len(rolled) > 5
    world.close()


def test_jitter_beyond_the_time_to_roll_is_cut_to_it() -> None:
    world = World(config=LogConfig(segment_ms=100, segment_jitter_ms=1 << 40))
    for number in range(20):
        assert world.log(TopicPartition("t", number)).segments[0].jitter_ms <= 100
    world.close()


def test_a_first_batch_without_a_time_is_none_to_measure_from() -> None:
    world = World(config=LogConfig(segment_ms=1000))
    log = world.log()
    append(log, b"when?", timestamp=-1)
    append(log, b"now", timestamp=NOW_MS)
    append(log, b"later", timestamp=NOW_MS + 5000)
    assert len(log.segments) == 1
    world.close()


# --- duties -------------------------------------------------------------------------------------


def test_retention_comes_by_each_time_its_period_has_passed() -> None:
    world, log = started(LogConfig(retention_ms=10_000, file_delete_delay_ms=1))
    for _ in range(3):
        append(log, b"x", timestamp=world.clock.wall_ms() - 10_001)
        world.flush(log)
        wait(world, 6.9)
        assert log.start_offset < log.end_offset
        wait(world, 0.1)
        assert log.start_offset == log.end_offset
    world.close()


def test_every_log_has_its_turn_however_many_there_are() -> None:
    world = World(config=LogConfig(retention_ms=1000), periods=PERIODS)
    logs = [world.log(TopicPartition("t", number)) for number in range(205)]
    for log in logs:
        append(log, b"x", timestamp=NOW_MS - 2000)
        world.directory.flusher.flush_soon(log)
    world.settle()
    for log in logs:
        log.high_watermark = log.flushed_offset
    world.directory.start()
    wait(world, 7.1)
    assert [log.topic_partition for log in logs if log.start_offset != 1] == []
    world.close()


def test_what_a_reader_still_wants_is_held_through_the_duties_too() -> None:
    world, log = started(LogConfig(retention_ms=1000))
    in_segments(world, log, 3, age_ms=5000)
    held = held_from(1)
    world.directory.holds.add(PLACE, held)
    wait(world, 7.1)
    assert log.start_offset == 1
    held.runs.clear()
    wait(world, 7)
    assert log.start_offset == 3
    world.close()


def test_silent_producers_are_forgotten_by_the_duties_unless_their_transaction_is_open() -> None:
    world, log = started(LogConfig(retention_ms=-1))
    append(log, b"x", producer=(1, 0, 0))
    append(log, b"x", producer=(2, 0, 0), transactional=True)
    world.flush(log)
    wait(world, 56.1)
    assert 1 in log.producers
    wait(world, 7)
    assert 1 not in log.producers
    assert 2 in log.producers
    append_marker(log, 2, commit=True)
    wait(world, 7)
    assert 2 not in log.producers
    world.close()


def test_checkpoints_are_written_each_time_their_period_has_passed() -> None:
    world, log = started()
    path = "/data/recovery-point-offset-checkpoint"

    def said() -> bytes:
        file = world.disk.open(path, writable=False)
        try:
            return file.read(0, file.size())
        finally:
            file.close()

    for number in range(1, 4):
        append(log, b"x")
        world.flush(log)
        wait(world, 4.9)
        assert said() != b"0\n1\nt 0 %d\n" % number
        wait(world, 0.1)
        assert said() == b"0\n1\nt 0 %d\n" % number
    world.close()


# --- removals -----------------------------------------------------------------------------------


def test_deleted_files_are_removed_when_their_time_has_come_and_not_before() -> None:
    world, log = started(LogConfig(retention_bytes=0, retention_ms=-1, file_delete_delay_ms=60_000))
    in_segments(world, log, 3)
    assert apply_retention(log, NOW_MS) == 3
    wait(world, 59.9)
    assert deleted(world) == 3
    wait(world, 0.1)
    assert deleted(world) == 0
    world.close()


def test_removals_come_in_the_order_of_their_times_whatever_order_they_were_asked_in() -> None:
    world, _ = started()
    heard: list[int] = []
    for delay_ms in (9000, 3000, 6000, 3000):
        world.directory.remove_later(delay_ms, partial(heard.append, delay_ms))
    found = []
    for _ in range(10):
        found.append(list(heard))
        wait(world, 1)
    assert found == [[]] * 3 + [[3000, 3000]] * 3 + [[3000, 3000, 6000]] * 3 + [
        [3000, 3000, 6000, 9000]
    ]
    world.close()


def test_a_removal_waits_for_the_flush_that_holds_its_files() -> None:
    world, log = started()
    heard: list[str] = []
    world.directory.remove_later(1000, lambda: heard.append("removed"))
    append(log, b"x")
    world.directory.flusher.flush_soon(log)
    world.clock.turn()
    world.clock.advance(2)
    assert heard == []
    world.settle()
    assert heard == ["removed"]
    world.close()


def test_a_stopped_directory_does_nothing_more() -> None:
    world, log = started(LogConfig(retention_ms=1000))
    heard: list[str] = []
    world.directory.remove_later(1000, lambda: heard.append("removed"))
    append(log, b"x", timestamp=NOW_MS - 5000)
    world.flush(log)
    world.directory.close()
    before = len(world.disk.ops)
    assert world.clock.turn() == 0
    for _ in range(10):
        world.clock.advance(1)
        assert heard == []
    wait(world, 1000)
    assert len(world.disk.ops) == before
