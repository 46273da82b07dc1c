"""A queue whose ready messages below a position are taken or purged in parts.

The messages are taken as they are read from the disk, so that no part holds up the event loop.
"""

from abc import abstractmethod
from collections.abc import Iterable
from enum import Enum

from headrace.model.errors import HeadraceError
from headrace.queues.engine.message_queue import MessageQueue
from headrace.queues.engine.priority_level import MessageLevel, Taken

PURGED_AT_ONCE = 2000
"""Messages that one call of `purge_below` settles at most, which takes some milliseconds."""


class Purged(Enum):
    """How much of a queue one call of `HostedQueue.purge_below` has purged."""

    ALL = "all"
    SOME = "some"
    BEING_READ = "being read"
    """The next message is still being read from the disk."""


class PurgingQueue(MessageQueue):
    """A queue's ready messages below a position, which are taken in parts."""

    _store_error: HeadraceError | None = None
    """Why a store has failed."""

    @property
    @abstractmethod
    def is_loading(self) -> bool:
        """Whether messages of the log are still being loaded: the queue is not empty."""

    def take_below(self, priority: int, below: int) -> Taken | None:
        """Take up to `PURGED_AT_ONCE` ready messages below a position; None: none are left.

        Empty: they are still being read from the disk. The caller settles them, or calls
        `end_hold`.
        """
        level = self._levels.get(priority)
        if self.deleted or level is None:
            return None
        if self.is_loading:
            return Taken(level, (), (), (), redelivered=True)
        taken = level.take_below(below, PURGED_AT_ONCE)
        if taken is None or (not taken.positions and self._store_error is not None):
            return None
        self.ready -= len(taken.positions)
        self.ready_bytes -= sum(taken.sizes)
        return taken

    def purge_below(self, priority: int, below: int) -> Purged:
        """Settle up to `PURGED_AT_ONCE` ready messages below a position; call again until `ALL`."""
        taken = self.take_below(priority, below)
        if taken is None:
            return Purged.ALL
        if not taken.positions:
            return Purged.BEING_READ
        taken.level.settle(taken.positions)
        return Purged.SOME

    def end_hold(self, held: int, others: Iterable[tuple[MessageLevel, int, int]]) -> None:
        """Count `held` messages of `take_below` as unacknowledged, and requeue the others.

        Each of the others by its level, its position in it and the bytes of its body.
        """
        self.unacked += held
        for level, position, size in others:
            level.give_back((position,))
            self.ready += 1
            self.ready_bytes += size
