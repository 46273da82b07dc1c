"""`FreeSpace`: refuse producers before a file system is full.

    free bytes of a log directory's file system, against m = log.dirs.free.bytes.min
    below 2 m + 1 MiB   the reserve file of the next start (1 MiB) is written if m stay free
    below m             clients' records are refused (KAFKA_STORAGE_ERROR); retention runs at once,
                        repeatedly, and deletes files without delay
    below m / 2         followers stop fetching too

A full disk would fence the directory until a restart. Reads, commits and transactions continue.
Followers have the lower limit, so that they are not the first to leave the ISR.
"""

import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.config.broker import BrokerConfig
from headrace.config.free_space import free_bytes_min
from headrace.log.directory import reserve
from headrace.log.directory.log_directory import LogDirectory
from headrace.ports.clock import Clock
from headrace.ports.disk import Disk

if TYPE_CHECKING:
    from headrace.ports.clock import Timer

_logger = logging.getLogger(__name__)
LOOK_SECONDS_MAX = 10.0
LOOK_SECONDS_MIN = 0.1
"""Bounds of the seconds between two measurements of a file system's free space."""
FILL_BYTES_PER_SECOND = 250_000_000
"""Fastest growth of a log directory, for the time until the next measurement."""


class FreeSpaceMark:
    """The free space of a log directory against a threshold. The caller runs the timer."""

    def __init__(self, free_bytes: Callable[[], int]) -> None:
        """Make a mark; `free_bytes` may raise OSError."""
        self._free_bytes = free_bytes
        self.is_low = False
        self.free = 0
        """Free bytes at the last measurement."""
        self.acted_at = -math.inf
        """When space was last freed or reserved, in monotonic seconds."""

    def look(self, least: int) -> float:
        """Compare the free bytes with `least`; return the seconds until the next call.

        Raises OSError.
        """
        self.free = self._free_bytes()
        self.is_low = self.free < least
        seconds = abs(self.free - least) / FILL_BYTES_PER_SECOND
        return min(max(seconds, LOOK_SECONDS_MIN), LOOK_SECONDS_MAX)


class FreeSpace:
    """The free space of a broker's log directories. On the deciding thread."""

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        clock: Clock,
        disk: Disk,
        config: Callable[[], BrokerConfig],
    ) -> None:
        """Make the free space check of `directories`; `config` returns the current settings."""
        self._clock = clock
        self._disk = disk
        self._config = config
        self._marks = [
            (directory, FreeSpaceMark(partial(disk.free_bytes, directory.path)))
            for directory in directories
        ]
        self._timer: Timer | None = None
        self._is_near = False
        """Whether one pass of requests may fill the disk below a threshold before the next look."""

    def start(self) -> None:
        """Measure now and periodically from now on."""
        self.stop()
        waits = [self._look(*each) for each in self._marks if not each[0].fenced]
        if waits:
            self._is_near = min(waits) <= LOOK_SECONDS_MIN
            self._timer = self._clock.call_later(min(waits), self.start)

    def wrote(self) -> None:
        """Measure again if the writes of a pass may have crossed a threshold."""
        if self._is_near:
            self.start()

    def stop(self) -> None:
        """Stop measuring the free space."""
        self._is_near = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def least(self, directory: LogDirectory) -> int:
        """Return the threshold of a directory in bytes; 0: no threshold. Raises OSError."""
        configured = self._config().log_dirs_free_bytes_min
        total = self._disk.total_bytes(directory.path) if configured is None else 0
        return free_bytes_min(configured, total)

    def _look(self, directory: LogDirectory, mark: FreeSpaceMark) -> float:
        context = directory.context
        try:
            least = self.least(directory)
            wait = mark.look(least)
        except OSError as error:
            _logger.warning(
                "%s: cannot read the free space of the file system, retrying: %s",
                directory.path,
                error,
            )
            return LOOK_SECONDS_MAX
        context.full = mark.free < least // 2
        was_low, context.low = bool(context.low), ""
        if mark.is_low:
            context.low = (
                f"log directory {directory.path} has {mark.free} bytes free, less than"
                f" log.dirs.free.bytes.min={least}; it accepts records again once there is space"
            )
        self._report(directory, mark, least, was_low=was_low)
        self._act(directory, mark, least, was_low=was_low)
        return wait

    def _act(
        self, directory: LogDirectory, mark: FreeSpaceMark, least: int, *, was_low: bool
    ) -> None:
        """Free space below the threshold; near it, write the reserve file of the next start.

        A reserve that took the space below the threshold could fill a small file system, or leave a
        clean stop too little for its checkpoints.
        """
        now = self._clock.monotonic()
        is_due = now - mark.acted_at >= LOOK_SECONDS_MAX or (mark.is_low and not was_low)
        if not is_due or mark.free >= 2 * least + reserve.RESERVE_BYTES:
            return
        mark.acted_at = now
        if mark.is_low:
            directory.make_room()
        else:
            self._disk.run(partial(reserve.make, self._disk, directory.path, least), _made)

    def _report(
        self, directory: LogDirectory, mark: FreeSpaceMark, least: int, *, was_low: bool
    ) -> None:
        if mark.is_low and not was_low:
            _logger.error(
                "%s: %d bytes are free, less than log.dirs.free.bytes.min=%d: producers are refused"
                " (KAFKA_STORAGE_ERROR), reads go on; retention runs now. Free space, or shorten"
                " retention: headrace topic alter NAME -c retention.ms=…",
                directory.path, mark.free, least,
            )  # fmt: skip
        elif was_low and not mark.is_low:
            _logger.warning(
                "%s: %d bytes are free: producers are accepted again", directory.path, mark.free
            )


def _made(result: BaseException | None) -> None:
    if isinstance(result, BaseException):
        raise result
