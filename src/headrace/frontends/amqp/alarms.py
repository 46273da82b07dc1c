"""Stops those who publish while the broker is low on memory or on disk.

The words and the moment are RabbitMQ's: `low on memory`, `low on disk & memory`.
"""

import logging
import math
from collections.abc import Callable

from headrace.coordination.queues.messages.memory_use import MemoryUse
from headrace.ports.deadlines import Deadlines

log = logging.getLogger(__name__)

LOOK_SECONDS_MAX = 10.0
LOOK_SECONDS_MIN = 0.1
"""Between looks at the disk; also at the memory while it is short."""
FILL_BYTES_PER_SECOND = 250_000_000
"""How fast a disk may fill: the next look comes before it can have reached the bound."""
TELL_SECONDS = 60.0
"""After the log was told that memory is short: where a disk does not keep up with who publishes,
it is so again and again, for a fraction of a second each."""


class ResourceAlarms:
    """The memory of all queues and the free space of the log directories of one broker."""

    def __init__(
        self,
        deadlines: Deadlines,
        memory: MemoryUse,
        free_bytes: Callable[[], int],
        disk_free_bytes_min: int,
        block: Callable[[str | None], None],
    ) -> None:
        """`free_bytes`: tells what the fullest directory has free. OSError.

        `disk_free_bytes_min`: 0 asks for no bound. `block` is told what publishers are told, None
        when they may go on.
        """
        self._memory = memory
        self._free_bytes = free_bytes
        self._disk_free_bytes_min = disk_free_bytes_min
        self._block = block
        self._low_on_disk = False
        self._now = deadlines.clock.monotonic
        self._tell_from = -math.inf
        self._told = False
        """The log was told that memory is short."""
        self._next_look = deadlines.deadline(self._look)
        memory.on_short = self._memory_changed
        if disk_free_bytes_min:
            self._next_look.set(0)

    @property
    def reason(self) -> str | None:
        """What publishers are told; None: they may go on."""
        found = ("disk" if self._low_on_disk else "", "memory" if self._memory.is_short else "")
        short = " & ".join(filter(None, found))
        return f"low on {short}" if short else None

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
                "messages of AMQP in memory take %d bytes, amqp.memory.bytes.max is %d: who"
                " publishes is held up until the disk has taken some, or a consumer. Consume, give"
                " queues a length limit, or set it higher", memory.bytes, memory.bytes_max,
            )  # fmt: skip
        elif self._told and not memory.is_short:
            self._told = False
            log.info("messages of AMQP in memory take %d bytes: publishers go on", memory.bytes)

    def _look(self) -> None:
        wait = self._look_at_disk() if self._disk_free_bytes_min else LOOK_SECONDS_MAX
        memory = self._memory
        memory.look()
        if memory.is_short:
            wait = LOOK_SECONDS_MIN
        if memory.is_short or self._disk_free_bytes_min:
            self._next_look.set(wait)

    def _look_at_disk(self) -> float:
        """Compare with the bound; returns the seconds after which to look again."""
        least = self._disk_free_bytes_min
        try:
            free = self._free_bytes()
        except OSError as error:
            log.warning("cannot tell the free space of log.dirs (%s): looks again", error)
            return LOOK_SECONDS_MAX
        if (free < least) is not self._low_on_disk:
            self._low_on_disk = free < least
            if self._low_on_disk:
                log.warning(
                    "a directory of log.dirs has %d bytes free, less than"
                    " amqp.disk.free.bytes.min=%d: who publishes by AMQP is held up until there is"
                    " more", free, least,
                )  # fmt: skip
            else:
                log.info("the directories of log.dirs have %d bytes free: publishers go on", free)
            self._block(self.reason)
        seconds = abs(free - least) / FILL_BYTES_PER_SECOND
        return min(max(seconds, LOOK_SECONDS_MIN), LOOK_SECONDS_MAX)
