"""`CommitsInFlight`: how many OffsetCommits of each group are not committed yet.

They are counted by group id. A group that changes its protocol (KIP-848) is represented by another
object afterwards, while its commits remain in flight: offsets belong to the group id, as in Kafka.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class CommitsInFlight:
    """The OffsetCommits and TxnOffsetCommits of one shard that are queued or appended and neither
    committed nor failed yet."""

    _counts: Counter[str] = field(default_factory=Counter)
    _waiting: dict[str, list[Callable[[], None]]] = field(default_factory=dict)

    def __contains__(self, group_id: str) -> bool:
        """Return whether any commit of the group is in flight."""
        return group_id in self._counts

    def begin(self, group_id: str) -> None:
        """Count one more commit of the group, until `end`."""
        self._counts[group_id] += 1

    def end(self, group_id: str) -> None:
        """Count one commit of the group less; after the last, make the postponed calls."""
        left = self._counts[group_id] - 1
        if left:
            self._counts[group_id] = left
            return
        del self._counts[group_id]
        for callback in self._waiting.pop(group_id, ()):
            callback()

    def postpone(self, group_id: str, callback: Callable[[], None]) -> bool:
        """Call `callback` after the last commit in flight of the group is committed or has failed.

        Return False, without a call, if no commit of the group is in flight.
        """
        if group_id not in self._counts:
            return False
        self._waiting.setdefault(group_id, []).append(callback)
        return True
