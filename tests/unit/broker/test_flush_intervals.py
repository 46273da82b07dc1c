"""`flush.ms` with a clock that the test moves: what is flushed, when, and who is left alone."""

from dataclasses import dataclass
from typing import Any, cast

from headrace.broker.flush_intervals import ROUND_MS_MAX, FlushIntervals
from headrace.broker.partition import Partition
from headrace.config.log_config import LogConfig
from headrace.log.directory.log_directory import LogDirectory
from headrace.model.nouns import LeaderEpoch, TopicPartition
from headrace.testing.clock import SimClock, SimRandom
from headrace.testing.disk import SimDisk
from tests.support.processes.broker import append


@dataclass
class Settings:
    """What the rounds ask of a broker's configuration."""

    log_flush_on_ack: bool = False
    log_flush_scheduler_interval_ms: int = ROUND_MS_MAX


class CountingClock(SimClock):
    """Counts how often it was asked to call back."""

    asked = 0

    def call_later(self, *arguments: Any) -> Any:
        """As a clock does."""
        self.asked += 1
        return super().call_later(*arguments)


class Place:
    """A log on a simulated disk, and the rounds that flush it."""

    def __init__(self, flush_ms: int | None = None) -> None:
        self.clock = CountingClock()
        self.disk = SimDisk(self.clock.wall_ms)
        self.directory = LogDirectory.open(
            self.disk, self.clock, SimRandom(), "/data", broker_id=0, cluster_id="c"
        )
        config = LogConfig() if flush_ms is None else LogConfig(flush_ms=flush_ms)
        self.log = self.directory.create_log(TopicPartition("t", 0), bytes(16), config)
        self.settings = Settings()
        self.clock.turn()
        self.disk.settle()
        self.partition = Partition(self.log, flusher=self.directory.flusher, flush_on_ack=False)
        self.partition.role.lead(LeaderEpoch(0))
        self.clock.advance(1)
        self.rounds = FlushIntervals(
            self.clock, [self.directory], lambda: cast("Any", self.settings)
        )

    def append(self) -> None:
        """Append a record without asking for a flush."""
        append(self.partition)

    def unflushed(self) -> int:
        """How many records wait for a flush, once the disk has done what it was asked for."""
        self.clock.turn()
        self.disk.settle()
        return self.log.end_offset - self.log.flushed_offset


def test_a_record_waits_for_its_flush_as_long_as_its_topic_says_and_so_does_the_next() -> None:
    place = Place(flush_ms=1000)
    place.rounds.arm()
    place.clock.advance(0)
    for _ in range(3):
        place.append()
        assert place.unflushed() == 1
        place.clock.advance(1.0)
        assert place.unflushed() == 0
        place.clock.advance(0.5)


def test_a_log_that_was_flushed_lately_is_left_alone_until_its_interval_is_over() -> None:
    place = Place(flush_ms=1000)
    place.settings.log_flush_scheduler_interval_ms = 100
    place.rounds.arm()
    place.append()
    place.clock.advance(0.2)
    assert place.unflushed() == 0, "it was never flushed before"
    place.append()
    place.clock.advance(0.5)
    assert place.unflushed() == 1
    place.clock.advance(0.6)
    assert place.unflushed() == 0


def test_where_no_topic_has_an_interval_nobody_is_woken() -> None:
    place = Place()
    place.rounds.arm()
    place.append()
    place.clock.advance(2 * ROUND_MS_MAX / 1000)
    assert place.unflushed() == 1, "small files of a new log alone are flushed"
    asked = place.clock.asked
    place.append()
    place.clock.advance(2 * ROUND_MS_MAX / 1000)
    assert place.unflushed() == 2
    assert place.clock.asked == asked


def test_rounds_that_were_stopped_flush_nothing() -> None:
    place = Place(flush_ms=1000)
    place.rounds.arm()
    place.append()
    place.rounds.stop()
    place.clock.advance(5)
    assert place.unflushed() == 1


def test_where_every_acknowledgement_waits_for_a_flush_there_are_no_rounds() -> None:
    place = Place(flush_ms=1000)
    place.rounds.arm()
    place.settings.log_flush_on_ack = True
    place.append()
    place.clock.advance(5)
    assert place.unflushed() == 1


def test_rounds_that_are_under_way_end_with_the_stop() -> None:
    place = Place(flush_ms=1000)
    place.rounds.arm()
    place.clock.advance(0.5)  # the first round is set
    place.append()
    place.rounds.stop()
    place.clock.advance(5)
    assert place.unflushed() == 1


def test_rounds_follow_each_other_no_faster_than_every_fifty_milliseconds() -> None:
    place = Place(flush_ms=1)
    place.rounds.arm()
    place.clock.advance(0)
    asked = place.clock.asked
    place.clock.advance(1.02)
    assert place.clock.asked == asked + 20
