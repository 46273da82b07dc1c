"""Which partitions of one leader the followers' throttle holds back (KIP-73).

Those that topics name, as long as they lack what is committed and the rate is above its bound: they
are left out of requests, and the others go on.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.replication.fetch_session import Key
from headrace.replication.followed_partition import FollowedPartition

if TYPE_CHECKING:
    from headrace.ports.clock import Timer


class HeldBack:
    """Those of one leader. On the deciding thread."""

    def __init__(
        self,
        broker: Broker,
        ready: Mapping[Key, None],
        members: Mapping[Key, FollowedPartition],
        changed: Callable[[Key], None],
        go_on: Callable[[], None],
    ) -> None:
        """`ready`: of `members`, those that are to be asked for; `changed`: one is, or no more.

        `go_on`: asks, if there is anything to ask for.
        """
        self._clock = broker.clock
        self._throttle = broker.throttles.follower
        self._ready = ready
        self._members = members
        self._changed = changed
        self._go_on = go_on
        self._keys: dict[Key, None] = {}
        self._timer: Timer | None = None
        self._throttle.watch(self._let_go)

    @property
    def count(self) -> int:
        """How many are held back."""
        return len(self._keys)

    def hold(self) -> bool:
        """Hold back what is to wait now; whether anything is left to ask for."""
        throttle = self._throttle
        if not throttle.names_any or not throttle.exceeded:
            return True
        for key in tuple(self._ready):
            member = self._members[key]
            if throttle.throttles(*member.partition.topic_partition) and not member.has_committed:
                member.held_back = True
                self._keys[key] = None
                self._changed(key)
        if self._keys and self._timer is None:
            self._timer = self._clock.call_later(throttle.hold_seconds(), self._let_go)
        return bool(self._ready)

    def _let_go(self) -> None:
        """Ask for all of them again, as far as the rate allows by now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        keys, self._keys = self._keys, {}
        for key in keys:
            self._members[key].held_back = False
        for key in keys:
            self._changed(key)
        self._go_on()

    def forget(self, key: Key) -> None:
        """Hold a partition back no longer that is followed no more."""
        self._keys.pop(key, None)

    def close(self) -> None:
        """Hold nothing back any more, and ask for nothing."""
        self._throttle.unwatch(self._let_go)
        if self._timer is not None:
            self._timer.cancel()
