"""The timers of a modern group.

session     a member sent no request within its session timeout
rebalance   a member did not revoke partitions in time
join, sync  a member of the classic protocol did not follow a rebalance in time
assign      the target assignment is due (one timer for the group, no member id)
"""

from collections.abc import Callable

from headrace.ports.deadlines import Deadline, Deadlines

SESSION, REBALANCE, JOIN, SYNC = "session", "rebalance", "join", "sync"
ASSIGN = "assign"
_OF_MEMBERS = (SESSION, REBALANCE, JOIN, SYNC)


class Timers:
    """The timers of one group, by kind and member id."""

    __slots__ = ("_deadlines",)

    def __init__(self) -> None:
        self._deadlines: dict[tuple[str, str], Deadline] = {}

    def arm(
        self,
        deadlines: Deadlines,
        kind: str,
        member_id: str,
        seconds: float,
        ring: Callable[[], None],
    ) -> None:
        """Call `ring` in `seconds`; a running timer of this kind and member is replaced."""
        deadline = self._deadlines.get((kind, member_id))
        if deadline is None:
            deadline = self._deadlines[kind, member_id] = deadlines.deadline(ring)
        else:
            deadline.callback = ring
        deadline.set(seconds)

    def is_armed(self, kind: str, member_id: str = "") -> bool:
        """Return whether the timer is running, or has fired and was not disarmed since."""
        return (kind, member_id) in self._deadlines

    def disarm(self, kind: str, member_id: str = "") -> None:
        """Cancel the timer."""
        deadline = self._deadlines.pop((kind, member_id), None)
        if deadline is not None:
            deadline.cancel()

    def end_of(self, member_id: str) -> None:
        """Cancel all timers of a member."""
        for kind in _OF_MEMBERS:
            self.disarm(kind, member_id)

    def end(self) -> None:
        """Cancel all timers of the group."""
        for deadline in self._deadlines.values():
            deadline.cancel()
        self._deadlines.clear()
