"""`HeldBack`: the partitions of a leader that are left out of fetch requests for a while.

These are partitions that the followers' throttle names (KIP-73), while they lack committed records
and the rate is above its limit; and partitions whose log directory is almost full. The others are
fetched meanwhile.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.replication.fetch_session import Key
from headrace.replication.followed_partition import FollowedPartition

if TYPE_CHECKING:
    from headrace.ports.clock import Timer

FULL_SECONDS = 1.0
"""Seconds until partitions in a directory without free space are fetched again."""


class PausedPartitions:
    """The delayed partitions of one leader. For the deciding thread."""

    def __init__(
        self,
        broker: Broker,
        ready: Mapping[Key, None],
        members: Mapping[Key, FollowedPartition],
        changed: Callable[[Key], None],
        go_on: Callable[[], None],
    ) -> None:
        """Make the holder of delayed partitions; `ready` are those of `members` to fetch now.

        `changed` is called with the key of a partition that was delayed or released; `go_on` sends
        the next request, if any.
        """
        self._clock = broker.clock
        self._throttle = broker.throttles.follower
        self._directories = broker.directories
        self._ready = ready
        self._members = members
        self._changed = changed
        self._go_on = go_on
        self._keys: dict[Key, None] = {}
        self._timer: Timer | None = None
        self._throttle.watch(self._let_go)

    @property
    def count(self) -> int:
        """Number of delayed partitions."""
        return len(self._keys)

    def hold(self) -> bool:
        """Delay partitions that must wait now; return whether any are left to fetch."""
        throttle = self._throttle
        throttled = throttle.names_any and throttle.exceeded
        full = any(directory.context.full for directory in self._directories)
        if not throttled and not full:
            return True
        for key in tuple(self._ready):
            member = self._members[key]
            if member.partition.log.context.full or (throttled and self._is_throttled(member)):
                member.paused = True
                self._keys[key] = None
                self._changed(key)
        if self._keys and self._timer is None:
            seconds = FULL_SECONDS if full else throttle.hold_seconds()
            self._timer = self._clock.call_later(seconds, self._let_go)
        return bool(self._ready)

    def _is_throttled(self, member: FollowedPartition) -> bool:
        named = self._throttle.throttles(*member.partition.topic_partition)
        return named and not member.has_committed

    def _let_go(self) -> None:
        """Release all delayed partitions; the next request delays them again if necessary."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        keys, self._keys = self._keys, {}
        for key in keys:
            self._members[key].paused = False
        for key in keys:
            self._changed(key)
        self._go_on()

    def forget(self, key: Key) -> None:
        """Forget a partition that no longer follows."""
        self._keys.pop(key, None)

    def close(self) -> None:
        """Release nothing more, and stop the timer."""
        self._throttle.unwatch(self._let_go)
        if self._timer is not None:
            self._timer.cancel()
