"""Sends are refused while a file system is nearly full, as by RocketMQ's disk watermark.

Above `rocketmq.disk.max.used.percent` of a log directory's file system, sends to its queues are
answered with SERVICE_NOT_AVAILABLE (14). Pulls, offsets, messages sent back and decisions of
transactions go on. It comes before `log.dirs.free.bytes.min`, which refuses the records of all
protocols' producers, and is measured in the same way (`broker.free_space`).
"""

import logging
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.free_space import LOOK_SECONDS_MAX, FreeSpaceMark
from headrace.frontends.rocketmq.answers import RequestRefused
from headrace.wire.rocketmq.codes import ResponseCode

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.log.log import Log

_logger = logging.getLogger(__name__)


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
