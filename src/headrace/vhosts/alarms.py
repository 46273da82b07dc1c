"""Alarms that block publishers while the broker is low on memory or on disk.

Reasons and timing are RabbitMQ's: `low on memory`, `low on disk & memory`.
"""

import logging
import math
from collections.abc import Callable, Collection

from headrace.broker.free_space import LOOK_SECONDS_MAX, LOOK_SECONDS_MIN, FreeSpaceMark
from headrace.ports.deadlines import Deadlines
from headrace.queue_stores.memory.memory_use import MemoryUse

log = logging.getLogger(__name__)

__all__ = [
    "DISK",
    "LOOK_SECONDS_MAX",
    "LOOK_SECONDS_MIN",
    "MEMORY",
    "TELL_SECONDS",
    "ResourceAlarms",
    "reason_of",
]

DISK, MEMORY = "disk", "memory"
"""The resources that can be low."""

TELL_SECONDS = 60.0
"""Seconds between two log lines about memory.

Where the disk is slower than publishers, memory is short again and again, each time for a fraction
of a second.
"""


def reason_of(low: Collection[str]) -> str | None:
    """Return the reason that publishers are sent (connection.blocked); None: nothing is low."""
    return f"low on {' & '.join(sorted(low))}" if low else None


class ResourceAlarms:
    """The alarms of one broker: memory of all queues, free space of the log directories."""

    def __init__(
        self,
        deadlines: Deadlines,
        memory: MemoryUse,
        free_bytes: Callable[[], int],
        disk_free_bytes_min: int,
        block: Callable[[str | None], None],
    ) -> None:
        """Begin to watch memory and, unless `disk_free_bytes_min` is 0, free disk space.

        `free_bytes` returns the free bytes of the fullest log directory, or raises OSError. `block`
        is called with the reason that publishers are sent, or with None when they may go on.
        """
        self._memory = memory
        self._disk = FreeSpaceMark(free_bytes)
        self._disk_free_bytes_min = disk_free_bytes_min
        self._block = block
        self._now = deadlines.clock.monotonic
        self._tell_from = -math.inf
        self._told = False
        """Whether the log has a line that memory is short, and none yet that it is not."""
        self._next_look = deadlines.deadline(self._look)
        memory.on_short = self._memory_changed
        if disk_free_bytes_min:
            self._next_look.set(0)

    @property
    def low(self) -> frozenset[str]:
        """The resources that are low."""
        found = (DISK if self._disk.is_low else "", MEMORY if self._memory.is_short else "")
        return frozenset(filter(None, found))

    @property
    def reason(self) -> str | None:
        """The reason that publishers are sent (connection.blocked); None: no alarm."""
        return reason_of(self.low)

    def _memory_changed(self) -> None:
        if self._memory.is_short:
            self._next_look.set(LOOK_SECONDS_MIN)
        self._tell_log()
        self._block(self.reason)

    def _tell_log(self) -> None:
        memory, now = self._memory, self._now()
        if memory.is_short and now >= self._tell_from:
            self._told = True
            self._tell_from = now + TELL_SECONDS
            log.warning(
                "AMQP messages in memory use %d bytes, above amqp.memory.bytes.max=%d: publishers"
                " are paused (connection.blocked) until messages are consumed or written to disk."
                " Consume, limit the length of queues, or raise amqp.memory.bytes.max",
                memory.bytes, memory.bytes_max,
            )  # fmt: skip
        elif self._told and not memory.is_short:
            self._told = False
            log.info(
                "AMQP messages in memory are down to %d bytes: publishers resumed", memory.bytes
            )

    def _look(self) -> None:
        wait = self._look_at_disk() if self._disk_free_bytes_min else LOOK_SECONDS_MAX
        memory = self._memory
        memory.look()
        if memory.is_short:
            wait = LOOK_SECONDS_MIN
        if memory.is_short or self._disk_free_bytes_min:
            self._next_look.set(wait)

    def _look_at_disk(self) -> float:
        """Compare the free space with the bound; return the seconds until the next check."""
        least, was_low = self._disk_free_bytes_min, self._disk.is_low
        try:
            wait = self._disk.look(least)
        except OSError as error:
            log.warning(
                "cannot read the free space of log.dirs, retrying; the disk alarm is unchanged: %s",
                error,
            )
            return LOOK_SECONDS_MAX
        if self._disk.is_low is not was_low:
            if self._disk.is_low:
                log.warning(
                    "a directory of log.dirs has %d bytes free, less than"
                    " amqp.disk.free.bytes.min=%d: publishers are paused (connection.blocked) until"
                    " there is more", self._disk.free, least,
                )  # fmt: skip
            else:
                log.info(
                    "the directories of log.dirs have %d bytes free: publishers resumed",
                    self._disk.free,
                )
            self._block(self.reason)
        return wait
