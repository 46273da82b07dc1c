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
        self._locks: dict[str, dict[LockedQueue, _Lock]] = {}
        """By group."""
        self._pruned_from = _PRUNED_FROM

    def lock(
        self, group: str, client_id: str, queues: Iterable[LockedQueue], now: float
    ) -> list[LockedQueue]:
        """Lock queues for a client; return those that it has now, in their order."""
        if len(self) >= self._pruned_from:
            self._prune(now)
        locks = self._locks.setdefault(group, {})
        held: list[LockedQueue] = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None or lock.client_id == client_id or lock.until <= now:
                locks[queue] = _Lock(client_id, now + LOCK_SECONDS)
                held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[LockedQueue]) -> None:
        """Release the queues that a client holds; others are left as they are."""
        locks = self._locks.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
        if not locks:
            self._locks.pop(group, None)

    def owner(self, group: str, queue: LockedQueue, now: float) -> str | None:
        """Return the client that holds a queue, None if no one does."""
        lock = self._locks.get(group, {}).get(queue)
        return None if lock is None or lock.until <= now else lock.client_id

    def is_ordered(self, group: str, now: float) -> bool:
        """Return whether a member of a group holds a queue: the group consumes in order."""
        return any(lock.until > now for lock in self._locks.get(group, {}).values())

    def _prune(self, now: float) -> None:
        """Remove locks that have ended, when there may be many of them."""
        for group, locks in list(self._locks.items()):
            left = {queue: lock for queue, lock in locks.items() if lock.until > now}
            if left:
                self._locks[group] = left
            else:
                del self._locks[group]
        self._pruned_from = max(_PRUNED_FROM, 2 * len(self))

    def __len__(self) -> int:
        return sum(map(len, self._locks.values()))
