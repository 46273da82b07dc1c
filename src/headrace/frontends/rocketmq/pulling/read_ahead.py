"""`ReadAhead`: messages that were read from the log for a pull, and are left for the next one.

A read returns 256 KB, and a pull asks for 32 messages: without it each pull would read, check and
find its place in the same batches again.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.pulling.reading import MessageReader
    from headrace.log.log import Log
    from headrace.subscriptions.group_offsets import QueuePlace

READERS_MAX = 32
"""Queues of groups with messages left; each has `reading.READ_BYTES`, or one larger batch."""


class _Left(NamedTuple):
    """The messages that are left of a read."""

    log: "Log"
    truncations: int
    reader: "MessageReader"


class ReadAhead:
    """The rest of the newest reads, by group and queue. On the deciding thread."""

    def __init__(self) -> None:
        self._left: dict[QueuePlace, _Left] = {}
        self._idle: set[QueuePlace] = set()
        """Places that no pull has used since the last call of `expire`."""

    def __len__(self) -> int:
        return len(self._left)

    def take(self, place: "QueuePlace", log: "Log", offset: int) -> "MessageReader | None":
        """Return and forget the rest of a read at an offset, None: read the log."""
        left = self._left.pop(place, None)
        if (
            left is None
            or left.log is not log
            or left.truncations != log.truncations
            or left.reader.at != offset
        ):
            return None
        return left.reader

    def keep(self, place: "QueuePlace", log: "Log", reader: "MessageReader") -> None:
        """Keep the rest of a read; the oldest of too many are forgotten."""
        self._idle.discard(place)
        self._left[place] = _Left(log, log.truncations, reader)
        if len(self._left) > READERS_MAX:
            del self._left[next(iter(self._left))]

    def expire(self) -> None:
        """Forget each read that no pull has continued since the last call."""
        for place in self._idle:
            self._left.pop(place, None)
        self._idle = set(self._left)
