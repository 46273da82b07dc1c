"""What happens to a group's members by itself, later.

session     the member was not heard of for so long
rebalance   it did not give up what it was told to give up
join, sync  it speaks the classic protocol, and did not follow a rebalance
assign      the target is to be made (the whole group's: no member)
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
        """Call `ring` in `seconds`, whatever was set before."""
        deadline = self._deadlines.get((kind, member_id))
        if deadline is None:
            deadline = self._deadlines[kind, member_id] = deadlines.deadline(ring)
        else:
            deadline.callback = ring
        deadline.set(seconds)

    def is_armed(self, kind: str, member_id: str = "") -> bool:
        """Tell whether the timer is to ring, or has rung and was not disarmed since."""
        return (kind, member_id) in self._deadlines

    def disarm(self, kind: str, member_id: str = "") -> None:
        """Let the timer not ring."""
        deadline = self._deadlines.pop((kind, member_id), None)
        if deadline is not None:
            deadline.cancel()

    def end_of(self, member_id: str) -> None:
        """Let nothing happen to the member by itself any more."""
        for kind in _OF_MEMBERS:
            self.disarm(kind, member_id)

    def end(self) -> None:
        """Let nothing of the group happen by itself any more."""
        for deadline in self._deadlines.values():
            deadline.cancel()
        self._deadlines.clear()
