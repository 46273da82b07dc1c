"""Positions of a former leader that the new one has not committed yet are held, too."""

from types import SimpleNamespace
from typing import Any, cast

from headrace.queues.engine.priority_level import Taken
from headrace.remote_queues.leader.held_positions import LOOKS_MAX, HeldPositions
from tests.support.queues.queues import settings


class LateQueue:
    """A queue with one message at position 3, which is committed later."""

    def __init__(self) -> None:
        self.settings = settings()
        self.committed = self.taken = False
        self.unacked = 0

    def take_below(self, priority: int, below: int) -> Taken | None:
        """Take the message once it is committed."""
        if not self.committed or self.taken or below < 4:
            return None
        self.taken = True
        level = cast("Any", SimpleNamespace(priority=0))
        return Taken(level, (3,), (), (7,), redelivered=True)

    def lacks_below(self, priority: int, below: int) -> bool:
        """Tell whether the message is not committed."""
        return not self.committed

    def end_hold(self, held: int, others: object) -> None:
        """Count the held messages."""
        self.unacked += held


def test_position_is_held_once_its_message_is_committed() -> None:
    queue = LateQueue()
    holding = HeldPositions(cast("Any", queue), cast("Any", None), [3])
    assert not holding.go_on()
    queue.committed = True
    assert holding.go_on()
    assert holding.held == {3: 7}
    assert queue.unacked == 1


def test_message_that_is_not_committed_is_not_waited_for_long() -> None:
    holding = HeldPositions(cast("Any", LateQueue()), cast("Any", None), [3])
    assert [holding.go_on() for _ in range(LOOKS_MAX + 1)] == [False] * LOOKS_MAX + [True]
    assert holding.held == {}
