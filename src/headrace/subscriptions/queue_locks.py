"""Locks of queues: ordered consumption lets one member of a group at a time read a queue.

A member renews its locks every 20 s. A lock ends when its owner releases it, or `LOCK_SECONDS`
after it was last taken: then its owner is gone, and another member may consume.
"""

from collections.abc import Iterable
from typing import NamedTuple

LOCK_SECONDS = 60.0
"""Seconds for which a lock holds without renewal, as in RocketMQ."""
_PRUNED_FROM = 1024


class LockedQueue(NamedTuple):
    """A queue as its clients name it."""

    topic: str
    broker_name: str
    queue_id: int


class _Lock(NamedTuple):
    client_id: str
    until: float


class QueueLocks:
    """The locks of all groups. Times are monotonic seconds that callers pass."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, LockedQueue], _Lock] = {}
        self._pruned_from = _PRUNED_FROM

    def lock(
        self, group: str, client_id: str, queues: Iterable[LockedQueue], now: float
    ) -> list[LockedQueue]:
        """Lock queues for a client; return those that it has now, in their order."""
        if len(self._locks) >= self._pruned_from:
            self._prune(now)
        held: list[LockedQueue] = []
        for queue in queues:
            lock = self._locks.get((group, queue))
            if lock is None or lock.client_id == client_id or lock.until <= now:
                self._locks[group, queue] = _Lock(client_id, now + LOCK_SECONDS)
                held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[LockedQueue]) -> None:
        """Release the queues that a client holds; others are left as they are."""
        for queue in queues:
            lock = self._locks.get((group, queue))
            if lock is not None and lock.client_id == client_id:
                del self._locks[group, queue]

    def owner(self, group: str, queue: LockedQueue, now: float) -> str | None:
        """Return the client that holds a queue, None if no one does."""
        lock = self._locks.get((group, queue))
        return None if lock is None or lock.until <= now else lock.client_id

    def is_ordered(self, group: str, now: float) -> bool:
        """Return whether a member of a group holds a queue: the group consumes in order."""
        return any(place[0] == group and lock.until > now for place, lock in self._locks.items())

    def _prune(self, now: float) -> None:
        """Remove locks that have ended, when there may be many of them."""
        self._locks = {place: lock for place, lock in self._locks.items() if lock.until > now}
        self._pruned_from = max(_PRUNED_FROM, 2 * len(self._locks))

    def __len__(self) -> int:
        return len(self._locks)
