"""The scrub finds what rots unread, says it once, and neither hides nor harms anything by it."""

import errno
import logging
from typing import Any

import pytest

from headrace.config.log_config import LogConfig
from headrace.log.directory import scrub
from headrace.log.directory.periods import Periods
from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset, TopicPartition
from tests.support.log.log import PLACE, World, append, truncate_to, values

RATE = 10_000
CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200, segment_index_bytes=1024)
PERIODS = Periods(scrub_bytes_per_second=RATE, scrub_interval_ms=3_600_000)


def filled(periods: Periods = PERIODS) -> tuple[World, Log]:
    world = World(config=CONFIG, periods=periods)
    log = world.log()
    for number in range(12):
        append(log, b"%02d" % number * 100)
    world.flush(log)
    world.directory.start()
    return world, log


def wait(world: World, seconds: float) -> None:
    for _ in range(int(seconds * 10)):
        world.clock.advance(0.1)
        world.disk.settle()
    world.settle()


def test_every_byte_is_read_once_a_period_and_no_faster_than_allowed() -> None:
    world, log = filled()
    total = sum(segment.size for segment in log.segments)
    wait(world, 60)
    assert world.directory.scrub.scrubbed <= RATE
    wait(world, 10)
    assert world.directory.scrub.scrubbed == total
    wait(world, 600)
    assert world.directory.scrub.scrubbed == total
    wait(world, 3000)
    assert world.directory.scrub.scrubbed == 2 * total
    world.close()


def test_a_rate_below_a_segment_a_second_is_kept_on_the_long_run() -> None:
    world, log = filled(Periods(scrub_bytes_per_second=100, scrub_interval_ms=60_000))
    total = sum(segment.size for segment in log.segments)
    wait(world, 60 + total / 100 - 12)
    assert 0 < world.directory.scrub.scrubbed < total
    wait(world, 14)
    assert world.directory.scrub.scrubbed == total
    world.close()


def test_a_rate_of_zero_reads_nothing() -> None:
    world, _ = filled(Periods(scrub_bytes_per_second=0, scrub_interval_ms=1000))
    wait(world, 100)
    assert world.directory.scrub.scrubbed == 0
    world.close()


@pytest.mark.parametrize("byte", [3, 10, 16, 18, 70], ids=str)
def test_damage_is_said_once_and_costs_its_own_batch_only(
    byte: int, caplog: pytest.LogCaptureFixture
) -> None:
    world, log = filled()
    wanted = values(log)
    segment = log.segments[1]
    found = segment.find(log.segments[1].base_offset, segment.file.read)
    assert found is not None
    second = found[1].batch_length + 12
    bad = segment.base_offset + 1
    world.disk.flip(segment.path(".log"), second + byte, 0x40)
    wait(world, 3700)
    assert world.directory.context.damaged == 1
    (said,) = [line for line in caplog.messages if "damaged" in line]
    assert f"{segment.path('.log')} at byte {second}" in said
    assert f"offset {bad}" in said
    with pytest.raises(ApiError) as refused:
        values(log, bad, bad + 1)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert values(log, 0, bad) == {at: wanted[at] for at in range(bad)}
    after = log.segments[2].base_offset
    assert values(log, after) == {at: wanted[at] for at in range(after, 12)}
    append(log, b"still taken")
    assert world.directory.context.damaged == 1
    assert PLACE not in world.directory.quarantined
    world.close()


def test_two_damages_in_one_segment_are_two() -> None:
    world, log = filled()
    segment = log.segments[0]
    assert log.segments[1].base_offset >= 3
    size = segment.size // int(log.segments[1].base_offset)
    world.disk.flip(segment.path(".log"), 70)
    world.disk.flip(segment.path(".log"), 2 * size + 70)
    wait(world, 80)
    assert world.directory.context.damaged == 2
    world.close()


def test_what_the_memory_had_wrong_and_the_disk_has_right_is_no_damage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    world, log = filled()
    path = log.segments[1].path(".log")
    world.disk.flip(path, 80)
    forget = type(world.disk.open(path)).forget

    def heal(self: object, position: int, size: int) -> None:
        world.disk.flip(path, 80)
        monkey.undo()

    monkey = pytest.MonkeyPatch()
    monkey.setattr(type(world.disk.open(path)), "forget", heal)
    wait(world, 80)
    assert forget is type(world.disk.open(path)).forget
    assert world.directory.context.damaged == 0
    assert any("a second read from the disk is valid" in line for line in caplog.messages)
    world.close()


def test_what_was_not_in_the_page_cache_is_let_go_again_and_what_was_stays() -> None:
    for cold in (False, True):
        world, log = filled()
        world.disk.cold = cold
        wait(world, 80)
        total = sum(segment.size for segment in log.segments)
        assert world.directory.scrub.scrubbed == total
        assert world.disk.forgotten == (total if cold else 0)
        world.close()


def test_segments_and_partitions_that_go_meanwhile_are_passed_over() -> None:
    world, log = filled(Periods(scrub_bytes_per_second=300, scrub_interval_ms=1000))
    gone = TopicPartition("u", 0)
    other = world.directory.create_log(gone, b"another topic's.", world.config)
    append(other, b"x" * 500)
    world.flush(other)
    wait(world, 2)
    log.config = LogConfig(segment_bytes=1000, retention_bytes=500, file_delete_delay_ms=0)
    world.directory.apply_retention()
    world.directory.delete_log(gone)
    wait(world, 60)
    assert world.directory.context.damaged == 0
    assert not world.directory.fenced
    before = world.directory.scrub.scrubbed
    wait(world, 10)
    assert world.directory.scrub.scrubbed > before
    world.close()


def test_a_disk_that_cannot_be_read_fences_the_directory_and_nothing_more_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = 0

    def fail(*_: object) -> None:
        nonlocal reads
        reads += 1
        raise OSError(errno.EIO, "the disk is gone")

    world, _ = filled()
    monkeypatch.setattr(scrub, "_read", fail)
    wait(world, 60)
    assert world.directory.fenced
    assert (reads, world.directory.scrub.scrubbed) == (1, 0)
    world.close()


def test_a_log_that_is_truncated_and_appended_to_while_it_is_read_is_no_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = scrub._read
    world, log = filled()
    last = log.segments[-1]
    left = [True]

    def truncated_before(*args: Any) -> Any:
        if left and args[1].segment is last:
            left.clear()
            truncate_to(log, Offset(log.end_offset - 2))
            for _ in range(9):
                append(log, b"later")
        return read(*args)

    monkeypatch.setattr(scrub, "_read", truncated_before)
    wait(world, 80)
    assert not left
    assert world.directory.context.damaged == 0
    world.disk.flip(last.path(".log"), 70)
    wait(world, 3700)
    assert world.directory.context.damaged == 1, "the next round reads the segment"
    world.close()


def test_a_file_that_goes_while_it_is_read_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    read = scrub._read
    gone = [True]

    def once_gone(*args: Any) -> Any:
        if gone:
            gone.clear()
            raise FileNotFoundError
        return read(*args)

    world, log = filled()
    total = sum(segment.size for segment in log.segments)
    monkeypatch.setattr(scrub, "_read", once_gone)
    wait(world, 70)
    assert not world.directory.fenced
    assert 0 < world.directory.scrub.scrubbed == total - log.segments[0].size
    world.close()
