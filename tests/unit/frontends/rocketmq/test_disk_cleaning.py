"""Segments that are deleted above RocketMQ's watermarks: expired ones, then a client's oldest."""

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.frontends.rocketmq.administration.disk_watermark import CleaningRules, DiskCleaner
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import LeaderEpoch, TopicPartition
from tests.support.log.log import CONFIG, NOW_MS, Held, World, append

TOTAL = 1_000_000
OURS, ALSO_OURS = TopicPartition("ours", 0), TopicPartition("also-ours", 0)
KAFKA, QUEUE = TopicPartition("kafka", 0), TopicPartition("__amqp.queue.work", 0)
FORCIBLY = CleaningRules(forcibly=True)


class Disk:
    """A broker with logs of several segments on a disk whose used part the test says."""

    def __init__(self, rules: CleaningRules) -> None:
        self.world = World(config=replace(CONFIG, segment_bytes=300, retention_ms=3_600_000))
        self.used: int | OSError = 0
        self.partitions: dict[TopicPartition, Partition] = {}
        broker: Any = SimpleNamespace(
            disk=SimpleNamespace(
                total_bytes=lambda path: TOTAL, free_bytes=lambda path: TOTAL - self._used()
            ),
            directories=[self.world.directory],
            partition=lambda topic, number: self.partitions[TopicPartition(topic, number)],
        )
        self.cleaner = DiskCleaner(broker, rules, lambda place: place in (OURS, ALSO_OURS))

    def _used(self) -> int:
        if isinstance(self.used, OSError):
            raise self.used
        return self.used

    def fill(self, place: TopicPartition, *ages_ms: int) -> Partition:
        """Make a log with a segment for each age, and an active one."""
        topic_id = place.topic.encode().ljust(16, b"-")[:16]
        log = self.world.directory.create_log(place, topic_id, self.world.config)
        partition = Partition(log, flusher=self.world.directory.flusher)
        partition.role.lead(LeaderEpoch(1))
        for age in (*ages_ms, 0):
            append(log, b"x" * 100, epoch=1, timestamp=NOW_MS - age)
            if age:
                log.roll()
        self.world.flush(log)
        self.partitions[place] = partition
        return partition

    def look(self, used_percent: int, times: int = 1) -> list[int]:
        """Look at a disk that is so full; return the first offset of each log, in order."""
        self.used = TOTAL * used_percent // 100
        for _ in range(times):
            self.cleaner.look()
            self.world.settle()
        return self.starts()

    def starts(self) -> list[int]:
        """Return the first offset of each log, in the order of their making."""
        return [int(partition.log_start_offset) for partition in self.partitions.values()]


def test_at_75_percent_nothing_is_deleted_before_the_next_retention_check() -> None:
    disk = Disk(FORCIBLY)
    disk.fill(OURS, 7_200_000)
    assert disk.look(75) == [0]


def test_above_75_percent_expired_segments_of_all_topics_are_deleted_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = Disk(CleaningRules())
    disk.fill(OURS, 7_200_000, 1000)
    disk.fill(KAFKA, 7_200_000, 1000)
    assert disk.look(76) == [1, 1]
    assert disk.look(99) == [1, 1], "unexpired segments stay: it is off"
    assert caplog.text.count("rocketmq.disk.clean.used.percent=75") == 1
    assert disk.cleaner.deleted_segments == 0


def test_above_85_percent_the_oldest_segments_of_clients_topics_are_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = Disk(FORCIBLY)
    disk.fill(OURS, 3000, 1000)
    disk.fill(ALSO_OURS, 2000, 500)
    disk.fill(KAFKA, 9000)
    disk.fill(QUEUE, 9000)
    size = disk.world.log(OURS).segments[0].size
    assert disk.look(86, 2) == [0, 0, 0, 0], "retention runs before, and space is measured again"
    disk.used = TOTAL * 85 // 100 + size + 1
    disk.cleaner.look()
    disk.world.settle()
    assert disk.starts() == [1, 1, 0, 0]
    assert (disk.cleaner.deleted_segments, disk.cleaner.deleted_bytes) == (2, 2 * size)
    lines = [each.getMessage() for each in caplog.records if "unexpired" in each.getMessage()]
    assert [line.partition(":")[0] for line in lines] == ["ours-0", "also-ours-0"]
    assert "below offset 1" in lines[0]
    assert f"{size} bytes" in lines[0]


def test_the_files_of_deleted_segments_are_removed_before_more_are_deleted() -> None:
    disk = Disk(FORCIBLY)
    log = disk.fill(OURS, 3000).log
    disk.fill(ALSO_OURS, 2000)
    disk.used = TOTAL * 85 // 100 + 1
    for _ in range(4):
        disk.cleaner.look()
        disk.world.settle()
    assert disk.starts() == [1, 0], "one was enough, and its files are removed by the next look"
    found = disk.world.disk.list(log.directory)
    assert not [name for name in found if name.endswith(".deleted")]
    assert len(log.segments) == 1


def test_the_last_segment_and_one_behind_the_high_watermark_stay() -> None:
    disk = Disk(FORCIBLY)
    partition = disk.fill(OURS, 3000, 2000, 1000)
    partition.log.high_watermark = partition.log.segments[1].base_offset
    assert disk.look(99, 7) == [1]
    partition.log.high_watermark = partition.log.end_offset
    assert disk.look(99, 7) == [3]
    assert len(partition.log.segments) == 1


def test_a_disk_that_fills_again_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk(CleaningRules())
    for times in (1, 2):
        disk.look(76, 3)
        assert caplog.text.count("rocketmq.disk.clean.used.percent=75") == times
        disk.look(75)


@pytest.mark.parametrize("between", [80, 75])
def test_unexpired_segments_stay_when_the_disk_is_below_the_mark_again(between: int) -> None:
    disk = Disk(FORCIBLY)
    disk.fill(OURS, 3000)
    disk.look(90, 2)
    disk.look(between)
    assert disk.look(90, 2) == [0], "it begins again with retention"
    assert disk.look(90) == [1]


def test_segment_that_may_not_be_deleted_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = Disk(FORCIBLY)
    disk.fill(OURS, 3000)
    disk.fill(ALSO_OURS, 2000)
    disk.world.directory.holds.add(OURS, Held((0, 5)))
    assert disk.look(99, 3) == [0, 1]
    assert "ours-0: the oldest segment is not deleted" in caplog.text


def test_disk_that_cannot_be_read_is_looked_at_again(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk(FORCIBLY)
    disk.fill(OURS, 7_200_000)
    disk.used = OSError(5, "Input/output error")
    with caplog.at_level(logging.WARNING):
        disk.cleaner.look()
    assert "cannot read the free space" in caplog.text
    assert disk.look(76) == [1]


def test_partition_that_is_no_longer_led_is_left_out() -> None:
    disk = Disk(FORCIBLY)
    disk.fill(OURS, 3000)
    disk.look(99, 2)
    disk.partitions[OURS].close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(ApiError):
        disk.partitions[OURS].delete_records(1)
    assert disk.look(99) == [0]
