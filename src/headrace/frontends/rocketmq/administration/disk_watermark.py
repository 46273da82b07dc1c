"""A nearly full file system: sends are refused, and segments are deleted, as by RocketMQ.

Above `rocketmq.disk.max.used.percent` of a log directory's file system, sends to its queues are
answered with SERVICE_NOT_AVAILABLE (14). Pulls, offsets, messages sent back and decisions of
transactions go on. It comes before `log.dirs.free.bytes.min`, which refuses the records of all
protocols' producers, and is measured in the same way (`broker.free_space`).

    used space of a log directory's file system, looked at every 10 s
    above rocketmq.disk.clean.used.percent (75)           expired segments of all topics are
                                                          deleted now, not at the next
                                                          log.retention.check.interval.ms
    above rocketmq.disk.clean.forcibly.used.percent (85)  and rocketmq.clean.file.forcibly.enable:
                                                          the oldest segments are deleted, though
                                                          they are not expired
    above rocketmq.disk.max.used.percent (90)             sends are refused

Unexpired segments are deleted only of topics that RocketMQ's clients have created, or that were
imported or moved from RocketMQ, never of Kafka's topics, AMQP's queues or internal topics, and
never the last segment of a queue. Before each such
deletion retention has run, the files of deleted segments are removed, and the space is measured
again: that takes two looks.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from heapq import merge
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.free_space import LOOK_SECONDS_MAX, FreeSpaceMark
from headrace.frontends.rocketmq.answers import RequestRefused
from headrace.model.errors import ApiError
from headrace.model.nouns import Offset, TopicPartition
from headrace.wire.rocketmq.codes import ResponseCode

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.log.directory.log_directory import LogDirectory
    from headrace.log.log import Log

_logger = logging.getLogger(__name__)
_LOOKS_TO_FREE = 2
"""Looks after which the space of deleted segments is free: the second removes their files."""


class DiskWatermark:
    """Whether sends are accepted, by the used space of each file system. On the deciding thread.

    The space is measured by sends, at most as often as it can change (`FreeSpaceMark.look`).
    """

    def __init__(self, broker: "Broker", used_percent_max: int) -> None:
        """`used_percent_max`: sends are refused above it; 100: never."""
        self._broker = broker
        self._used_percent_max = used_percent_max
        self._marks: dict[str, FreeSpaceMark] = {}
        self._look_at: dict[str, float] = {}
        """By directory: when to measure again, in monotonic seconds."""

    def check(self, log: "Log") -> None:
        """Raise RequestRefused if the file system of a partition's log is above the watermark."""
        if self._used_percent_max >= 100:
            return
        for directory in self._broker.directories:
            if directory.context is log.context:
                self._check(directory.path)

    def _check(self, path: str) -> None:
        mark = self._marks.get(path)
        if mark is None:
            mark = self._marks[path] = FreeSpaceMark(partial(self._broker.disk.free_bytes, path))
        if self._broker.clock.monotonic() >= self._look_at.get(path, 0.0):
            self._look(path, mark)
        if mark.is_low:
            raise RequestRefused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"service not available now: the disk of {path} is more than"
                f" {self._used_percent_max} % full",
            )

    def _look(self, path: str, mark: FreeSpaceMark) -> None:
        was_low, wait = mark.is_low, LOOK_SECONDS_MAX
        try:
            least = self._broker.disk.total_bytes(path) * (100 - self._used_percent_max) // 100
            wait = mark.look(least)
        except OSError as error:
            _logger.warning(
                "%s: cannot read the free space of the file system, retrying; RocketMQ sends are"
                " accepted or refused as before: %s",
                path,
                error,
            )
        self._look_at[path] = self._broker.clock.monotonic() + wait
        if mark.is_low and not was_low:
            _logger.error(
                "%s: %d bytes are free, the disk is above rocketmq.disk.max.used.percent=%d:"
                " RocketMQ sends are refused (14), pulls go on. Free space, shorten the retention"
                " of topics, or raise the setting",
                path, mark.free, self._used_percent_max,
            )  # fmt: skip
        elif was_low and not mark.is_low:
            _logger.warning("%s: %d bytes are free: RocketMQ sends are accepted", path, mark.free)


# Deletions


class CleaningRules(NamedTuple):
    """The settings of the cleaner."""

    expired_percent: int = 75
    """Above it, expired segments are deleted at once; 100: never."""
    forcibly_percent: int = 85
    """Above it, unexpired segments are deleted if `forcibly`."""
    forcibly: bool = False


class _Sealed(NamedTuple):
    """A segment that may be deleted; the first field orders the segments of all logs."""

    newest_ms: int
    place: TopicPartition
    end: Offset
    size: int


class DiskCleaner:
    """The used space of a broker's log directories. On the deciding thread."""

    def __init__(
        self, broker: "Broker", rules: CleaningRules, may_delete: Callable[[TopicPartition], bool]
    ) -> None:
        """`may_delete`: whether unexpired segments of a partition may be deleted."""
        self._broker = broker
        self._rules = rules
        self._may_delete = may_delete
        self._high: set[str] = set()
        """Directories above `expired_percent` at the last look."""
        self._looks: dict[str, int] = {}
        """By directory above `forcibly_percent`: the looks that have found it so."""
        self.deleted_bytes = 0
        """Bytes of unexpired segments that were deleted."""
        self.deleted_segments = 0

    def look(self) -> None:
        """Measure all file systems, and delete where one is above a limit."""
        for directory in self._broker.directories:
            if not directory.fenced:
                self._look(directory)

    def _look(self, directory: "LogDirectory") -> None:
        disk, path, rules = self._broker.disk, directory.path, self._rules
        try:
            total = disk.total_bytes(path)
            used = total - disk.free_bytes(path)
        except OSError as error:
            _logger.warning(
                "%s: cannot read the free space of the file system, retrying: %s", path, error
            )
            return
        if rules.expired_percent >= 100 or used * 100 <= total * rules.expired_percent:
            self._high.discard(path)
            self._looks.pop(path, None)
            return
        if path not in self._high:
            self._high.add(path)
            _logger.warning(
                "%s: more than rocketmq.disk.clean.used.percent=%d %% of the disk is used: expired"
                " segments are deleted at once",
                path, rules.expired_percent,
            )  # fmt: skip
        over = used - total * rules.forcibly_percent // 100
        if not rules.forcibly or over <= 0:
            self._looks.pop(path, None)
            directory.retain_soon()
            return
        looks = self._looks.get(path, 0)
        self._looks[path] = looks + 1
        if looks and looks % _LOOKS_TO_FREE == 0:
            self._delete_unexpired(directory, over)
        directory.make_room()  # retention now; it removes the files that the look before deleted

    def _delete_unexpired(self, directory: "LogDirectory", over: int) -> None:
        """Move the start of logs behind their oldest segments, until these have `over` bytes."""
        logs = [log for place, log in directory.logs.items() if self._may_delete(place)]
        # A log's own order counts: a segment goes after those before it, whatever its time.
        for sealed in merge(*map(_sealed, logs)):
            if over <= 0:
                break
            if self._delete(sealed):
                over -= sealed.size

    def _delete(self, sealed: _Sealed) -> bool:
        place = sealed.place
        try:
            self._broker.partition(*place).delete_records(sealed.end)
        except ApiError as error:
            _logger.warning("%s: the oldest segment is not deleted: %s", place, error)
            return False
        self.deleted_bytes += sealed.size
        self.deleted_segments += 1
        _logger.warning(
            "%s: the disk is above rocketmq.disk.clean.forcibly.used.percent=%d: unexpired messages"
            " below offset %d are deleted, %d bytes, the newest stored at %d ms",
            place, self._rules.forcibly_percent, sealed.end, sealed.size, sealed.newest_ms,
        )  # fmt: skip
        return True


def _sealed(log: "Log") -> Iterator[_Sealed]:
    """Yield the segments of a log before the active one, as far as they are committed."""
    newest = 0
    for at in range(len(log.segments) - 1):
        segment, end = log.segments[at], log.segments[at + 1].base_offset
        if end > log.high_watermark:
            return
        if end > log.start_offset:
            newest = max(newest, segment.largest_timestamp())
            yield _Sealed(newest, log.topic_partition, end, segment.size)
